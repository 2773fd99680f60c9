package replication

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/zkd-project/zkd/server/replication/peer"
)

// raft is shut down and started again on the same stores, inside the process, when it has
// installed a snapshot whose index lies below the end of this server's log. Two things are
// wrong with it then, and both only in its memory:
//
//   - Where the log's tail diverges (this server led, was cut off, and a new leader's entries
//     were purged before it came back) raft goes on believing in the old last entry. It refuses
//     what follows the snapshot, and the leader sends the same snapshot again and again.
//   - Where the tail is right, what lies between the snapshot and the commit index is not
//     applied again before the commit index moves.
//
// From the moment the machine is that of the snapshot until the new raft runs nothing is
// applied, and no snapshot is taken: so the machine is exactly what the new raft begins with.
// The peer port stays open meanwhile, streams and the clock of nobody stop.

const (
	// installPatience is how long raft may take to have done with a snapshot that was installed;
	// then it is restarted all the same.
	installPatience = 5 * time.Second
	// sayInterval is between two lines of the log about something that takes long.
	sayInterval = 3 * time.Second
)

// An engine is one life of raft.
type engine struct {
	*raft.Raft
	down     func() raft.Future // shuts raft down; the future is done when it has let go of the stores
	over     chan struct{}      // closed by down
	replaced chan struct{}      // closed when another engine has taken its place
}

// raft is the one that runs. It may be used when up is set, and has been shut down, at
// worst, by the time it is used.
func (n *Node) raft() *raft.Raft { return n.engine.Load().Raft }

// newEngine starts raft on the stores. raft panics if it cannot read the log: that becomes an
// error here.
func (n *Node) newEngine(conf *raft.Config, transport raft.Transport) (_ *engine, err error) {
	defer func() {
		if p := recover(); p != nil {
			var ok bool
			if err, ok = p.(error); !ok {
				panic(p)
			}
		}
	}()
	over := make(chan struct{})
	if n.peers != nil {
		transport = &lentTransport{Transport: n.peers, n: n, over: over}
	}
	log := engineLog{&guardedLog{n.stores.log, n}}
	stable := &guardedStable{stableStore: n.stores.stable, n: n}
	snaps := &guardedSnapshots{n.stores.snaps, n}
	r, err := raft.NewRaft(conf, n.fsm, log, stable, snaps, transport)
	if err != nil {
		return nil, fmt.Errorf("cannot start raft: %w", err)
	}
	e := &engine{Raft: r, over: over, replaced: make(chan struct{})}
	e.down = sync.OnceValue(func() raft.Future {
		close(over)
		return r.Shutdown()
	})
	return e, nil
}

// mend restarts raft and repairs the machine when that is asked for. It ends with stop.
func (n *Node) mend(stop <-chan struct{}) {
	ctx, cancel := n.until(stop)
	defer cancel()
	select {
	case <-n.begun: // the Observer is not there before
	case <-ctx.Done():
	}
	for ctx.Err() == nil {
		select {
		case <-n.restarts:
			n.awaitInstalled(ctx)
			n.restart(ctx, "a snapshot was installed below the end of the log", nil)
		case <-n.sick:
			n.repair(ctx)
		case <-ctx.Done():
		}
	}
}

// until returns a context that ends with stop, or with the node.
func (n *Node) until(stop <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-stop:
		case <-n.dead:
		case <-ctx.Done():
		}
		cancel()
	}()
	return ctx, cancel
}

// awaitInstalled waits until raft's main loop has done with a snapshot that the machine has
// taken over already: else the leader would be told that it was not installed, and send it
// once more.
func (n *Node) awaitInstalled(ctx context.Context) {
	t := time.NewTimer(installPatience)
	defer t.Stop()
	select {
	case <-n.engine.Load().over:
	case <-t.C:
	case <-ctx.Done():
	}
}

// An engineLog shuts raft down between the installation of a snapshot, behind which it is to be
// restarted, and the next request: an answer with its wrong last index would have the leader
// send the snapshot again. raft's main loop asks for the first index when it has taken the
// snapshot over, and answers the leader after that.
type engineLog struct{ *guardedLog }

