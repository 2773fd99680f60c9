package cli

import (
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The words are those that zkCli 3.8 makes of the same lines, but for the open quote.
func TestLinesAreSplitAsByZkCli(t *testing.T) {
	for line, want := range map[string][]string{
		"ls /":               {"ls", "/"},
		"  ls \t /  ":        {"ls", "/"},
		`set /q "x y"`:       {"set", "/q", "x y"},
		`set /q 'x "y"'`:     {"set", "/q", `x "y"`},
		`set /q ""`:          {"set", "/q", ""},
		`set /q it's`:        {"set", "/q", "it's"},
		`set /q a"b c"`:      {"set", "/q", `a"b`, `c"`},
		`set /q "x y"z`:      {"set", "/q", "x y", "z"},
		"set /q {\"a\":1}":   {"set", "/q", `{"a":1}`},
		"":                   nil,
		"create /ü größe  x": {"create", "/ü", "größe", "x"},
	} {
		got, err := splitLine(line)
		require.NoError(t, err, line)
		require.Equal(t, want, got, line)
	}
	for _, line := range []string{`set /q "x`, `set /q 'x"`, `"`} {
		_, err := splitLine(line)
		require.Error(t, err, line)
		_, code := explain(err)
		require.Equal(t, exitUsage, code)
	}
}

func TestQuotedWordsComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOf(rapid.String().Filter(func(s string) bool {
			return !strings.Contains(s, `"`) || !strings.Contains(s, "'")
		})).Draw(t, "words")
		var quoted []string
		for _, w := range words {
			quoted = append(quoted, quoteWord(w))
		}
		got, err := splitLine(strings.Join(quoted, " "))
		if err != nil || strings.Join(got, "\x00") != strings.Join(words, "\x00") {
			t.Fatalf("%q became %q (%v)", words, got, err)
		}
	})
}

func FuzzLine(f *testing.F) {
	for _, s := range []string{"ls /", `set /a "b c" -v 3`, `'x`, "create -se -- /a -1", "\u00a0x"} {
		f.Add(s)
	}
	spec := append(parseSpec("s w v: recursive|r file:"), option{names: []string{"o"}, value: true})
	f.Fuzz(func(t *testing.T, line string) {
		words, err := splitLine(line)
		if err != nil {
			return
		}
		for _, w := range words {
			if strings.ContainsFunc(w, unicode.IsSpace) && !strings.ContainsAny(line, `"'`) {
				t.Fatalf("%q has the word %q", line, w)
			}
		}
		_, rest, err := parseOptions(spec, words)
		if err == nil && len(rest) > len(words) {
			t.Fatalf("%q has more arguments than words: %q", words, rest)
		}
	})
}

func TestOptionsStandAnywhere(t *testing.T) {
	spec := parseSpec("s w v: recursive|r file:")
	for in, want := range map[string]struct {
		opts options
		args string
	}{
		"/a data":             {options{}, "/a data"},
		"-s /a":               {options{"s": ""}, "/a"},
		"/a -sw x":            {options{"s": "", "w": ""}, "/a x"},
		"-v 3 /a":             {options{"v": "3"}, "/a"},
		"-v3 /a":              {options{"v": "3"}, "/a"},
		"-sv 3 /a":            {options{"s": "", "v": "3"}, "/a"},
		"-v -1 /a":            {options{"v": "-1"}, "/a"},
		"-file=x /a":          {options{"file": "x"}, "/a"},
		"-file x /a":          {options{"file": "x"}, "/a"},
		"--recursive /a":      {options{"recursive": ""}, "/a"},
		"-r /a":               {options{"recursive": ""}, "/a"},
		"/a -5":               {options{}, "/a -5"},
		"/a -- -s -v":         {options{}, "/a -s -v"},
		"/a -":                {options{}, "/a -"},
		"-v 1 -v 2 /a":        {options{"v": "2"}, "/a"},
		"-s -file /a/b -w /a": {options{"s": "", "w": "", "file": "/a/b"}, "/a"},
	} {
		opts, args, err := parseOptions(spec, strings.Fields(in))
		require.NoError(t, err, in)
		require.Equal(t, want.opts, opts, in)
		require.Equal(t, want.args, strings.Join(args, " "), in)
	}
	for in, want := range map[string]string{
		"-x /a": "unknown option -x", "--s=1 /a": "unknown option --s=1", "-sx": "unknown option -sx",
		"/a -v": "-v needs a value", "-v -s /a": "-v needs a value", "--nope": "unknown option --nope",
	} {
		_, _, err := parseOptions(spec, strings.Fields(in))
		require.ErrorContains(t, err, want, in)
	}
}

func TestPathsAreJudgedInZkClisWords(t *testing.T) {
	for path, want := range map[string]string{
		"":        "Path length must be > 0",
		"a":       "Path must start with / character",
		"/a/":     "Path must not end with / character",
		"/a//b":   `Invalid path string "/a//b" caused by empty node name specified @3`,
		"/a/../b": `Invalid path string "/a/../b" caused by relative paths not allowed @4`,
		"/./b":    `Invalid path string "/./b" caused by relative paths not allowed @1`,
		"/a\x01":  `Invalid path string "/a\x01" caused by invalid character @2`,
	} {
		require.EqualError(t, checkPath(path), want)
	}
	for _, path := range []string{"/", "/a", "/...", "/a.b/.c", "/ü ö"} {
		require.NoError(t, checkPath(path))
	}
}
