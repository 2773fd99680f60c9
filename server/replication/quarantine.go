package replication

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/internal/wait"
	"github.com/zkd-project/zkd/server/replication/damage"
)

// A quarantine outlives the process. The file "quarantine" in the data directory says up to
// which log entry the data there were applied when they were found to be wrong. A server that
// starts with it applies nothing, takes no snapshot and shows nothing to anybody before it has
// a snapshot of another server that reaches further. It votes and stores log entries meanwhile:
// only the machine is wrong, not the log.

const quarantineName = "quarantine"

// ErrQuarantined is returned where data are asked for that are known to be wrong.
var ErrQuarantined = errors.New("the data here are known to be wrong, and are being repaired")

// A sickNote keeps the index durably. 0: the data are in order.
type sickNote interface {
	read() (uint64, error)
	write(index uint64) error
}

// fileNote is the file in the data directory.
type fileNote struct {
	fs  vfs.FS
	dir string
}

func (f fileNote) path() string { return filepath.Join(f.dir, quarantineName) }

// read takes a file whose content is odd for a quarantine from the first entry on.
func (f fileNote) read() (uint64, error) {
	b, err := vfs.ReadFile(f.fs, f.path())
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("cannot read whether the data are in order: %w", err)
	}
	index, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	if err != nil || index == 0 {
		return 1, nil
	}
	return index, nil
}

func (f fileNote) write(index uint64) error {
	if index > 0 {
		return vfs.WriteFileAtomic(f.fs, f.dir, f.path(), fmt.Appendf(nil, "%d\n", index), 0o600)
	}
	if err := f.fs.Remove(f.path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return f.fs.SyncDir(f.dir)
}

// memoryNote is that of a server in memory, whose stores may outlive it.
type memoryNote struct{ m *MemoryStores }

func (n memoryNote) read() (uint64, error) {
	n.m.mu.Lock()
	defer n.m.mu.Unlock()
	return n.m.sickAt, nil
}

func (n memoryNote) write(index uint64) error {
	n.m.mu.Lock()
	defer n.m.mu.Unlock()
	n.m.sickAt = index
	return nil
}

// recallQuarantine is called at the start, when the newest snapshot is loaded. In quarantine
// none is taken here, so one that reaches further than the note is that of another server.
func (n *Node) recallQuarantine(snapshot uint64) error {
	index, err := n.stores.sick.read()
	if err != nil || index == 0 {
		return err
	}
	if snapshot > index {
		return n.stores.sick.write(0) // the process ended just before it did that
	}
	if n.o.Cluster == nil {
		return &damage.Error{
			File: filepath.Join(n.o.Dir, quarantineName), Offset: -1,
			What:   "the data were found to differ from those of the other servers, and this server has none to be repaired by",
			Repair: "start it with the server lines of its cluster; if there is no cluster any more, run zkd recover, which says what that means",
		}
	}
	n.o.Logger.Error("the data here were found to be wrong before the last stop: nothing of them is shown until they are repaired", "index", index)
	n.sickAt.Store(index)
	n.sick <- struct{}{}
	return nil
}

// noteHealth is called when the machine was replaced. If the file stays, the next start
// repairs once more.
func (n *Node) noteHealth() {
	if n.InQuarantine() {
		return
	}
	if index, err := n.stores.sick.read(); err == nil && index == 0 {
		return
	}
	if err := n.stores.sick.write(0); err != nil {
		n.o.Logger.Warn("cannot remove the note that the data here are wrong", "error", err)
	}
}

// waitHealthy returns when the data may be shown.
func (n *Node) waitHealthy(ctx context.Context) error {
	for n.InQuarantine() {
		if n.halted() {
			return n.deadError()
		}
		if ctx.Err() != nil {
			return contextError(ctx, "the data here to be repaired")
		}
		wait.Pause(ctx, tendPause)
	}
	return nil
}