// FirstIndex implements raft.LogStore.
func (l engineLog) FirstIndex() (uint64, error) {
	if l.n.restarting.Load() {
		l.n.engine.Load().down()
	}
	return l.guardedLog.FirstIndex()
}

// GetLog implements raft.LogStore. A follower that has got a snapshot has a log that begins behind
// it. What follows the snapshot is sent once more if the answer to it was lost, and raft looks for the
// entry before in the log alone: it would refuse, the leader would go back entry by entry to the
// beginning of its own log, with a request for each, and send the snapshot again. All that raft wants
// to know of that entry is its term, which the snapshot has. A leader is not told it: it has to see
// that the entry is not there.
func (l engineLog) GetLog(index uint64, out *raft.Log) error {
	err := l.guardedLog.GetLog(index, out)
	if !errors.Is(err, raft.ErrLogNotFound) || index <= 1 || !l.n.up.Load() || l.n.raft().State() == raft.Leader {
		return err
	}
	if first, ferr := l.guardedLog.FirstIndex(); ferr != nil || first != index+1 {
		return err
	}
	files := l.n.stores.snaps.all()
	if len(files) == 0 || files[len(files)-1].index != index {
		return err
	}
	*out = raft.Log{Index: index, Term: files[len(files)-1].term, Type: raft.LogNoop}
	return nil
}

// restart replaces raft by another one on the same stores. change is called between the two,
// when nobody uses the stores and nothing is applied.
func (n *Node) restart(ctx context.Context, why string, change func() error) {
	start := n.o.Now()
	n.o.Logger.Warn("restarting raft in place", "reason", why)
	n.restarting.Store(true)
	old := n.engine.Load()
	gone := make(chan struct{})
	down := old.down()
	go func() { // ends when raft has, at Close at the latest
		_ = down.Error() // a shutdown has none
		close(gone)
	}()
	select {
	case <-gone:
	case <-ctx.Done():
		return
	}
	err := n.replaceEngine(old, change)
	if err != nil {
		n.fail(fmt.Errorf("cannot restart raft in place: %w", err))
		return
	}
	n.o.Logger.Warn("raft was restarted in place", "applied", n.applied.Load(), "took", n.o.Now().Sub(start).Round(time.Millisecond))
}

func (n *Node) replaceEngine(old *engine, change func() error) error {
	if change != nil {
		if err := change(); err != nil {
			return err
		}
	}
	if err := n.cutDivergence(); err != nil {
		return err
	}
	n.engineMu.Lock()
	defer n.engineMu.Unlock()
	if n.closing.Load() || n.halted() {
		return nil
	}
	select {
	case <-n.restarts: // this is it
	default:
	}
	n.restarting.Store(false) // the new raft may apply at once
	e, err := n.newEngine(n.raftConfig(), nil)
	if err != nil {
		return err
	}
	n.engine.Store(e)
	close(old.replaced)
	n.batcher.relead() // its channel is another one now
	return nil
}

// cutDivergence deletes the log if it tells another story than the newest snapshot. Then all from
// there on was never committed, and what is before is in the snapshot. A log that agrees stays as it
// is, for this server has acknowledged it.
func (n *Node) cutDivergence() error {
	files := n.stores.snaps.all()
	if len(files) == 0 {
		return nil
	}
	newest := files[len(files)-1]
	first, err1 := n.stores.log.FirstIndex()
	last, err2 := n.stores.log.LastIndex()
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("cannot read the log: %w", err)
	}
	if first == 0 || first > newest.index {
		return continuity(n.o.LogDir, newest.index, first, last)
	}
	what := "ends before the snapshot"
	if last >= newest.index {
		if agrees, err := n.logAgrees(first, last); agrees || err != nil {
			return err
		}
		what = "diverges from the snapshot, nobody else has what follows"
	}
	n.o.Logger.Warn("removing the log, which "+what, "first", first, "last", last, "snapshot", newest.index)
	return (&guardedLog{n.stores.log, n}).DeleteRange(first, last)
}

