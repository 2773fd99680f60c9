package config

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

const referenceFile = "../docs/configuration.md"

// TestReferenceIsUpToDate compares the reference with what the table of keys makes of it. `go
// generate ./config` writes it anew.
func TestReferenceIsUpToDate(t *testing.T) {
	got := reference(t)
	if *rewrite {
		if err := os.WriteFile(referenceFile, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is not what the table of keys says; run: go generate ./config\n%s", referenceFile, firstDifference(got, string(want)))
	}
}

func firstDifference(got, want string) string {
	x, y := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return fmt.Sprintf("line %d is\n%s\nand should be\n%s", i+1, y[i], x[i])
		}
	}
	return "one is longer than the other"
}

// TestReferenceNamesOnlyKeys: a release for a key that does not exist is a mistake in spelling.
func TestReferenceNamesOnlyKeys(t *testing.T) {
	for name := range maps.Keys(sinceByName) {
		if k, known := Lookup(name); !known || k.Name != name {
			t.Errorf("there is no key %s", name)
		}
	}
	for _, s := range sinceByPrefix {
		if !slices.ContainsFunc(Keys(), func(k Key) bool { return strings.HasPrefix(k.Name, s.prefix) }) {
			t.Errorf("no key begins with %s", s.prefix)
		}
	}
}

const referenceIntro = `# Configuration

<!-- Written by "go generate ./config" from the table of keys; do not edit. -->

A ` + "`zoo.cfg`" + ` of ZooKeeper is read as it is, by ` + "`zkd serve --config zoo.cfg`" + `. Its syntax is that of Java's
properties. Flags win over environment variables, these over the file, the file over defaults;
` + "`--set KEY=VALUE`" + ` sets any key. The variable of a key has ` + "`ZKD_`" + ` before it, in upper case, with underscores
where you like: ` + "`tickTime`" + ` is ` + "`ZKD_TICK_TIME`" + ` or ` + "`ZKD_TICKTIME`" + `. Every name is also known with
` + "`zookeeper.`" + ` before it, as ZooKeeper has its system properties.

- **Wrong values stop the start.** All that is wrong is said at once, each with file, line, key and
  what is allowed; exit code 1.
- **Unknown keys** are warned about, with the nearest known one, because ZooKeeper takes each of them for
  a Java system property. Unknown keys that begin with ` + "`zkd.`" + ` stop the start.
- **Certificates** that are replaced on disk are noticed by themselves; SIGHUP reads them at once.
- **Keys of ZooKeeper that have no meaning here** are named in one warning and ignored; the last
  table says why for each.

## Reading the tables

| column | meaning |
| --- | --- |
| default | in force when nobody sets the key; *without a file* is for ` + "`zkd serve`" + ` with no configuration file |
| allowed | the kind of value, its range and its unit |
| since | where the key comes from: zkd, or ZooKeeper and its release; no release: 3.3 and older, or not documented |
| change | *reload*: a running server takes a new value over on SIGHUP; *restart*: it does not |
| wrong | what a value does that is not allowed: *stops* the start, is *warned* about, or is *taken* as it is (a text may be anything) |

` + "*Kept* in a description: the key is read and checked, for a part of the server that does not use it yet." + `

| kind | how it is written |
| --- | --- |
| number | ` + "`2000`" + `, or hexadecimal as ` + "`0xfffff`" + `; no leading zeros, which Java reads as octal in some keys |
| boolean | ` + "`true`" + ` or ` + "`false`" + `, in any case |
| interval | a number with ` + "`ms`, `s`, `m`, `h` or `d`" + ` behind it |
| list | separated by commas |
| path | a relative one belongs to the directory in which the process was started |
| address | an IP address or a host name, IPv6 with or without brackets |
| secret | never shown in logs, in ` + "`conf`" + ` or by the admin server |
| class | the name of a Java class, which tells zkd what is wanted |
| server | ` + "`host:port:electionPort[:role][;[host:]clientPort]`" + `, see [the README](../README.md) |
`

// reference is the whole file.
func reference(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(referenceIntro)
	group := ""
	for _, k := range Keys() {
		if k.Group != group {
			group = k.Group
			fmt.Fprintf(&b, "\n## %s\n\n", group)
			if k.Status == NoMeaning {
				b.WriteString("They are read and ignored, whatever they say. The default is ZooKeeper's.\n\n| key | default | since | why |\n| --- | --- | --- | --- |\n")
			} else {
				b.WriteString("| key | default | allowed | since | change | wrong | what it does |\n| --- | --- | --- | --- | --- | --- | --- |\n")
			}
		}
		b.WriteString(referenceRow(t, &k))
	}
	return b.String()
}

func referenceRow(t *testing.T, k *Key) string {
	t.Helper()
	name := code(k.Name)
	for _, a := range k.Aliases {
		name += ", " + code(a)
	}
	doc := k.Doc
	if k.Status == Kept {
		doc += " *Kept.*"
	}
	if k.Status == NoMeaning {
		return tableRow(name, code(k.Default), k.Since, doc)
	}
	def := code(k.Default)
	if k.DefaultNoFile != "" {
		def = strings.TrimPrefix(def+"; "+code(k.DefaultNoFile)+" without a file", "; ")
	}
	allowed := string(k.Kind)
	if k.Allowed != "" {
		allowed += ": " + k.Allowed
	}
	if k.Unit != "" {
		allowed += " (" + k.Unit + ")"
	}
	change := "restart"
	if k.Changeable {
		change = "reload"
	}
	return tableRow(name, def, allowed, k.Since, change, wrongValue(t, k), doc)
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

// emphasis keeps asterisks in a description from being read as such, but for our own.
var emphasis = strings.NewReplacer("*Kept.*", "*Kept.*", "*", `\*`)

func tableRow(cells ...string) string {
	for i := range cells {
		cells[i] = strings.ReplaceAll(cells[i], "|", `\|`)
		if i == len(cells)-1 {
			cells[i] = emphasis.Replace(cells[i])
		}
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// wrongValue tries it: the file with the key alone is loaded with a value that no syntax knows.
func wrongValue(t *testing.T, k *Key) string {
	t.Helper()
	name := k.Name
	if k.prefix != "" {
		name = k.prefix + "1"
	}
	load := func(line string) ([]Warning, error) {
		_, warnings, err := Load(Sources{File: "zoo.cfg", ReadFile: func(file string) ([]byte, error) {
			if file == "zoo.cfg" {
				if k.Name != "dataDir" {
					line = "dataDir=/nowhere\n" + line
				}
				return []byte(line + "\n"), nil
			}
			return nil, &fs.PathError{Op: "open", Path: file, Err: fs.ErrNotExist}
		}})
		return warnings, err
	}
	warnings, err := load(name + "=no such/word")
	switch {
	case err != nil:
		return "stops"
	case slices.ContainsFunc(warnings, func(w Warning) bool { return w.Key == name }):
		return "warned"
	}
	return "taken"
}
