package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A Status says what becomes of a key.
type Status string

const (
	// Honoured: the server does what the key says.
	Honoured Status = "honoured"
	// Kept: the key is read and validated, for a part of the server that not every release
	// has (ensembles, admin server, metrics). It is never ignored in silence where such a
	// part exists.
	Kept Status = "kept"
	// NoMeaning: there is nothing in zkd that the key could control; Doc says why. The value
	// is not even looked at. A key that is set is named in the one warning about such keys.
	NoMeaning Status = "no meaning"
)

// A Kind is the syntax of a value.
type Kind string

// The kinds. Every value is trimmed first.
const (
	KindInt      Kind = "number"   // decimal, or hexadecimal with 0x
	KindBool     Kind = "boolean"  // true or false in any case
	KindEnum     Kind = "word"     // one of a few
	KindString   Kind = "text"     // anything
	KindList     Kind = "list"     // separated by commas
	KindPath     Kind = "path"     // relative ones belong to the process directory
	KindAddress  Kind = "address"  // IP address or host name
	KindInterval Kind = "interval" // number with ms, s, m, h or d
	KindSecret   Kind = "secret"   // anything, never shown
	KindClass    Kind = "class"    // name of a Java class
	KindServer   Kind = "server"   // the text of a Member
)

// A Key is what is known about one key of the configuration: the row of a reference table.
type Key struct {
	Name    string   // as ZooKeeper's documentation has it; "server.N" is a family
	Aliases []string // other names; each name is also known with "zookeeper." before it
	Group   string   // heading in the reference
	Kind    Kind
	Allowed string // in words; "" if Kind says it all
	// Default is in force when nobody sets the key; "" is none. DefaultNoFile takes its
	// place when there is no configuration file.
	Default, DefaultNoFile string
	Status                 Status
	Doc                    string // what it does, with the unit; why it has no meaning
	Env                    string // environment variable; underscores after ZKD_ do not count
	Unit                   string // of a number: ms, ticks, bytes, KiB; "" is a plain number
	Since                  string // "zkd", or the release of ZooKeeper that brought it
	// Changeable: a new value is in force once a running server has read its configuration
	// again (SIGHUP); any other key needs a restart.
	Changeable bool

	prefix string // of a family: "server."
	// set puts the value into b.cfg, or keeps it in b for later; nil: nothing to put.
	set func(b *builder, v value) error
	// agrees says that zkd does what the value says although the key has no meaning.
	agrees []string
}

// Keys returns all known keys, group by group. The result is the caller's.
func Keys() []Key { return slices.Clone(table().keys) }

// Lookup finds what is known about a name as somebody wrote it, for example
// "zookeeper.server.3" or "tickTime".
func Lookup(name string) (Key, bool) {
	k, _, ok := table().lookup(name)
	if !ok {
		return Key{}, false
	}
	return *k, true
}

// keyTable is the immutable list of keys with its indexes.
type keyTable struct {
	keys     []Key
	byName   map[string]*Key // names and aliases, but no families
	families []*Key
	names    []string // all names and aliases, for suggestions
}

const withoutMeaning = "Without a meaning in zkd"

var table = sync.OnceValue(func() *keyTable {
	t := &keyTable{byName: map[string]*Key{}}
	for _, g := range []struct {
		name string
		keys []Key
	}{
		{"Ports and folders", basicKeys()},
		{"Sessions and limits", limitKeys()},
		{"Data", dataKeys()},
		{"zkd", zkdKeys()},
		{"Cluster", clusterKeys()},
		{"Authentication", authKeys()},
		{"TLS for clients", tlsKeys()},
		{"TLS between servers", quorumTLSKeys()},
		{"Admin server", adminKeys()},
		{"Metrics", metricsKeys()},
		{withoutMeaning, noMeaningKeys()},
	} {
		for _, k := range g.keys {
			k.Group, k.Env = g.name, envName(k.Name)
			if k.Status == NoMeaning {
				k.Group = withoutMeaning
			}
			k.Unit, k.Since = unitOf(&k), sinceOf(&k)
			t.keys = append(t.keys, k)
		}
	}
	last := func(k Key) bool { return k.Group == withoutMeaning } // those of the group together
	t.keys = append(slices.DeleteFunc(slices.Clone(t.keys), last), slices.DeleteFunc(t.keys, func(k Key) bool { return !last(k) })...)
	for i := range t.keys {
		k := &t.keys[i]
		t.names = append(append(t.names, k.Name), k.Aliases...)
		if k.prefix != "" {
			t.families = append(t.families, k)
			continue
		}
		for _, name := range append([]string{k.Name}, k.Aliases...) {
			if t.byName[name] != nil {
				panic("config: two keys are named " + name)
			}
			t.byName[name] = k
		}
	}
	return t
})

// lookup returns the key and the canonical name: without "zookeeper.", no alias, and with
// the number of a family's member.
func (t *keyTable) lookup(written string) (k *Key, canonical string, ok bool) {
	for _, name := range []string{written, strings.TrimPrefix(written, "zookeeper.")} {
		if k := t.byName[name]; k != nil {
			return k, k.Name, true
		}
		for _, k := range t.families {
			if rest, found := strings.CutPrefix(name, k.prefix); found && rest != "" {
				return k, name, true
			}
		}
	}
	return nil, "", false
}

