package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/config"
)

// What the documents name must exist: commands, flags, keys, variables, files. A reader who
// copies a line that does not work trusts none of the others.

// A document is a file for users, its blocks of code by language, and the code in its text.
type document struct {
	name   string
	blocks map[string][]string
	inline []string
}

var (
	fence      = regexp.MustCompile("(?ms)^ *```([a-z]*)\n(.*?)^ *```$")
	inlineCode = regexp.MustCompile("`([^`\n]+)`")
	link       = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
)

func documents(t *testing.T) []document {
	t.Helper()
	names, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	var docs []document
	for _, name := range append(names, "../../README.md") {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		d := document{name: name, blocks: map[string][]string{}}
		for _, m := range fence.FindAllStringSubmatch(string(text), -1) {
			d.blocks[m[1]] = append(d.blocks[m[1]], m[2])
		}
		for _, m := range inlineCode.FindAllStringSubmatch(fence.ReplaceAllString(string(text), ""), -1) {
			d.inline = append(d.inline, m[1])
		}
		docs = append(docs, d)
	}
	return docs
}

// commandEnd is where another command begins, or what is no part of the command.
var commandEnd = regexp.MustCompile(`\s+(#|\||>|<|&&|/ zkd )|;\s`)

// commands are the words of each zkd that the document starts.
func (d *document) commands() [][]string {
	var list [][]string
	lines := slices.Clone(d.inline)
	for _, lang := range []string{"sh", ""} {
		for _, b := range d.blocks[lang] {
			lines = append(lines, strings.Split(strings.ReplaceAll(b, "\\\n", " "), "\n")...)
		}
	}
	for _, line := range lines {
		line = strings.TrimSpace(line)
		for strings.HasPrefix(line, "ZOO_") || strings.HasPrefix(line, "docker exec ") { // variables before it, a container around it
			_, rest, _ := strings.Cut(line, " zkd ")
			line = "zkd " + rest
		}
		if !strings.HasPrefix(line, "zkd ") {
			continue
		}
		if at := commandEnd.FindStringIndex(line); at != nil {
			line = line[:at[0]]
		}
		if words := strings.Fields(line)[1:]; len(words) > 0 {
			list = append(list, words)
		}
	}
	return list
}

// help is what `zkd WORDS --help` prints.
func help(t *testing.T, words ...string) string {
	t.Helper()
	key := strings.Join(words, " ")
	helpLock.Lock()
	defer helpLock.Unlock()
	if helpTexts[key] == "" {
		out, err := exec.Command(zkdBinary, append(slices.Clone(words), "--help")...).CombinedOutput()
		require.NoError(t, err, "zkd %s --help: %s", key, out)
		helpTexts[key] = string(out)
	}
	return helpTexts[key]
}

var (
	helpLock  sync.Mutex
	helpTexts = map[string]string{}
)

// listed says whether a help text has a line that begins with the word, or with each of
// several: save|restore. Lines that are further in are descriptions.
func listed(text, words string) bool {
	return !slices.ContainsFunc(strings.Split(words, "|"), func(word string) bool {
		return !regexp.MustCompile(`(?m)^  ` + regexp.QuoteMeta(word) + `( |$)`).MatchString(text)
	})
}

// wrongCommand says what is wrong with a command that a document shows, "" if nothing is.
func wrongCommand(t *testing.T, words []string) string {
	t.Helper()
	var at []string
	text := help(t)
	for len(words) > 0 && strings.Contains(text, "Available Commands:") {
		if placeholder(words[0]) || words[0] == "--help" || words[0] == "man" { // man is hidden
			return ""
		}
		_, list, _ := strings.Cut(text, "Available Commands:")
		if !listed(list, words[0]) {
			return fmt.Sprintf("zkd %s has no command %s", strings.Join(at, " "), words[0])
		}
		at, words = append(at, words[0]), words[1:]
		if at[0] == "cli" {
			return wrongShellCommand(t, words)
		}
		text = help(t, at...)
	}
	for _, w := range words {
		flag, _, _ := strings.Cut(w, "=")
		if strings.HasPrefix(flag, "--") && !regexp.MustCompile(`(?m)(^|\s)`+regexp.QuoteMeta(flag)+`(\s|$)`).MatchString(text) {
			return fmt.Sprintf("zkd %s has no flag %s", strings.Join(at, " "), flag)
		}
	}
	return ""
}

// placeholder is a word in place of others: COMMAND, […], <path>, …
func placeholder(word string) bool {
	return strings.ToUpper(word) == word || strings.ContainsAny(word[:1], "[<{")
}

// wrongShellCommand is about `zkd cli`, whose options have one dash. An option with a value
// has a word in capitals behind it in the help.
func wrongShellCommand(t *testing.T, words []string) string {
	t.Helper()
	text := help(t, "cli")
	options, commands, _ := strings.Cut(text, "\nCommands:")
	for len(words) > 0 && strings.HasPrefix(words[0], "-") {
		if !listed(options, words[0]) {
			return "zkd cli has no option " + words[0]
		}
		takesValue := regexp.MustCompile(`(?m)^ +` + words[0] + ` [A-Z]+ `).MatchString(options)
		words = words[1:]
		if takesValue && len(words) > 0 {
			words = words[1:]
		}
	}
	if len(words) > 0 && !placeholder(words[0]) && !listed(commands, words[0]) {
		return "zkd cli has no command " + words[0]
	}
	return ""
}

