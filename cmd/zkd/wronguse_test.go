package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the library for commands would say by itself, or not at all, says what is right.
func TestWrongUseSaysWhatIsRight(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.pem")
	for _, one := range []struct {
		args  []string
		wants string
	}{
		{[]string{"completion", "tcsh"}, "zkd completion --help"},
		{[]string{"cert", "init"}, "zkd cert init --help"},
		{[]string{"man"}, "name one folder"},
		{[]string{"member", "list", "--tls-cert", file}, "--tls-cert needs --tls-key"},
		{[]string{"snapshot", "save", file, "--tls-key", file}, "--tls-key needs --tls-cert"},
	} {
		code, said := runCommand(t, one.args...)
		require.Equal(t, exitUsage, code, "%v: %s", one.args, said)
		require.Contains(t, said, one.wants)
		require.Regexp(t, `\A[^\n]+\n\z`, said, "one line")
	}
}
