package replication

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/hashicorp/raft"

	"github.com/zkd-project/zkd/internal/failpoint"
	"github.com/zkd-project/zkd/server/state"
)

// errClosing is what a snapshot under way gets when the node is closed, or its machine is about
// to be replaced.
var errClosing = errors.New("the node is closing, or its raft is restarted")

// keepCommands bounds the memory for decoded commands that is kept from batch to batch.
const keepCommands = 8192

// fsm is the node as raft's state machine: it decodes log entries and runs them through the
// machine. Its methods are called by raft's FSM goroutine, which owns all but n.
type fsm struct {
	n        *Node
	decoder  state.BatchDecoder
	header   state.BatchHeader
	commands []state.Command
	result   state.Result
	replies  []any
	replay   *replay // nil: all that was there at the start has been applied

	// Since the last snapshot:
	bytes int64 // of log
	count int64 // of commands
	share int64 // percent of SnapshotBytes and SnapCount after which the next one is due; 0: not drawn
}

var _ raft.BatchingFSM = (*fsm)(nil)

// Apply implements raft.FSM.
func (f *fsm) Apply(entry *raft.Log) any {
	f.ApplyBatch([]*raft.Log{entry})
	return nil
}

// ApplyBatch applies committed entries. The replies mean nothing: who waits for a command
// is told by the Observer.
func (f *fsm) ApplyBatch(entries []*raft.Log) []any {
	<-f.n.begun // the Observer is not there before
	if !f.n.durability.wait(entries[len(entries)-1].Index) {
		return make([]any, len(entries)) // the node has ended; the entries stay in the log
	}
	f.n.tellCommit(entries[len(entries)-1])
	if f.replay != nil {
		f.replaying()
	}
	for _, entry := range entries {
		if f.n.still() {
			break // an entry that is not applied stays in the log
		}
		if entry.Index <= f.n.applied.Load() {
			continue // raft was restarted, and begins at the snapshot; the machine is further
		}
		if entry.Type != raft.LogCommand {
			f.n.applied.Store(entry.Index)
			continue
		}
		if err := f.decode(entry); err != nil {
			f.n.fail(fmt.Errorf("cannot apply log entry %d: %w", entry.Index, err))
			break
		}
		f.apply()
		f.bytes += int64(len(entry.Data))
		f.count += int64(len(f.commands))
		if f.replay != nil {
			f.replayed(entry.Index)
		}
	}
	f.n.progressed()
	if f.due() {
		f.n.keeper.want()
	}
	for len(f.replies) < len(entries) {
		f.replies = append(f.replies, nil)
	}
	return f.replies[:len(entries)]
}

// due says whether enough has been applied for a snapshot. The members of a cluster apply the same
// log: each draws how much is enough for it, so that not all of them write one at the same time.
func (f *fsm) due() bool {
	if f.share == 0 {
		f.share = 100
		if f.n.peers != nil {
			f.share = 50 + rand.Int64N(51)
		}
	}
	o := &f.n.o
	return o.SnapshotBytes > 0 && f.bytes >= o.SnapshotBytes*f.share/100 ||
		o.SnapCount > 0 && f.count >= int64(o.SnapCount)*f.share/100
}

// decode reads the whole entry before any of it is applied, and without the lock: a batch
// that this version does not understand must not be seen in part.
func (f *fsm) decode(entry *raft.Log) error {
	if cap(f.commands) > keepCommands {
		f.commands = nil
	}
	f.commands = f.commands[:0]
	if err := f.decoder.Reset(entry.Data, &f.header); err != nil {
		return err
	}
	f.header.Term, f.header.Index = entry.Term, entry.Index
	for {
		if len(f.commands) == cap(f.commands) {
			f.commands = append(f.commands, state.Command{})[:len(f.commands)]
		}
		next := f.commands[:len(f.commands)+1]
		if !f.decoder.Next(&next[len(next)-1]) {
			return f.decoder.Err()
		}
		f.commands = next
	}
}

