package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Sources is where Load looks, from weak to strong: defaults, File, Env, Overrides.
type Sources struct {
	// File is the path of a zoo.cfg; "": there is none, and the defaults make a durable
	// server on 127.0.0.1:2181 with its data in ./zkd-data.
	File string
	// Env has "NAME=value" pairs, as os.Environ returns them; only ZKD_ names count.
	Env []string
	// Overrides are flags; a later one wins.
	Overrides []Override
	// InMemory is for `zkd dev`: no folder is needed or looked into.
	InMemory bool
	// MyID, with InMemory, says which of the servers this is: there is no file myid.
	MyID int
	// ReadFile reads every file; nil means os.ReadFile.
	ReadFile func(name string) ([]byte, error)
}

// An Override is one key set by a flag.
type Override struct {
	Key, Value string
	Origin     string // for messages: "flag --client-port"
}

// Load reads and lays over each other all sources, and returns what is in force. The error,
// if any, is an *Error with everything that is wrong. Warnings are for the log, one line
// each; they come with an error too.
func Load(src Sources) (*Config, []Warning, error) {
	if src.ReadFile == nil {
		src.ReadFile = os.ReadFile
	}
	b := &builder{src: src, cfg: &Config{File: src.File, InMemory: src.InMemory}, values: map[string]value{}}
	if !b.collect() {
		return nil, b.warnings, &Error{b.problems}
	}
	b.applyDefaults()
	b.applyValues()
	b.settle()
	b.warnNoMeaning()
	b.listSettings()
	b.inOrder()
	if len(b.problems) > 0 {
		return nil, b.warnings, &Error{b.problems}
	}
	return b.cfg, b.warnings, nil
}

// A value is one key with a text, from one place.
type value struct {
	key     *Key
	name    string // canonical, with the number of a family's member
	written string // as it is in the source
	text    string
	origin  Origin
}

// shown is the text, unless it is a secret.
func (v value) shown() string {
	if v.key.Kind == KindSecret {
		return NewSecret(v.text).String()
	}
	return v.text
}

// builder is the work of one Load. Steps run in the order of Load; each may report
// problems, and the ones after it go on with what is there, so that one run finds them all.
type builder struct {
	src      Sources
	cfg      *Config
	values   map[string]value // in force, by canonical name
	problems []Problem
	warnings []Warning
	files    []string // in the order in which they were read

	members    []memberLine
	groups     map[int]int // group by server number
	groupLines []value
	weights    []weightLine
	providers  []authProvider
}

func (b *builder) problem(o Origin, key, format string, args ...any) {
	b.problems = append(b.problems, Problem{o, key, fmt.Sprintf(format, args...)})
}

func (b *builder) warn(o Origin, key, text string) {
	b.warnings = append(b.warnings, Warning{Origin: o, Key: key, Text: text})
}

// collect fills values from the sources, the weakest first. Without the file that was asked
// for there is no point in going on.
func (b *builder) collect() (ok bool) {
	if b.src.File != "" {
		text, ok := b.read(b.src.File, "", Origin{})
		if !ok {
			return false
		}
		entries := parseProperties(text)
		b.addEntries(b.src.File, entries)
		b.cfg.InitialConfig = maskSecrets(text, entries)
	}
	b.environment(b.src.Env)
	for _, o := range b.src.Overrides {
		b.add(value{written: o.Key, text: javaTrim(o.Value), origin: Origin{Name: o.Origin}})
	}
	b.dynamicFile()
	return true
}

// read reads a file that the key, set at o, names.
func (b *builder) read(name, key string, o Origin) ([]byte, bool) {
	b.files = append(b.files, name)
	text, err := b.src.ReadFile(name)
	if err == nil {
		return text, true
	}
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err // the name is in the message already
	}
	if key == "" {
		o = Origin{File: name}
		b.problem(o, "", "cannot be read: %v", err)
	} else {
		b.problem(o, key, "%s cannot be read: %v", name, err)
	}
	return nil, false
}

func (b *builder) addEntries(file string, entries []entry) {
	for _, e := range entries {
		o := Origin{File: file, Line: e.line}
		switch {
		case e.err != nil:
			b.problem(o, e.key, "%v", e.err)
		case e.key == "":
			b.problem(o, "", `there is no key before "="; allowed: key=value`)
		default:
			b.add(value{written: e.key, text: e.value, origin: o})
		}
	}
}

// add lays v over what is known. Within one file a second value is worth a warning.
func (b *builder) add(v value) {
	var known bool
	if v.key, v.name, known = table().lookup(v.written); !known {
		b.unknown(v)
		return
	}
	old, set := b.values[v.name]
	switch {
	case set && old.origin.File != "" && old.origin.File == v.origin.File:
		b.warn(v.origin, v.written, fmt.Sprintf("set before in line %d; this line counts", old.origin.Line))
	case set && old.origin.variable() && v.origin.variable():
		b.warn(v.origin, v.written, fmt.Sprintf("set by %s as well; this one counts", old.origin))
	}
	b.values[v.name] = v
}

