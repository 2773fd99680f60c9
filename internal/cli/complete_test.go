package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCompletion(t *testing.T) {
	f := newFixture(t)
	f.create("/app", "/app/one", "/app/other", "/app/two words", "/apple")
	var out safeBuffer
	sh := &shell{table: newTable(), out: newPrinter(&out), err: &out}
	var err error
	sh.settings, err = parseSettings([]string{"-server", f.srv.Addr()})
	require.NoError(t, err)
	require.NoError(t, sh.connect(t.Context(), f.srv.Addr()))
	defer sh.disconnect(false)
	type completion struct {
		start int
		words []string
	}
	for line, want := range map[string]completion{
		"getA":               {0, []string{"getAcl", "getAllChildrenNumber"}},
		"help setq":          {5, []string{"setquota"}},
		"get /ap":            {4, []string{"/app", "/apple"}},
		"get /app/o":         {4, []string{"/app/one", "/app/other"}},
		"get /app/":          {4, []string{"/app/one", "/app/other", `"/app/two words"`}},
		`get "/app/two w`:    {4, []string{`"/app/two words"`}},
		"get ":               {4, []string{"/"}},
		"get /no/":           {4, nil},
		"get //":             {4, nil},
		"set /app x":         {9, nil},
		"watch --r":          {6, []string{"--recursive"}},
		"get -":              {4, []string{"-b", "-o", "-s", "-w", "-x"}},
		"nonsense -":         {9, nil},
		"session k":          {8, []string{"kill"}},
		"session ":           {8, []string{"kill", "list"}},
		"top -b p":           {7, []string{"path"}},
		"log-level ":         {10, []string{"debug", "error", "info", "warn"}},
		"ls -o j":            {6, []string{"json"}},
		`set /app "a b" /ap`: {15, []string{"/app", "/apple"}},
	} {
		comes(t, want, func() completion {
			start, words := sh.complete(line)
			return completion{start, words}
		}, line)
	}
}

// The user's shell asks through the binary.
func TestCompletionForTheShellOfTheUser(t *testing.T) {
	f := newFixture(t)
	f.create("/app", "/apple")
	require.Equal(t, []string{"-tls", "-tls-ca", "-tls-cert", "-tls-key", "-tls-name"}, Complete(nil, "-tls"))
	require.Equal(t, []string{"getEphemerals"}, Complete([]string{"-server", "x", "-r"}, "getE"))
	comes(t, []string{"/app", "/apple"}, func() []string { return Complete([]string{"-server", f.srv.Addr(), "get"}, "/a") }, "paths")
	require.Equal(t, []string{"-m", "-o"}, Complete([]string{"addWatch"}, "-"))
	require.Nil(t, Complete([]string{"-server"}, "a"))
	require.Nil(t, Complete([]string{"-server", nobody, "get"}, "/a"), "nobody there: no candidates, and no wait")
}