// apply runs the decoded batch. It takes the lock once: readers see all of it or nothing.
func (f *fsm) apply() {
	n, o := f.n, f.n.o.Observer
	start := n.o.Now()
	n.mu.Lock()
	failpoint.Hit(failpoint.ApplyBefore)
	m := n.machine
	m.BeginBatch(&f.header)
	for i := range f.commands {
		m.Apply(&f.header, &f.commands[i], &f.result)
		o.Applied(&f.commands[i], &f.result)
	}
	n.applied.Store(f.header.Index)
	if n.peers != nil && (f.header.Index%digestEvery == 0 || len(f.commands) == 0) {
		n.notes.add(note{f.header.Index, m.Digest()})
	}
	o.BatchDone()
	failpoint.Hit(failpoint.ApplyAfter)
	n.mu.Unlock()
	end := n.o.Now()
	n.o.Meters.Applied(len(f.commands), end.Sub(start))
	if n.queue.routed.Load() {
		n.o.Meters.Propagated(time.Duration(end.UnixMilli()-f.header.TimeMs) * time.Millisecond)
	}
	o.BatchReleased()
}

// Snapshot fixes the machine as it is. It takes microseconds.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	f.n.mu.Lock()
	defer f.n.mu.Unlock()
	if f.n.still() {
		return nil, errClosing
	}
	f.bytes, f.count, f.share = 0, 0, 0
	return &fsmSnapshot{n: f.n, s: f.n.machine.Snapshot()}, nil
}

// Restore replaces the machine by the one in a snapshot.
func (f *fsm) Restore(in io.ReadCloser) error {
	var m *state.Machine
	r, err := unwrapSnapshot(in)
	if err == nil {
		m, err = r.machine()
	}
	if err != nil {
		err = fmt.Errorf("cannot load a snapshot: %w", err)
		f.n.fail(err)
		return err
	}
	f.bytes, f.count, f.share = 0, 0, 0
	failpoint.Hit(failpoint.InstallBefore)
	<-f.n.begun
	restart := f.n.endsBehind(r.d.index)
	f.n.replaceMachine(m, r.d.index, restart)
	f.n.noteHealth()
	f.n.o.Logger.Info("a snapshot of another server was installed", "index", r.d.index, "zxid", fmt.Sprintf("0x%x", m.Zxid()))
	failpoint.Hit(failpoint.InstallAfter)
	if restart {
		select {
		case f.n.restarts <- struct{}{}:
		default: // it is restarted anyway
		}
	}
	return nil
}

// unwrapSnapshot returns the reader of a snapshot store from under what raft puts around it.
func unwrapSnapshot(in io.ReadCloser) (*snapReader, error) {
	for {
		switch v := in.(type) {
		case *snapReader:
			return v, nil
		case raft.ReadCloserWrapper:
			in = v.WrappedReadCloser()
		default:
			return nil, fmt.Errorf("a snapshot from a %T", in)
		}
	}
}

// fsmSnapshot is a machine on its way to a sink.
type fsmSnapshot struct {
	n *Node
	s *state.Snapshot
}

// Persist writes the snapshot, beside the applier.
func (p *fsmSnapshot) Persist(sink raft.SnapshotSink) error {
	err := p.s.Write(p.n.mu.RLocker(), &gentleWriter{Writer: sink, n: p.n})
	if err == nil {
		if z, ok := sink.(interface{ setZxid(zxid int64) }); ok {
			z.setZxid(p.s.Zxid())
		}
		err = sink.Close()
	}
	if err != nil && !errors.Is(err, errClosing) {
		p.n.keeper.failed(err)
	}
	return err
}

// Release lets the machine forget the snapshot.
func (p *fsmSnapshot) Release() { p.s.Close() }

// gentleWriter ends a long write when the node is closing, and gives way to what is being applied:
// a snapshot has time, and writers should not wait behind it for the processor and the disk.
type gentleWriter struct {
	io.Writer
	n       *Node
	began   time.Time // the work since the last pause
	applied uint64    // at that time
}

const (
	// giveWay is how long a pause is, in multiples of the work before it.
	giveWay = 2
	// maxGiveWay bounds one pause.
	maxGiveWay = 20 * time.Millisecond
)

func (w *gentleWriter) Write(p []byte) (int, error) {
	if w.n.closing.Load() || w.n.restarting.Load() || w.n.InQuarantine() {
		return 0, errClosing
	}
	applied := w.n.applied.Load()
	if !w.began.IsZero() && applied != w.applied {
		time.Sleep(min(giveWay*time.Since(w.began), maxGiveWay))
	}
	w.began, w.applied = time.Now(), applied
	return w.Writer.Write(p)
}
