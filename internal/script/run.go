package script

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the scripts anew with what the commands print now")

// Interpreter runs one command and returns what it prints. An unknown command or a wrong
// argument is best printed too, as "error: …".
type Interpreter func(c *Cmd) string

// Run runs every file that matches pattern as a subtest, each with the interpreter that
// start makes for it.
func Run(t *testing.T, pattern string, start func(t *testing.T) Interpreter) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no script matches %s (%v)", pattern, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
		t.Run(name, func(t *testing.T) {
			runFile(t, file, start(t))
		})
	}
}

func runFile(t *testing.T, file string, run Interpreter) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	items, err := parse(string(data))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	for _, failure := range execute(items, run) {
		if !*rewrite {
			t.Errorf("%s:%s", file, failure)
		}
	}
	if !*rewrite {
		return
	}
	if err := os.WriteFile(file, []byte(format(items)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// execute runs all commands, says which printed something else than the script has, and
// puts what they printed into the items.
func execute(items []*item, run Interpreter) []string {
	var failures []string
	for _, it := range items {
		if it.cmd == nil {
			continue
		}
		got := clean(run(it.cmd))
		if got != it.output {
			failures = append(failures, fmt.Sprintf("%d: %s\n got: %s\nwant: %s", it.line, it.text,
				strings.ReplaceAll(got, "\n", "\n      "), strings.ReplaceAll(it.output, "\n", "\n      ")))
		}
		it.output = got
	}
	return failures
}

// clean takes out what the format cannot hold: space at the ends and empty lines.
func clean(output string) string {
	var lines []string
	for line := range strings.SplitSeq(output, "\n") {
		if line = strings.TrimRight(line, " \t\r"); line != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) == 1 {
		return strings.TrimSpace(lines[0])
	}
	return strings.Join(lines, "\n")
}
