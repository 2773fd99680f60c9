package main

import (
	"flag"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHelpNamesEveryCommand(t *testing.T) {
	var out strings.Builder
	require.NoError(t, command(t.Context(), []string{"--help"}, &out))
	for _, name := range strings.Split(commands, ", ") {
		require.Contains(t, out.String(), "\n  jepsen "+name+" ")
		err := command(t.Context(), []string{name, "--help"}, io.Discard)
		if err != nil {
			require.ErrorIs(t, err, flag.ErrHelp, name)
		}
	}
	require.ErrorContains(t, command(t.Context(), []string{"runn"}, io.Discard), `no command "runn"`)
	require.ErrorContains(t, command(t.Context(), nil, io.Discard), commands)
}