func (b *builder) unknown(v value) {
	suggestion := table().suggest(v.written)
	ours := strings.HasPrefix(strings.TrimPrefix(v.written, "zookeeper."), "zkd.")
	switch {
	case ours:
		b.problem(v.origin, v.written, "unknown key of zkd%s", suggestion)
	case v.origin.File == "": // a flag: somebody means it
		b.problem(v.origin, v.written, "unknown key%s", suggestion)
	default:
		b.warn(v.origin, v.written, "unknown key, ignored (ZooKeeper would set a Java system property)"+suggestion)
	}
}

// applyDefaults puts the defaults of the table into the Config, through the same setters as
// any other value: what the reference says is what happens.
func (b *builder) applyDefaults() {
	for i := range table().keys {
		k := &table().keys[i]
		text := k.Default
		if b.src.File == "" && k.DefaultNoFile != "" {
			text = k.DefaultNoFile
		}
		if text == "" || k.set == nil || k.Status == NoMeaning {
			continue
		}
		if err := k.set(b, value{key: k, name: k.Name, written: k.Name, text: text}); err != nil {
			panic(fmt.Sprintf("config: the default of %s is bad: %v", k.Name, err))
		}
	}
	b.cfg.PurgeIntervalMs = -1
}

func (b *builder) applyValues() {
	for _, v := range b.sorted() {
		if v.key.set == nil {
			continue
		}
		if err := v.key.set(b, v); err != nil {
			b.problem(v.origin, v.written, "%v", err)
		}
	}
}

// sorted returns the values in force in the order of their names.
func (b *builder) sorted() []value {
	list := make([]value, 0, len(b.values))
	for _, v := range b.values {
		list = append(list, v)
	}
	slices.SortFunc(list, func(x, y value) int { return cmp.Compare(x.name, y.name) })
	return list
}

// settle decides what depends on several keys. The order matters: members know the client
// ports of this server, ports decide about TLS, TLS and SASL decide which schemes exist.
func (b *builder) settle() {
	b.settleFolders()
	b.settleSessions()
	b.settleLimits()
	b.settleFourLetterWords()
	b.settleCluster()
	b.settlePorts()
	b.settleTLS()
	b.settleFaces()
	b.settleSASL()
	b.settleAuth()
}

// flag returns a boolean key that has no field of its own.
func (b *builder) flag(name string) bool {
	v, set := b.values[name]
	if !set {
		v.text = table().byName[name].Default
	}
	on, err := parseBool(v.text)
	if err != nil {
		b.problem(v.origin, v.written, "%v", err)
	}
	return on
}

// number returns a number without a field of its own, def if it is not set.
func (b *builder) number(name string, low, high, def int64) int64 {
	v, set := b.values[name]
	if !set {
		return def
	}
	n, err := parseInteger(v.text, low, high)
	if err != nil {
		b.problem(v.origin, v.written, "%v", err)
		return def
	}
	return n
}

// warnNoMeaning names in one line all keys that are set to no effect.
func (b *builder) warnNoMeaning() {
	var names []string
	for _, v := range b.sorted() {
		if v.key.Status == NoMeaning && !slices.Contains(v.key.agrees, v.text) {
			names = append(names, v.name)
		}
	}
	if len(names) > 0 {
		b.warnings = append(b.warnings, Warning{
			Keys: names,
			Text: "these keys have no meaning in zkd and are ignored: " + strings.Join(names, ", "),
		})
	}
}

func (b *builder) listSettings() {
	for _, v := range b.sorted() {
		b.cfg.Settings = append(b.cfg.Settings, Setting{v.name, v.shown(), v.origin, NewSecret(v.text)})
	}
}

// inOrder sorts problems and warnings as one reads: file by file, line by line, then what
// belongs to no file.
func (b *builder) inOrder() {
	compare := func(x, y Origin) int {
		return cmp.Or(cmp.Compare(b.rank(x), b.rank(y)), cmp.Compare(x.Line, y.Line))
	}
	slices.SortStableFunc(b.problems, func(x, y Problem) int { return compare(x.Origin, y.Origin) })
	slices.SortStableFunc(b.warnings, func(x, y Warning) int { return compare(x.Origin, y.Origin) })
}

func (b *builder) rank(o Origin) int {
	if i := slices.Index(b.files, o.File); i >= 0 {
		return i
	}
	return len(b.files)
}

// maskSecrets returns the text of a file with "***" for every secret, and for every unknown
// key that looks like one.
func maskSecrets(file []byte, entries []entry) string {
	lines := naturalLines(propertiesText(file))
	for _, e := range slices.Backward(entries) {
		if secretKey(e.key) || e.err != nil {
			lines = slices.Replace(lines, e.line-1, e.lastLine, e.key+"="+hidden)
		}
	}
	return strings.Join(lines, "\n")
}

func secretKey(name string) bool {
	if k, known := Lookup(name); known {
		return k.Kind == KindSecret
	}
	lower := strings.ToLower(name)
	return strings.Contains(lower, "password") || strings.Contains(lower, "secret")
}
