package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// macro are the lines that man(7) understands, as far as they are used.
var macro = regexp.MustCompile(`^\.(TH .+|SH [A-Z ]+|TP|PP|nf|fi)$`)

func TestManualPagesDescribeEveryCommand(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	code, out := runCommand(t, "man", dir)
	require.Equal(t, exitOK, code, out)
	require.Empty(t, out)
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	pages := map[string]string{}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		require.NoError(t, err)
		pages[f.Name()] = string(b)
	}
	for name, text := range pages {
		require.Contains(t, text, ".SH NAME\n"+strings.ReplaceAll(strings.TrimSuffix(name, ".1"), "-", `\-`)+` \- `)
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
				require.Regexp(t, macro, line, "%s", name)
			}
			require.NotRegexp(t, `(^|[^\\])-`, line, "%s: a dash that may be typeset as another sign", name)
		}
	}
	_, help := runCommand(t, "--help")
	listed := regexp.MustCompile(`(?m)^  ([a-z]+) +\S`).FindAllStringSubmatch(help, -1)
	require.Greater(t, len(listed), 8)
	for _, m := range listed {
		if m[1] != "help" && m[1] != "zkd" {
			require.NotEmpty(t, pages["zkd-"+m[1]+".1"], m[1])
			require.Contains(t, pages["zkd.1"], `\fBzkd\-`+m[1]+`\fR(1)`)
		}
	}
	require.Empty(t, pages["zkd-man.1"], "it is for those who build zkd")
	require.Contains(t, pages["zkd-serve.1"], ".TP\n\\fB\\-c, \\-\\-config string\\fR\nconfiguration file, a zoo.cfg\n")
	require.Contains(t, pages["zkd-cli.1"], ".TP\n\\fB\\-server ")
	require.Contains(t, pages["zkd-cli.1"], ".TP\n\\fBsession list | kill id...\\fR\n")
	require.Contains(t, pages["zkd-member-add.1"], ".SH SEE ALSO\n\\fBzkd\\-member\\fR(1)")
	require.Contains(t, pages["zkd.1"], ".SH EXIT STATUS\n")

	again := filepath.Join(t.TempDir(), "again")
	code, _ = runCommand(t, "man", again)
	require.Equal(t, exitOK, code)
	b, err := os.ReadFile(filepath.Join(again, "zkd-serve.1"))
	require.NoError(t, err)
	require.Equal(t, pages["zkd-serve.1"], string(b))
}

func TestRoffMeansItself(t *testing.T) {
	require.Equal(t, "a\\-b \\ec\n\\&.TH x\n\\&'x\n .y ...", roff("a-b \\c\n.TH x\n'x\n .y …"))
}
