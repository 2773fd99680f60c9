package cert

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFilesAppearWhole(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "node-1.pem")
	require.NoError(t, Write(name, []byte("one"), false))
	var exists *ExistsError
	require.ErrorAs(t, Write(name, []byte("two"), false), &exists)
	require.Equal(t, name+" exists", exists.Error())
	requireText(t, name, "one")
	require.NoError(t, Write(name, []byte("two"), true))
	requireText(t, name, "two")
	if runtime.GOOS != "windows" {
		info, err := os.Stat(name)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "temporary files are left behind")
}

func requireText(t *testing.T, name, want string) {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, want, string(text))
}

// A renewal loosens nothing: the key of a file that everybody could read is replaced by one
// that they cannot.
func TestReplacedKeyIsPrivate(t *testing.T) {
	name := filepath.Join(t.TempDir(), "node-1.pem")
	require.NoError(t, os.WriteFile(name, nil, 0o666))
	require.NoError(t, os.Chmod(name, 0o666))
	require.NoError(t, Write(name, []byte("key"), true))
	info, err := os.Stat(name)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestOnlyOneOfManyWritesANewFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "ca-key.pem")
	var won atomic.Int32
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if Write(name, bytes.Repeat([]byte{byte('a' + i)}, 1000), false) == nil {
				won.Store(int32('a' + i))
			}
		})
	}
	wg.Wait()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, bytes.Repeat([]byte{byte(won.Load())}, 1000), text, "the one that was told so is not the one that is there")
}

func TestWriteNamesTheFileItWasAskedFor(t *testing.T) {
	name := filepath.Join(t.TempDir(), "none", "node-1.pem")
	err := Write(name, nil, false)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "cannot write "+name+": ")
}

func TestLargeFilesAreNotRead(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(name, make([]byte, maxFileBytes+1), 0o600))
	_, err := ReadFile(name)
	require.ErrorContains(t, err, "no file of certificates")
	require.NoError(t, os.Truncate(name, maxFileBytes))
	_, err = ReadFile(name)
	require.NoError(t, err)
}
