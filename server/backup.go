package server

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/zkd-project/zkd/internal/wait"
	"github.com/zkd-project/zkd/server/replication"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/wire"
)

// Backups of a serving server, and their way back. A restore is carried out by whichever server
// it is asked of: it verifies the whole backup first, and then sends it through the log, piece
// after piece, each when the one before is applied here. A piece that gets lost with a leader is
// sent again; the machine knows which it has.

const (
	// restoreChunkBytes of nodes go into one command. A node with more data has one for itself.
	restoreChunkBytes = 256 << 10
	// restoreRepeat is after how long a piece is sent again.
	restoreRepeat = 3 * time.Second
	// levelPatience is for how long all servers may be asked whether they know restores.
	levelPatience = 10 * time.Second
	levelPause    = 100 * time.Millisecond
	// maxBackupFile bounds what is taken in.
	maxBackupFile = 16 << 30
)

// restores is how the one who carries out a restore hears of it.
type restores struct {
	busy sync.Mutex // held during a restore

	mu      sync.Mutex
	id      int64         // guarded by mu: of the restore under way here, 0 without one
	refused bool          // guarded by mu: it was not begun, since another one is under way
	failed  bool          // guarded by mu: a piece was not taken
	changed chan struct{} // guarded by mu: closed when a step of it is applied
}

