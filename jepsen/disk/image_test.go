package disk

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/needs"
)

func open(t *testing.T) *Image {
	t.Helper()
	if why := Unavailable(); why != "" {
		needs.Unavailable(t, why)
	}
	i, err := New(t.TempDir())
	if i != nil {
		t.Cleanup(func() { require.NoError(t, i.Close()) })
	}
	if err != nil {
		needs.Unavailable(t, err.Error()) // a container that may not mount
	}
	return i
}

// Without this, the runs with power cuts would show nothing.
func TestPowerCutLosesWhatIsNotSynced(t *testing.T) {
	i := open(t)
	write := func(name string, sync bool) {
		f, err := os.Create(filepath.Join(i.Dir(), name))
		require.NoError(t, err)
		_, err = f.WriteString("some bytes")
		require.NoError(t, err)
		if sync {
			require.NoError(t, f.Sync())
		}
		require.NoError(t, f.Close())
	}
	write("synced", true)
	write("not", false)
	require.NoError(t, i.PowerCut())
	b, err := os.ReadFile(filepath.Join(i.Dir(), "synced"))
	require.NoError(t, err)
	require.Equal(t, "some bytes", string(b))
	b, err = os.ReadFile(filepath.Join(i.Dir(), "not"))
	require.True(t, errors.Is(err, os.ErrNotExist) || len(b) == 0, "it is still there: %q", b)
}

func TestAbortedFileSystemCanOnlyBeReadUntilItIsMended(t *testing.T) {
	i := open(t)
	if why := CannotAbort(); why != "" {
		needs.Unavailable(t, why)
	}
	name := filepath.Join(i.Dir(), "file")
	f, err := os.Create(name)
	require.NoError(t, err)
	_, err = f.WriteString("synced")
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	_, err = f.WriteString(" and not")
	require.NoError(t, err)
	require.NoError(t, i.Abort())
	require.Error(t, f.Sync())
	_, err = os.Create(filepath.Join(i.Dir(), "another"))
	require.ErrorIs(t, err, syscall.EROFS)
	require.NoError(t, f.Close())
	require.NoError(t, i.Mend())
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Contains(t, []string{"synced", "synced and not"}, string(b), "the system may have written what nobody asked it to")
	require.NoError(t, os.WriteFile(name, []byte("again"), 0o600))
}

func TestFillLeavesNoRoom(t *testing.T) {
	i := open(t)
	require.NoError(t, i.Fill())
	err := os.WriteFile(filepath.Join(i.Dir(), "more"), make([]byte, 1<<16), 0o600)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, i.Empty())
	require.NoError(t, os.WriteFile(filepath.Join(i.Dir(), "more"), make([]byte, 1<<16), 0o600))
}