func TestCommandsInTheDocumentsExist(t *testing.T) {
	count := 0
	for _, d := range documents(t) {
		for _, words := range d.commands() {
			count++
			if wrong := wrongCommand(t, words); wrong != "" {
				t.Errorf("%s: zkd %s: %s", d.name, strings.Join(words, " "), wrong)
			}
		}
	}
	require.Greater(t, count, 50, "the commands are no longer found")
	for _, wrong := range []string{"serv", "serve --confg x", "cert make", "cli -servers a ls /", "cli list /", "member list --all"} {
		require.NotEmpty(t, wrongCommand(t, strings.Fields(wrong)), "%s passes", wrong)
	}
}

// Blocks of properties are lines for a zoo.cfg: they must be what the server takes.
func TestPropertiesInTheDocumentsAreTaken(t *testing.T) {
	count := 0
	for _, d := range documents(t) {
		for _, block := range d.blocks["properties"] {
			count++
			_, warnings, err := config.Load(config.Sources{File: "zoo.cfg", ReadFile: func(name string) ([]byte, error) {
				switch name {
				case "zoo.cfg":
					return []byte("dataDir=/nowhere\nclientPort=2181\n" + block), nil
				case "/etc/zkd/jaas.conf":
					return []byte(strings.Join(jaasBlocks(&d), "\n")), nil
				case "/etc/zkd/admin-token", "/etc/zkd/peer.pass":
					return []byte("some long text of many characters\n"), nil
				}
				return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
			}})
			require.NoError(t, err, "%s:\n%s", d.name, block)
			require.Empty(t, warnings, "%s:\n%s", d.name, block)
		}
	}
	require.Greater(t, count, 3)
}

func jaasBlocks(d *document) []string {
	var list []string
	for _, b := range d.blocks[""] {
		if strings.HasPrefix(b, "Server {") {
			list = append(list, b)
		}
	}
	return list
}

var (
	ourKey      = regexp.MustCompile(`^(zkd\.[a-zA-Z0-9.]+|[a-zA-Z0-9.]+\.[a-zA-Z]+)(=.*)?$`)
	assignment  = regexp.MustCompile(`^([a-zA-Z][a-zA-Z0-9_.]*)=[^=]*$`)
	ourVariable = regexp.MustCompile(`^(ZKD|ZOO)_[A-Z0-9_]+`)
	fileName    = regexp.MustCompile(`\.(md|cfg|go|pem|service|json|yaml|db|log|conf|sh|tar|gz)$`)
	// looksLikeKey leaves out assignments of other kinds, as Type=notify and CN=app.
	looksLikeKey = regexp.MustCompile(`^([a-zA-Z0-9]+\.[a-zA-Z0-9.]+|[a-z]+[A-Z][a-zA-Z]*)$`)
)

func TestKeysInTheDocumentsExist(t *testing.T) {
	count := 0
	for _, d := range documents(t) {
		for _, text := range d.inline {
			key := ""
			switch m := assignment.FindStringSubmatch(text); {
			case m != nil && !ourVariable.MatchString(text):
				key = m[1]
			case strings.HasPrefix(text, "zkd.") && ourKey.MatchString(text) && !fileName.MatchString(text):
				key, _, _ = strings.Cut(text, "=")
			}
			if !looksLikeKey.MatchString(key) {
				continue
			}
			count++
			if _, known := config.Lookup(key); !known && key != "zkd.version" { // a line of envi
				t.Errorf("%s: there is no key %s", d.name, key)
			}
		}
	}
	require.Greater(t, count, 40, "the keys are no longer found")
}

func TestVariablesInTheDocumentsExist(t *testing.T) {
	known := map[string]bool{envConfDir: true, envMyID: true, envServers: true, envExtra: true, "ZKD_INTEROP": true}
	for _, s := range envSettings {
		known[s.variable] = true
	}
	for _, name := range envOther {
		known[name] = true
	}
	sources, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, name := range sources { // what commands read themselves
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`"(ZKD_[A-Z_]+)"`).FindAllStringSubmatch(string(text), -1) {
			known[m[1]] = true
		}
	}
	squeezed := func(s string) string { return strings.ReplaceAll(s, "_", "") }
	for _, k := range config.Keys() {
		known[squeezed(k.Env)] = true
	}
	count := 0
	for _, d := range documents(t) {
		for _, text := range d.inline {
			if name := ourVariable.FindString(text); name != "" {
				count++
				if !known[name] && !known[squeezed(name)] {
					t.Errorf("%s: there is no variable %s", d.name, name)
				}
			}
		}
	}
	require.Greater(t, count, 10)
}

func TestLinksInTheDocumentsLeadSomewhere(t *testing.T) {
	for _, d := range documents(t) {
		text, err := os.ReadFile(d.name)
		require.NoError(t, err)
		for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(string(text), ""), -1) {
			if strings.HasPrefix(m[1], "http") {
				continue
			}
			_, err := os.Stat(filepath.Join(filepath.Dir(d.name), m[1]))
			require.NoError(t, err, "%s links to %s", d.name, m[1])
		}
	}
}
