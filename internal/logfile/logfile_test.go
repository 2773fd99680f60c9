package logfile

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// No line is lost or torn while the file is moved away under the writers.
func TestLinesOutliveRotation(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "zkd.log")
	l, err := Open(name, 0o600)
	require.NoError(t, err)
	const writers, lines = 4, 200
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range lines {
				_, err := fmt.Fprintf(l, "writer %d line %d\n", w, i)
				require.NoError(t, err)
			}
		})
	}
	for i := range 5 {
		require.NoError(t, os.Rename(name, fmt.Sprintf("%s.%d", name, i)))
		require.NoError(t, l.Reopen())
	}
	wg.Wait()
	require.NoError(t, l.Close())
	files, err := filepath.Glob(name + "*")
	require.NoError(t, err)
	require.Len(t, files, 6)
	seen := map[string]bool{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		require.NoError(t, err)
		for line := range bytes.Lines(b) {
			seen[string(line)] = true
		}
	}
	require.Len(t, seen, writers*lines)
}

func TestOldFileStaysWhenTheNewOneCannotBeOpened(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sub")
	require.NoError(t, os.Mkdir(dir, 0o700))
	l, err := Open(filepath.Join(dir, "a"), 0o600)
	require.NoError(t, err)
	moved := dir + ".moved"
	require.NoError(t, os.Rename(dir, moved))
	require.ErrorContains(t, l.Reopen(), "cannot open a log file")
	_, err = l.Write([]byte("still here\n"))
	require.NoError(t, err)
	require.NoError(t, l.Close())
	b, err := os.ReadFile(filepath.Join(moved, "a"))
	require.NoError(t, err)
	require.Equal(t, "still here\n", string(b))
	_, err = l.Write([]byte("x"))
	require.ErrorIs(t, err, os.ErrClosed)
	require.NoError(t, l.Close())
}