// applied is called under the write lock.
func (w *restores) applied(cmd *state.Command, r *state.Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.id == 0 || w.id != cmd.Target {
		return
	}
	switch {
	case cmd.Restore == state.RestoreBegin && r.Outcome == state.Stale:
		w.refused = true
	case cmd.Restore != state.RestoreCommit && r.Outcome == state.Failed:
		w.failed = true
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

// SaveBackup takes a snapshot that has all that was acknowledged to anybody before the call, and
// opens it. Writers go on.
func (f Face) SaveBackup(ctx context.Context) (in io.ReadCloser, zxid, size int64, err error) {
	s := f.s
	if !s.serving() {
		return nil, 0, 0, errNotServing
	}
	if err := s.barrier(ctx); err != nil {
		return nil, 0, 0, fmt.Errorf("wait for the log: %w", err)
	}
	saved, err := s.node.Save(ctx)
	if err != nil {
		return nil, 0, 0, err
	}
	return savedReader{saved.Reader(), saved}, saved.Zxid, saved.Size, nil
}

type savedReader struct {
	io.Reader
	io.Closer
}

// RestoreBackup reads a backup and puts what it has at from in the place of what is at into, on
// all servers at one zxid. from is "" for all that is in it, into for the place that it had.
// It returns when that is applied here; clients saw the old tree until then, and see the new one
// from then on. asker is who wants it, for the audit log.
func (f Face) RestoreBackup(ctx context.Context, asker netip.Addr, in io.Reader, from, into string) (state.Restored, error) {
	done, err := f.s.restoreBackup(ctx, in, from, into)
	f.s.auditRestore(ctx, asker, cmp.Or(done.Path, into, "/"), err)
	return done, err
}

func (s *Server) restoreBackup(ctx context.Context, in io.Reader, from, into string) (state.Restored, error) {
	if !s.serving() {
		return state.Restored{}, errNotServing
	}
	if !s.restores.busy.TryLock() {
		return state.Restored{}, state.ErrRestoring
	}
	defer s.restores.busy.Unlock()
	m, from, into, err := s.readBackup(in, from, into)
	if err != nil {
		return state.Restored{}, err
	}
	if err := s.requireRestores(ctx); err != nil {
		return state.Restored{}, err
	}
	j := newRestoreJob(s)
	defer j.end()
	s.log.Warn("restoring a backup", "from", from, "into", into, "zxid of the backup", sessionText(m.Zxid()))
	done, err := j.run(ctx, m, from, into)
	if err != nil {
		s.log.Warn("the backup was not restored", "reason", err)
		return state.Restored{}, err
	}
	s.log.Warn("a backup was restored", "into", into, "zxid", sessionText(done.Zxid),
		"created", done.Created, "changed", done.Changed, "deleted", done.Deleted)
	return done, nil
}

// requireRestores sees to it that all servers know what a restore is. While leadership changes
// hands, or a server starts, it asks again.
func (s *Server) requireRestores(ctx context.Context) error {
	patience, cancel := context.WithTimeout(ctx, levelPatience)
	defer cancel()
	for {
		err := s.node.RequireLevel(patience, state.LevelRestore)
		if err == nil || patience.Err() != nil {
			return err
		}
		wait.Pause(patience, levelPause)
		if patience.Err() != nil {
			return err // which says more than that the time is over
		}
	}
}

// readBackup verifies all of a backup and settles what goes where.
func (s *Server) readBackup(in io.Reader, from, into string) (*state.Machine, string, string, error) {
	file, size, err := s.spoolBackup(in)
	if err != nil {
		return nil, "", "", err
	}
	b, err := replication.OpenBackup(file, size, "the backup")
	if err != nil {
		return nil, "", "", fmt.Errorf("%w: %w", state.ErrBadBackup, err)
	}
	defer b.Close()
	m, scope, err := b.Machine()
	if err != nil {
		return nil, "", "", fmt.Errorf("%w: %w", state.ErrBadBackup, err)
	}
	from, into, err = RestorePlace(m, scope, from, into)
	if err != nil {
		return nil, "", "", fmt.Errorf("%w: %w", state.ErrBadBackup, err)
	}
	return m, from, into, nil
}

// RestorePlace settles which part of a backup goes where: what is not said is all that it has, and the
// place from which it was taken.
func RestorePlace(m *state.Machine, scope, from, into string) (string, string, error) {
	if scope == "" {
		scope = "/"
	}
	if from == "" {
		from = scope
	}
	if into == "" {
		into = from
	}
	if scope != "/" && from != scope && !isBelow(from, scope) {
		return "", "", fmt.Errorf("it is a backup of %q alone, and has nothing of %q", scope, from)
	}
	return from, into, m.CanRestore(from, into)
}

func isBelow(path, root string) bool {
	return len(path) > len(root) && path[:len(root)] == root && path[len(root)] == '/'
}

// spoolBackup keeps what comes in until it is complete.
func (s *Server) spoolBackup(in io.Reader) (replication.BackupFile, int64, error) {
	limited := &io.LimitedReader{R: in, N: maxBackupFile + 1}
	if s.opts.Memory || s.opts.FS != nil {
		b, err := io.ReadAll(limited)
		if err != nil {
			return nil, 0, err
		}
		return memoryBackup{bytes.NewReader(b)}, int64(len(b)), nil
	}
	f, err := os.CreateTemp(s.cfg.DataDir, "incoming-backup-*")
	if err != nil {
		return nil, 0, err
	}
	err = os.Remove(f.Name()) // nothing is left of it after a crash
	size, cerr := io.Copy(spoolWriter{f, s}, limited)
	if err = errors.Join(err, cerr); err == nil && limited.N == 0 {
		err = fmt.Errorf("%w: it has more than %d bytes", state.ErrBadBackup, int64(maxBackupFile))
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, size, nil
}

// A spoolWriter stops when the disk gets full: what is left of it is for the log.
type spoolWriter struct {
	f *os.File
	s *Server
}

func (w spoolWriter) Write(p []byte) (int, error) {
	if w.s.diskShort.Load() {
		return 0, errors.New("there is no room for the backup on the disk of the server")
	}
	return w.f.Write(p)
}

type memoryBackup struct{ *bytes.Reader }

func (memoryBackup) Close() error { return nil }

// A restoreJob carries out a restore.
type restoreJob struct {
	s  *Server
	id int64
}

func newRestoreJob(s *Server) *restoreJob {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	j := &restoreJob{s: s, id: int64(binary.BigEndian.Uint64(b[:]) | 1)}
	w := &s.restores
	w.mu.Lock()
	defer w.mu.Unlock()
	w.id, w.refused, w.failed, w.changed = j.id, false, false, make(chan struct{})
	return j
}

func (j *restoreJob) end() {
	w := &j.s.restores
	w.mu.Lock()
	defer w.mu.Unlock()
	w.id = 0
}

func (j *restoreJob) command(step state.RestoreStep) state.Command {
	return state.Command{Kind: state.KindRestore, Restore: step, Target: j.id, Body: []byte{}}
}

// run returns when the restore is applied here. After an error it is taken back: it may still
// be committed only if its commit has reached the log before that.
func (j *restoreJob) run(ctx context.Context, m *state.Machine, from, into string) (state.Restored, error) {
	begin := j.command(state.RestoreBegin)
	begin.Path = into
	err := j.step(ctx, &begin, func(now state.Restoring) bool { return now.ID == j.id })
	if err != nil {
		return state.Restored{}, err
	}
	sum, nodes, err := j.send(ctx, m, from, into)
	if err == nil {
		commit := j.command(state.RestoreCommit)
		commit.Req, commit.Body = nodes, binary.BigEndian.AppendUint64(nil, sum)
		err = j.step(ctx, &commit, func(state.Restoring) bool { return j.last().ID == j.id })
	}
	if err != nil {
		abort := j.command(state.RestoreAbort)
		_ = j.s.node.Propose(&abort) // if it gets lost, the cluster drops the restore by and by
		return state.Restored{}, err
	}
	last := j.last()
	switch last.Code {
	case wire.OK:
		return last, nil
	case wire.NoNode:
		return last, fmt.Errorf("%w: there is no node above %q any more", state.ErrBadBackup, into)
	case wire.NoChildrenForEphemerals:
		return last, fmt.Errorf("%w: the node above %q is ephemeral", state.ErrBadBackup, into)
	}
	return last, fmt.Errorf("the restore was refused with code %d: please report this", last.Code)
}

// send stages the nodes.
func (j *restoreJob) send(ctx context.Context, m *state.Machine, from, into string) (sum, nodes uint64, err error) {
	var e state.RestoreEncoder
	number := uint64(0)
	flush := func() error {
		chunk := e.Take()
		number++
		sum = state.RestoreSum(sum, chunk)
		cmd := j.command(state.RestoreChunk)
		cmd.Req, cmd.Body = number, chunk
		return j.step(ctx, &cmd, func(now state.Restoring) bool { return now.Chunks >= number })
	}
	m.Restorable(from, into, func(n *state.RestoredNode) bool {
		if e.Len() > 0 && e.Len()+len(n.Data) > restoreChunkBytes {
			err = flush()
		}
		e.Add(n)
		nodes++
		return err == nil
	})
	if err == nil && e.Len() > 0 {
		err = flush()
	}
	return sum, nodes, err
}

func (j *restoreJob) last() state.Restored {
	j.s.node.RLock()
	defer j.s.node.RUnlock()
	last, _ := j.s.node.Machine().LastRestore()
	return last
}

// step proposes a command until the machine shows that it is applied.
func (j *restoreJob) step(ctx context.Context, cmd *state.Command, applied func(state.Restoring) bool) error {
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		changed, err := j.watch()
		if err != nil {
			return err
		}
		now := j.now()
		switch {
		case applied(now):
			return nil
		case now.ID != j.id && cmd.Restore != state.RestoreBegin:
			if applied(now) { // the commit came between the two looks
				return nil
			}
			return state.ErrRestoreLost
		}
		select {
		case <-changed:
			continue
		case <-t.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-j.s.lifetime.Done():
			return errNotServing
		}
		err = j.s.node.Propose(cmd)
		t.Reset(restoreRepeat)
		if err != nil && !errors.Is(err, replication.ErrNotLeader) && !errors.Is(err, replication.ErrQueueFull) {
			return err
		}
		if err != nil { // soon again
			t.Reset(restoreRepeat / 30)
		}
	}
}

func (j *restoreJob) watch() (changed <-chan struct{}, err error) {
	w := &j.s.restores
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.refused:
		err = state.ErrRestoring
	case w.failed:
		err = fmt.Errorf("%w: it is too large, or its nodes are not in order", state.ErrBadBackup)
	}
	return w.changed, err
}

// now is the restore under way in the machine.
func (j *restoreJob) now() state.Restoring {
	j.s.node.RLock()
	defer j.s.node.RUnlock()
	now, _ := j.s.node.Machine().Restoring()
	return now
}

// afterEntry waits while a log entry is being applied, and says for how long. A restore of a
// large tree takes its time, in which nobody's frames are read: silence that we cause proves
// nothing about clients, so who judges by it waits with them.
func (s *Server) afterEntry() time.Duration {
	start := s.nowNs()
	s.node.RLock()
	defer s.node.RUnlock()
	return time.Duration(s.nowNs() - start)
}