// logAgrees says whether the log, from first to last, tells the same story as the newest snapshot:
// its entry at the snapshot's index, if it has one, is of the same term.
func (n *Node) logAgrees(first, last uint64) (bool, error) {
	files := n.stores.snaps.all()
	if len(files) == 0 {
		return true, nil
	}
	newest := files[len(files)-1]
	if first == 0 || newest.index < first || newest.index > last {
		return true, nil
	}
	var entry raft.Log
	err := n.stores.log.GetLog(newest.index, &entry)
	if errors.Is(err, raft.ErrLogNotFound) {
		return true, nil // a store that allows gaps: it goes on behind the snapshot
	}
	if err != nil {
		return false, fmt.Errorf("cannot read the log: %w", err)
	}
	return entry.Term == newest.term, nil
}

// endsBehind says whether the log goes on behind a snapshot that was just installed.
func (n *Node) endsBehind(snapshot uint64) bool {
	last, err := n.stores.log.LastIndex()
	return err == nil && last > snapshot && n.peers != nil && !n.keepRaft.Load()
}

// A lentTransport is the peer port in the hands of one life of raft: raft's end does not close
// it, and ends the calls that raft has under way, for raft waits for them.
type lentTransport struct {
	raft.Transport
	n    *Node
	over chan struct{}
}

var _ raft.WithPreVote = (*lentTransport)(nil)

// lend makes a call that ends with raft. Its answer goes into memory of its own: the call
// itself may come to an end later.
func lend[R any](t *lentTransport, resp *R, call func(*R) error) error {
	return lendUntil(t, nil, resp, call)
}

// lendUntil is lend for a call that is given up at some time.
func lendUntil[R any](t *lentTransport, late <-chan time.Time, resp *R, call func(*R) error) error {
	answer, done := new(R), make(chan error, 1)
	go func() { done <- call(answer) }()
	select {
	case err := <-done:
		if err == nil {
			*resp = *answer
		}
		return err
	case <-late:
		return errNoHeir
	case <-t.over:
		return raft.ErrRaftShutdown
	}
}

// RequestVote implements raft.Transport.
func (t *lentTransport) RequestVote(id raft.ServerID, a raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	return lend(t, resp, func(r *raft.RequestVoteResponse) error { return t.n.peers.RequestVote(id, a, args, r) })
}

// RequestPreVote implements raft.WithPreVote.
func (t *lentTransport) RequestPreVote(id raft.ServerID, a raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return lend(t, resp, func(r *raft.RequestPreVoteResponse) error { return t.n.peers.RequestPreVote(id, a, args, r) })
}

// AppendEntries implements raft.Transport.
func (t *lentTransport) AppendEntries(id raft.ServerID, a raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if t.n.standsStill() {
		return errDiskStands
	}
	sent := time.Now()
	err := lend(t, resp, func(r *raft.AppendEntriesResponse) error { return t.n.peers.AppendEntries(id, a, args, r) })
	if err == nil && resp.Term == args.Term {
		t.n.contacts.note(id, args.Term, sent)
	}
	return err
}

// errDiskStands is why a leader says nothing.
var errDiskStands = errors.New("the disk of this leader stands still")

// AppendEntriesPipeline implements raft.Transport.
func (t *lentTransport) AppendEntriesPipeline(id raft.ServerID, a raft.ServerAddress) (raft.AppendPipeline, error) {
	p, err := t.Transport.AppendEntriesPipeline(id, a)
	if err != nil {
		return nil, err
	}
	return &lentPipeline{p, t.n}, nil
}

// A lentPipeline is a pipeline that falls silent with its leader.
type lentPipeline struct {
	raft.AppendPipeline
	n *Node
}

// AppendEntries implements raft.AppendPipeline.
func (p *lentPipeline) AppendEntries(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	if p.n.standsStill() {
		return nil, errDiskStands
	}
	return p.AppendPipeline.AppendEntries(args, resp)
}

