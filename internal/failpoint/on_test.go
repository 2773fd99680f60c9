//go:build faults

package failpoint

import (
	"bufio"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/vfs"
)

// tell is a conversation with the registry of this process: all answers to all lines.
func tell(t *testing.T, lines ...string) []string {
	t.Helper()
	registry.on.Store(true)
	t.Cleanup(func() {
		clear(registry.actions)
		clear(registry.passed)
	})
	here, there := net.Pipe()
	go serve(there)
	defer here.Close()
	var said []string
	in := bufio.NewScanner(here)
	for _, line := range lines {
		_, err := here.Write([]byte(line + "\n"))
		require.NoError(t, err)
		for in.Scan() {
			said = append(said, in.Text())
			if in.Text() == "ok" || strings.HasPrefix(in.Text(), "error: ") {
				break
			}
		}
	}
	return said
}

func TestActionsHappenAsOftenAsTheyShould(t *testing.T) {
	require.Equal(t, []string{"ok", "ok"}, tell(t, "set forward error 2", "set apply.before sleep 1ms 1"))
	require.ErrorIs(t, Err(Forward), syscall.EIO)
	require.ErrorIs(t, Err(Forward), syscall.EIO)
	require.NoError(t, Err(Forward))
	began := time.Now()
	Hit(ApplyBefore)
	require.GreaterOrEqual(t, time.Since(began), time.Millisecond)
	require.Equal(t, []string{"ok", "apply.before", "forward", "ok"}, tell(t, "set reply.before panic", "points"))
	require.PanicsWithValue(t, "failpoint reply.before", func() { Hit(ReplyBefore) })
	tell(t, "clear")
	Hit(ReplyBefore)
}

func TestWhatCannotBeSetIsSaid(t *testing.T) {
	for _, line := range []string{"set", "set x explode", "set x sleep", "set x sleep long", "set x error often", "reboot"} {
		said := tell(t, line)
		require.Len(t, said, 1, line)
		require.True(t, strings.HasPrefix(said[0], "error: "), said[0])
	}
}

func TestDiskFailsWhereItIsTold(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.Mkdir(dir, 0o700))
	f, err := vfs.OS.Create(filepath.Join(dir, "a"))
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteAt([]byte("whole"), 0)
	require.NoError(t, err)

	tell(t, "set disk.log.write short 1", "set disk.log.sync error 1")
	n, err := f.WriteAt([]byte("HALF.."), 0)
	require.ErrorIs(t, err, syscall.EIO)
	require.Equal(t, 3, n)
	require.ErrorIs(t, f.Sync(), syscall.EIO)
	require.NoError(t, f.Sync())

	tell(t, "set disk.log.write flip 1")
	mine := []byte("12345")
	_, err = f.WriteAt(mine, 0)
	require.NoError(t, err)
	require.Equal(t, "12345", string(mine), "what the caller has is left alone")
	b, err := vfs.ReadFile(vfs.OS, f.Name())
	require.NoError(t, err)
	require.NotEqual(t, "12345", string(b))

	tell(t, "set disk.log.rename error", "set disk.log.syncdir error", "set disk.other.create error")
	require.ErrorIs(t, vfs.OS.Rename(f.Name(), f.Name()+"2"), syscall.EIO)
	require.ErrorIs(t, vfs.OS.SyncDir(dir), syscall.EIO)
	_, err = vfs.OS.Create(filepath.Join(t.TempDir(), "b"))
	require.ErrorIs(t, err, syscall.EIO)
	require.False(t, errors.Is(err, os.ErrNotExist))
}
