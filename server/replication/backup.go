package replication

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/zkd-project/zkd/server/replication/damage"
	"github.com/zkd-project/zkd/server/state"
)

// A backup is a snapshot file (snapfile.go), byte for byte as servers keep them: so there is one
// format, and what a server has in its folder of snapshots is a backup as well. One that was
// made of a subtree has no configuration of raft, and its container a section more.

// Limits of what a backup may be that comes from outside.
const (
	// maxBackupData is the most that is unpacked.
	maxBackupData = 64 << 30
	// maxBackupRatio is how many times as long as its file the data may be, beyond the first
	// freeRatioData bytes. Trees of a million equal nodes have a ratio of about 100.
	maxBackupRatio = 1000
	freeRatioData  = 64 << 20
	// anotherBackup is the repair of a damaged one.
	anotherBackup = "use another backup"
)

// A BackupFile is where a backup is read from.
type BackupFile interface {
	io.ReaderAt
	io.Closer
}

// A Backup is an open backup, which can be read once: by Machine or by Verify.
//
// Damage is a *DamageError with the name and an offset of the file: up to there it was read
// when the damage showed.
type Backup struct {
	r     *snapReader
	start int64 // of the body
	read  int64 // of the container
}

// OpenBackup reads head and tail of a backup of that size. It closes the file if it fails.
func OpenBackup(f BackupFile, size int64, name string) (*Backup, error) {
	r, err := openSnapshotWith(f, size, name, snapshotTuning{concurrency: 1, buffer: 4 << 10, repair: anotherBackup})
	if err != nil {
		return nil, err
	}
	b := &Backup{r: r, start: size - snapTailSize - r.d.body}
	if r.d.size < 0 || r.d.size > maxBackupData || r.d.size > freeRatioData && r.d.size/maxBackupRatio > size {
		err := r.damaged(size-snapTailSize, fmt.Sprintf("it says that it holds %d bytes of data, which is more than can be true of %d bytes", r.d.size, size))
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// Created is when the file was made, by the clock of the server.
func (b *Backup) Created() time.Time { return b.r.d.created }

// DataBytes is the size of the data, unpacked.
func (b *Backup) DataBytes() int64 { return b.r.d.size }

// Progress says how much of the file has been read.
func (b *Backup) Progress() (done, size int64) {
	return b.position(), b.start + b.r.d.body + snapTailSize
}

// position in the file, as far as it is used.
func (b *Backup) position() int64 {
	return b.start + b.r.taken
}

// Read gives the container.
func (b *Backup) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.read += int64(n); b.read > b.r.d.size {
		return 0, b.r.damaged(b.position(), "it has more data than it says")
	}
	return n, err
}

// Machine verifies everything and returns the machine in the backup, and of which subtree it is
// alone, "" for a whole one.
func (b *Backup) Machine() (m *state.Machine, scope string, err error) {
	if m, scope, err = state.RestoreBackup(b); err == nil {
		err = m.Check()
	}
	if err = b.finish(err); err != nil {
		return nil, "", err
	}
	return m, scope, nil
}

// Verify verifies every checksum, without memory for the machine; its digest remains unverified.
func (b *Backup) Verify() (state.Head, error) {
	h, err := state.VerifySums(b)
	return h, b.finish(err)
}

// finish reads on to the end, where the last checksums are, and gives an error its place.
func (b *Backup) finish(err error) error {
	if err == nil {
		var n int64
		if n, err = io.Copy(io.Discard, b); err == nil && n > 0 {
			err = b.r.damaged(b.position(), fmt.Sprintf("%d bytes follow the data", n))
		}
	}
	var known *damage.Error
	var newer *state.UnsupportedError
	switch {
	case err == nil:
		return nil
	case b.r.ioErr != nil:
		return fmt.Errorf("cannot read %s: %w", b.r.name, b.r.ioErr)
	case errors.As(err, &newer):
		return fmt.Errorf("%s: %w", b.r.name, err)
	case errors.As(err, &known):
		if known.Offset < 0 {
			known.Offset = b.position()
		}
		return known
	}
	return b.r.damaged(b.position(), err.Error())
}

// Close lets go of the file.
func (b *Backup) Close() error { return b.r.Close() }

// WriteBackup writes the machine, which is nobody else's, as a backup; of the subtree at scope alone
// unless that is "".
func WriteBackup(w io.Writer, m *state.Machine, scope string, now time.Time) error {
	out, err := newSnapWriter(w, snapDescription{created: now, config: raft.Configuration{}})
	if err != nil {
		return err
	}
	s := m.Snapshot()
	defer s.Close()
	s.SetScope(scope)
	if err := s.Write(&sync.Mutex{}, out); err != nil {
		out.abandon()
		return err
	}
	out.d.zxid = s.Zxid()
	return out.finish()
}

// A SavedSnapshot is a snapshot of a serving node on its way out.
type SavedSnapshot struct {
	BackupFile
	Size int64
	Zxid int64
}

// Reader reads the file from its beginning.
func (s *SavedSnapshot) Reader() io.Reader { return io.NewSectionReader(s, 0, s.Size) }

// saveAttempts: the newest snapshot may be replaced by the next one before it is opened.
const saveAttempts = 5

// Save takes a snapshot, unless the newest one has all that is applied here, and opens it. It
// is complete and stays readable, whatever is purged meanwhile; the log goes on beside it.
func (n *Node) Save(ctx context.Context) (*SavedSnapshot, error) {
	if err := n.keeper.request(ctx); err != nil {
		return nil, err
	}
	var err error
	for range saveAttempts {
		files := n.stores.snaps.all()
		if len(files) == 0 {
			return nil, errors.New("there is nothing to save yet")
		}
		newest := files[len(files)-1]
		var s *SavedSnapshot
		if s, err = n.openSaved(newest.name); err == nil {
			return s, nil
		}
	}
	return nil, fmt.Errorf("cannot open the newest snapshot: %w", err)
}

func (n *Node) openSaved(name string) (*SavedSnapshot, error) {
	_, in, err := n.stores.snaps.Open(name)
	if err != nil {
		return nil, err
	}
	head, err := state.ReadHead(in)
	if err = errors.Join(err, in.Close()); err != nil {
		return nil, err
	}
	store, ok := n.stores.snaps.(interface {
		openRaw(name string) (BackupFile, int64, error)
	})
	if !ok {
		return nil, fmt.Errorf("a store of type %T", n.stores.snaps)
	}
	f, size, err := store.openRaw(name)
	if err != nil {
		return nil, err
	}
	return &SavedSnapshot{BackupFile: f, Size: size, Zxid: head.Zxid}, nil
}

// openRaw opens a snapshot as it lies on the disk.
func (s *fileSnapshots) openRaw(name string) (BackupFile, int64, error) {
	f, err := s.fs.Open(filepath.Join(s.dir, name))
	if err != nil {
		return nil, 0, err
	}
	size, err := f.Size()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, size, nil
}

// openRaw opens the snapshot as it lies in memory.
func (s *memorySnapshots) openRaw(name string) (BackupFile, int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.data == nil || name != snapName(s.d.index, s.d.term) {
		return nil, 0, errors.New("no such snapshot in memory")
	}
	return nopCloser{bytes.NewReader(s.data)}, int64(len(s.data)), nil
}

// lostZxid is from where a cluster goes on that begins with the data of another one: far above
// all that the other one can have used since, which clients hold.
func lostZxid(zxid int64) int64 { return (zxid>>32 + lostEpochs) << 32 }

// CreateFromBackup is Create for the machine of a backup: the beginning of a new cluster, which
// has another name, so that no server of the old one takes part in it, and zxids above all that
// the old one can have used. Sessions end unless they are to be kept.
func CreateFromBackup(o Options, m *state.Machine, keepSessions bool) error {
	m.BeginAnew(lostZxid(m.Zxid()), keepSessions)
	return Create(o, m)
}
