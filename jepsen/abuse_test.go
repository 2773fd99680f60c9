package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/jepsen/nemesis"
)

// A test that the table names must be there: else the row would show nothing.
func TestAbuseTableNamesTestsThatExist(t *testing.T) {
	module, err := root()
	require.NoError(t, err)
	sources := map[string]string{}
	for _, c := range AbuseCases() {
		require.NotEmpty(t, c.Tests, c.Name)
		for _, name := range c.Tests {
			at := strings.LastIndexByte(name, '.')
			pkg, test := name[:at], name[at+1:]
			if _, ok := sources[pkg]; !ok {
				files, err := filepath.Glob(filepath.Join(module, filepath.FromSlash(pkg), "*_test.go"))
				require.NoError(t, err)
				for _, file := range files {
					b, err := os.ReadFile(file)
					require.NoError(t, err)
					sources[pkg] += string(b)
				}
			}
			require.Contains(t, sources[pkg], "func "+test+"(", "the case %q names it", c.Name)
		}
		if c.Workload != "" {
			_, err := findWorkload("", c.Workload)
			require.NoError(t, err)
		}
		_, err := nemesis.Find(c.Nemeses)
		require.NoError(t, err)
	}
}

// A test that is gone, or fails, must not pass for one that holds.
func TestAbuseCaseWithoutItsTestFails(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a test")
	}
	var out strings.Builder
	c := AbuseCase{Tests: []string{"jepsen/report.TestThatNobodyWrote"}}
	require.ErrorContains(t, c.try(context.Background(), Options{}, &out, false), "no such tests any more")
}