// TimeoutNow implements raft.Transport. raft takes no entries while it hands over, and not before
// this call returns, although it gives the hand-over up after an election timeout: so does this.
func (t *lentTransport) TimeoutNow(id raft.ServerID, a raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	timer := time.NewTimer(electionTimeout)
	defer timer.Stop()
	return lendUntil(t, timer.C, resp, func(r *raft.TimeoutNowResponse) error { return t.n.peers.TimeoutNow(id, a, args, r) })
}

// errNoHeir is why a hand-over to a member that does not answer has failed.
var errNoHeir = errors.New("the heir does not answer")

// InstallSnapshot implements raft.Transport. raft closes data when it returns.
func (t *lentTransport) InstallSnapshot(id raft.ServerID, a raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	p := t.n.newProgress("sending a snapshot", args.Size, "to", id, "index", args.LastLogIndex)
	in := &lentReader{in: data, p: p}
	defer in.take()
	err := lend(t, resp, func(r *raft.InstallSnapshotResponse) error { return t.n.peers.InstallSnapshot(id, a, args, r, in) })
	p.end(err)
	if err == nil {
		t.n.o.Meters.SnapshotSent()
	}
	return err
}

// A lentReader can be taken away from its reader.
type lentReader struct {
	mu sync.Mutex // held while it is read from
	in io.Reader  // guarded by mu: nil when it was taken away
	p  *progress
}

func (r *lentReader) Read(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.in == nil {
		return 0, raft.ErrRaftShutdown
	}
	k, err := r.in.Read(b)
	r.p.add(k)
	return k, err
}

func (r *lentReader) take() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.in = nil
}

// A progress tells the operator of a snapshot on its way: when it begins, every few seconds,
// and how it ended.
type progress struct {
	log   *slog.Logger
	what  string
	start time.Time
	bytes atomic.Int64
	said  atomic.Int64 // ns since start
}

func (n *Node) newProgress(what string, size int64, args ...any) *progress {
	p := &progress{log: n.o.Logger.With(args...).With("size", size), what: what, start: time.Now()}
	p.log.Info(what)
	return p
}

// add notes bytes that have come along.
func (p *progress) add(bytes int) {
	sum := p.bytes.Add(int64(bytes))
	now, said := int64(time.Since(p.start)), p.said.Load()
	if now-said >= int64(sayInterval) && p.said.CompareAndSwap(said, now) {
		p.log.Info(p.what+": under way", "bytes", sum, "after", time.Duration(now).Round(time.Millisecond))
	}
}

func (p *progress) end(err error) {
	took := time.Since(p.start).Round(time.Millisecond)
	if err != nil {
		p.log.Warn(p.what+": given up", "bytes", p.bytes.Load(), "took", took, "reason", err)
		return
	}
	p.log.Info(p.what+": done", "bytes", p.bytes.Load(), "took", took)
}

// spool is where snapshots of the leader wait until they are complete.
func (n *Node) spool() func(int64) (peer.Spool, error) {
	place := peer.SpoolMemory
	if !n.o.Memory {
		place = peer.SpoolDir(n.o.FS, n.o.Dir)
	}
	return func(size int64) (peer.Spool, error) {
		s, err := place(size)
		if err != nil {
			return nil, err
		}
		return &watchedSpool{Spool: s, p: n.newProgress("receiving a snapshot", size)}, nil
	}
}

// watchedSpool tells of the snapshot that arrives in it.
type watchedSpool struct {
	peer.Spool
	p        *progress
	complete bool
}

func (s *watchedSpool) Write(b []byte) (int, error) {
	k, err := s.Spool.Write(b)
	s.p.add(k)
	return k, err
}

func (s *watchedSpool) Reader() (io.Reader, error) {
	s.complete = true
	s.p.end(nil)
	return s.Spool.Reader()
}

func (s *watchedSpool) Close() error {
	if !s.complete {
		s.p.end(errIncomplete)
	}
	return s.Spool.Close()
}

var errIncomplete = errors.New("it has not arrived completely")