// suggest is "; did you mean tickTime?" or "".
func (t *keyTable) suggest(written string) string {
	if best := nearest(strings.TrimPrefix(written, "zookeeper."), t.names); best != "" {
		return "; did you mean " + best + "?"
	}
	return ""
}

func (k Key) alias(names ...string) Key     { k.Aliases = names; return k }
func (k Key) withoutFile(def string) Key    { k.DefaultNoFile = def; return k }
func (k Key) changeable() Key               { k.Changeable = true; return k }
func (k Key) kept() Key                     { k.Status = Kept; return k }
func (k Key) agreeing(values ...string) Key { k.agrees = values; return k }

// integer is a key whose number goes into a field.
func integer[T int | int32 | int64](name, def string, low, high int64, field func(*Config) *T, doc string) Key {
	return Key{
		Name: name, Kind: KindInt, Default: def, Status: Honoured, Doc: doc, Allowed: rangeText(low, high),
		set: func(b *builder, v value) error {
			n, err := parseInteger(v.text, low, high)
			if err == nil {
				*field(b.cfg) = T(n)
			}
			return err
		},
	}
}

func rangeText(low, high int64) string {
	if high == math.MaxInt32 || high == math.MaxInt64 {
		return strconv.FormatInt(low, 10) + " or more"
	}
	return fmt.Sprintf("%d to %d", low, high)
}

func boolean(name, def string, field func(*Config) *bool, doc string) Key {
	return Key{
		Name: name, Kind: KindBool, Default: def, Status: Honoured, Doc: doc,
		set: func(b *builder, v value) error {
			on, err := parseBool(v.text)
			if err == nil {
				*field(b.cfg) = on
			}
			return err
		},
	}
}

// yesNo is for the few keys that say yes and no; ZooKeeper takes any other word for one of
// the two in silence.
func yesNo(name, def string, field func(*Config) *bool, doc string) Key {
	return Key{
		Name: name, Kind: KindEnum, Default: def, Status: Honoured, Doc: doc, Allowed: "yes or no",
		set: func(b *builder, v value) error {
			err := parseEnum(v.text, []string{"yes", "no"})
			if err == nil {
				*field(b.cfg) = v.text == "yes"
			}
			return err
		},
	}
}

func enum[T ~string](name, def string, allowed []string, field func(*Config) *T, doc string) Key {
	return Key{
		Name: name, Kind: KindEnum, Default: def, Status: Honoured, Doc: doc, Allowed: alternatives(allowed),
		set: func(b *builder, v value) error {
			err := parseEnum(v.text, allowed)
			if err == nil {
				*field(b.cfg) = T(v.text)
			}
			return err
		},
	}
}

func text(name, def string, field func(*Config) *string, doc string) Key {
	return Key{
		Name: name, Kind: KindString, Default: def, Status: Honoured, Doc: doc,
		set: func(b *builder, v value) error {
			*field(b.cfg) = v.text
			return nil
		},
	}
}

func path(name, def string, field func(*Config) *string, doc string) Key {
	k := text(name, def, field, doc)
	k.Kind = KindPath
	return k
}

func secret(name string, field func(*Config) *Secret, doc string) Key {
	return Key{
		Name: name, Kind: KindSecret, Status: Honoured, Doc: doc,
		set: func(b *builder, v value) error {
			*field(b.cfg) = NewSecret(v.text)
			return nil
		},
	}
}

// address takes IPv6 with or without brackets.
func address(name, def string, field func(*Config) *string, doc string) Key {
	return Key{
		Name: name, Kind: KindAddress, Default: def, Status: Honoured, Doc: doc,
		set: func(b *builder, v value) error {
			host := v.text
			if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
				host = host[1 : len(host)-1]
			}
			err := checkHost(host)
			if err == nil {
				*field(b.cfg) = host
			}
			return err
		},
	}
}

// later is a key that several others decide about: settle reads it from b.values.
func later(name string, kind Kind, allowed, def, doc string) Key {
	return Key{Name: name, Kind: kind, Allowed: allowed, Default: def, Status: Honoured, Doc: doc}
}

// required makes an empty value an error; elsewhere it is the same as none.
func (k Key) required() Key {
	set := k.set
	k.set = func(b *builder, v value) error {
		if v.text == "" {
			return fmt.Errorf("the value is empty; allowed: a value (%s), or no such line", k.Kind)
		}
		if set == nil {
			return nil
		}
		return set(b, v)
	}
	return k
}

// family is a key with a number or a word of the user's behind the last dot.
func family(name string, kind Kind, allowed, doc string, set func(b *builder, v value) error) Key {
	dot := strings.LastIndexByte(name, '.')
	return Key{
		Name: name, Kind: kind, Allowed: allowed, Status: Honoured, Doc: doc,
		prefix: name[:dot+1], set: set,
	}
}

// noMeaning is a key of ZooKeeper that nothing in zkd could obey; def is ZooKeeper's.
func noMeaning(name string, kind Kind, def, why string) Key {
	return Key{Name: name, Kind: kind, Default: def, Status: NoMeaning, Doc: why}
}
