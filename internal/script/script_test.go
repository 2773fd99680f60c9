package script

import (
	"slices"
	"strings"
	"testing"
)

const sample = `# A comment.
echo a           →  a
echo "b c" x=1   →  b c x=1
silent

lines 3
----
1
2
3

join {
  one
  # not input
  two
}   →  one+two
join {
}
`

// toy knows a few commands for the tests of this package.
func toy(c *Cmd) string {
	switch c.Name {
	case "echo":
		return strings.Join(c.Args, " ")
	case "lines":
		return "1\n2\n3\n"
	case "join":
		return strings.Join(c.Input, "+")
	}
	return ""
}

func TestScriptRunsAndIsWrittenAsItWas(t *testing.T) {
	items, err := parse(sample)
	if err != nil {
		t.Fatal(err)
	}
	if f := execute(items, toy); len(f) > 0 {
		t.Errorf("failures: %s", f)
	}
	if got := format(items); got != sample {
		t.Errorf("written anew:\n%s\nwant:\n%s", got, sample)
	}
}

func TestWrongOutputIsReportedWithItsLineAndRewritten(t *testing.T) {
	broken := strings.Replace(strings.Replace(sample, "→  a\n", "→  b\n", 1), "2\n", "", 1)
	items, err := parse(broken)
	if err != nil {
		t.Fatal(err)
	}
	f := execute(items, toy)
	if len(f) != 2 || !strings.HasPrefix(f[0], "2: echo a") || !strings.HasPrefix(f[1], "6: lines 3") {
		t.Errorf("failures: %q", f)
	}
	if got := format(items); got != sample {
		t.Errorf("written anew:\n%s\nwant:\n%s", got, sample)
	}
}

func TestWordsAndValues(t *testing.T) {
	tests := []struct {
		line string
		want []string
	}{
		{"a b  c", []string{"a", "b", "c"}},
		{`a data="x y" z`, []string{"a", "data=x y", "z"}},
		{`a "" "\x00"`, []string{"a", "", "\x00"}},
	}
	for _, test := range tests {
		c, err := ParseCmd(test.line)
		if err != nil {
			t.Fatal(err)
		}
		if got := append([]string{c.Name}, c.Args...); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", test.line, got, test.want)
		}
	}
	c, _ := ParseCmd(`x data="x y" twice`)
	if v, ok := c.Value("data"); !ok || v != "x y" || !c.Has("twice") || c.Has("data") {
		t.Errorf("Value and Has do not find the arguments of %v", c)
	}
}

func TestBrokenScriptsAreRefused(t *testing.T) {
	for _, text := range []string{"a {\nb\n", `a "b` + "\n"} {
		if _, err := parse(text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

// What is parsed must be the same again after it has been written.
func FuzzParse(f *testing.F) {
	f.Add(sample)
	f.Add("a {\n}\n\nb → x\n----\ny\n")
	f.Fuzz(func(t *testing.T, text string) {
		items, err := parse(text)
		if err != nil {
			return
		}
		written := format(items)
		again, err := parse(written)
		if err != nil {
			t.Fatalf("%q is written as %q, which is refused: %v", text, written, err)
		}
		if twice := format(again); twice != written {
			t.Fatalf("%q is written as %q, and that as %q", text, written, twice)
		}
	})
}
