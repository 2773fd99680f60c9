package recipes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/client"
)

// Words that ask a holder to let go, written into its node: Curator's, and the one of
// ZooKeeper's page of recipes.
const (
	revokeCurator   = "__REVOKE__"
	revokeZooKeeper = "unlock"
)

// A Lease is a hold on something: a lock, a permit, a leadership. It ends by Release, or by
// itself: the session is lost, somebody deletes the node, MaxHold is over. Its methods may be
// called from any goroutine.
type Lease interface {
	// Done is closed when the hold has ended, for whatever reason. When the session is lost it
	// is closed before anybody else can hold.
	Done() <-chan struct{}

	// Err is nil while it is held; then ErrReleased, ErrSessionLost, ErrRevoked, ErrMaxHold or
	// ErrResigned.
	Err() error

	// Context returns a context that ends with the hold, with Err as its cause.
	Context(parent context.Context) (context.Context, context.CancelFunc)

	// Valid says whether it is held, and the session is surely alive now. It asks only clocks,
	// and is right also in a process that was stopped for a while. It may be outdated as soon
	// as it is said: a write that must not come late needs Guard or Token.
	Valid() bool

	// Verify asks the server whether our node is there and ours. nil: it was, a moment ago.
	Verify(ctx context.Context) error

	// Token is the fencing token: it grows from holder to holder, so a resource that remembers
	// the highest one can refuse a holder of the past. It is the czxid of our node.
	Token() int64

	// Guard is what makes a Multi fail as a whole when the hold is over: a check of our node.
	//
	//	c.Multi().Add(lease.Guard()...).Set("/result", data, -1).Commit(ctx)
	Guard() []client.Op

	// RevokeRequested is closed when somebody asks the holder to let go. Doing so is up to the
	// holder.
	RevokeRequested() <-chan struct{}

	// Release ends the hold and deletes the node. It may be called again, and after a loss; then
	// it waits for OnLost. When ctx ends first, the deletion goes on in the background.
	Release(ctx context.Context) error

	// Path is our node.
	Path() string
}

// A hold is a Lease on one ephemeral node. One goroutine (run) watches the node, the session and
// the clock, and ends when the hold does; the goroutines that it starts have ended then, too.
type hold struct {
	c       *client.Client
	cfg     *config
	session *client.Session
	of      heldKey
	kind    kind
	path    string // the node that is there exactly as long as the hold
	stat    client.Stat
	remove  func(ctx context.Context) error // deletes what the hold consists of; may be called again

	// Of a hold on a post: a watch of that, and what is to be noted when it is no longer ours.
	post      *client.Watch
	displaced *atomic.Bool

	ctx    context.Context // ends with the hold, with the reason as its cause
	cancel context.CancelCauseFunc

	revoke  context.Context // ends when somebody asks us to let go
	revoked context.CancelFunc

	stopped chan struct{} // closed when run has returned

	mu     sync.Mutex
	rolled chan struct{} // guarded by mu; closed when OnLost is done with, nil if it is not called
}

// begin starts the hold. It is called by whoever has seen that the node is there and ours, with
// what confirm returned.
func (h *hold) begin(data []byte, w *client.Watch) *hold {
	h.stopped = make(chan struct{})
	h.ctx, h.cancel = context.WithCancelCause(context.Background())
	h.revoke, h.revoked = context.WithCancel(context.Background())
	h.heed(data)
	go h.run(w)
	return h
}

// confirm reads our own node: it must be there, and of this session. A node of an earlier
// session that is not deleted yet must not be taken for ours (CURATOR-696). The watch that it
// leaves tells of revocation and deletion.
func confirm(ctx context.Context, c *client.Client, s *client.Session, path string) ([]byte, client.Stat, *client.Watch, error) {
	data, stat, w, err := c.GetW(ctx, path, client.In(s))
	switch {
	case err != nil && s.Err() != nil:
		return nil, stat, nil, errAgain
	case errors.Is(err, client.ErrNoNode):
		return nil, stat, nil, errGone
	case err != nil:
		return nil, stat, nil, err
	case stat.EphemeralOwner != s.ID() || s.Err() != nil:
		forget(w)
		return nil, stat, nil, errAgain
	}
	return data, stat, w, nil
}

// run ends the hold when something outside says so. w watches our node, as post does a second one;
// nobody has to remove them, since every end of a hold deletes the nodes.
func (h *hold) run(w *client.Watch) {
	defer close(h.stopped)
	var limit <-chan time.Time
	if h.cfg.maxHold > 0 {
		t := time.NewTimer(h.cfg.maxHold)
		defer t.Stop()
		limit = t.C
	}
	stopStrict := h.watchConnection()
	defer stopStrict()
	events := w.C()
	var post <-chan client.Event
	if h.post != nil {
		post = h.post.C()
	}
	var looked chan *client.Watch // of a look that is under way; nil: none is
	for h.ctx.Err() == nil {
		select {
		case <-h.ctx.Done():
		case <-h.session.Done():
			h.lose(ErrSessionLost)
		case <-limit:
			h.lose(ErrMaxHold)
		case ev := <-events:
			events = nil
			switch {
			case ev.Err != nil:
				h.lose(ErrSessionLost) // of its session, or of the client
			case ev.Type == client.EventDeleted:
				h.lose(ErrRevoked)
			default: // not here: it may wait for a server, and the clock does not
				looked = make(chan *client.Watch, 1)
				go func() { looked <- h.look() }()
			}
		case ev := <-post:
			why := ErrRevoked
			if ev.Err != nil {
				why = ErrSessionLost
			}
			h.displaced.Store(ev.Type == client.EventDeleted)
			post = nil
			h.lose(why)
		case w := <-looked:
			if looked = nil; w != nil {
				events = w.C()
			}
		}
	}
	if looked != nil {
		<-looked
	}
}

// look reads our node again after a change, and leaves a watch; nil if the hold has ended.
func (h *hold) look() *client.Watch {
	data, _, w, err := confirm(h.ctx, h.c, h.session, h.path)
	switch {
	case err == nil:
		h.heed(data)
		return w
	case h.ctx.Err() != nil:
	case h.session.Err() != nil:
		h.lose(ErrSessionLost)
	default: // gone, or hidden from us, which we cannot tell from being about to go
		h.lose(ErrRevoked)
	}
	return nil
}

// heed looks for a request to let go.
func (h *hold) heed(data []byte) {
	if s := string(data); s == revokeCurator || s == revokeZooKeeper {
		h.revoked()
	}
}

// watchConnection ends the hold at a disconnect, if that is wanted.
func (h *hold) watchConnection() (stop func()) {
	if !h.cfg.strict {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ev := range h.c.Events(h.ctx) {
			if ev.State != client.StateConnected && ev.State != client.StateReadOnly {
				h.lose(ErrSessionLost)
				return
			}
		}
	}()
	return func() { <-done }
}

// lose ends the hold against the holder's will, and sees to it that the node goes.
func (h *hold) lose(why error) {
	h.mu.Lock()
	if h.ctx.Err() != nil {
		h.mu.Unlock()
		return
	}
	if h.cfg.onLost != nil {
		h.rolled = make(chan struct{})
		go h.rollBack(why)
	}
	h.cancel(why)
	h.mu.Unlock()
	if h.cfg.onLost == nil {
		h.removeLater()
	}
}

// end ends the hold by the holder's will, unless it has ended. The node stays.
func (h *hold) end(why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cancel(why)
}

// rollBack runs the application's function and then deletes the node.
func (h *hold) rollBack(why error) {
	<-h.ctx.Done()
	ctx, cancel := context.WithTimeout(context.Background(), h.session.Timeout())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.cfg.onLost(ctx, h, why)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	h.removeLater()
	close(h.rolled)
}

// removeLater deletes the node without anybody waiting for it.
func (h *hold) removeLater() { _ = h.remove(over) }

// Done implements Lease.
func (h *hold) Done() <-chan struct{} { return h.ctx.Done() }

// Err implements Lease.
func (h *hold) Err() error { return context.Cause(h.ctx) }

// Context implements Lease.
func (h *hold) Context(parent context.Context) (context.Context, context.CancelFunc) {
	return leaseContext(h.mark(parent), h.ctx)
}

func (h *hold) mark(ctx context.Context) context.Context {
	return context.WithValue(ctx, h.of, heldValue{h.ctx, h.kind})
}

func (h *hold) asked() context.Context { return h.revoke }

// leaseContext returns a child of parent that ends with the lease, for the same reason.
func leaseContext(parent, lease context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	stop := context.AfterFunc(lease, func() { cancel(context.Cause(lease)) })
	return ctx, func() { stop(); cancel(nil) }
}

// Valid implements Lease.
func (h *hold) Valid() bool { return h.ctx.Err() == nil && h.session.Valid() }

// Verify implements Lease.
func (h *hold) Verify(ctx context.Context) error {
	if err := h.Err(); err != nil {
		return err
	}
	stat, ok, err := h.c.Exists(ctx, h.path, client.Fresh(), client.In(h.session))
	switch {
	case h.Err() != nil:
		return h.Err()
	case h.session.Err() != nil:
		h.lose(ErrSessionLost)
		return h.Err()
	case err != nil:
		return err
	case !ok || stat.EphemeralOwner != h.session.ID() || stat.Czxid != h.stat.Czxid:
		h.lose(ErrRevoked)
		return h.Err()
	}
	return nil
}

// Token implements Lease.
func (h *hold) Token() int64 { return h.stat.Czxid }

// Guard implements Lease.
func (h *hold) Guard() []client.Op {
	return []client.Op{h.c.OpCheck(h.path, client.AnyVersion)}
}

// RevokeRequested implements Lease.
func (h *hold) RevokeRequested() <-chan struct{} { return h.revoke.Done() }

// Path implements Lease.
func (h *hold) Path() string { return h.path }

// Release implements Lease.
func (h *hold) Release(ctx context.Context) error {
	h.end(ErrReleased)
	<-h.stopped
	h.mu.Lock()
	rolled := h.rolled
	h.mu.Unlock()
	if rolled != nil {
		select {
		case <-rolled:
		case <-ctx.Done(): // the roll-back will delete the node
			return fmt.Errorf("release %s: %w", h.path, ended(ctx))
		}
	}
	return h.remove(ctx)
}

// heldKey is the lock under which a context carries the lease that it belongs to.
type heldKey struct {
	c    *client.Client
	path string
}

type heldValue struct {
	lease context.Context
	kind  kind
}

// heldBy says whether ctx comes from the Context of a living lease of this lock.
func (k heldKey) heldBy(ctx context.Context) (kind, bool) {
	v, ok := ctx.Value(k).(heldValue)
	return v.kind, ok && v.lease.Err() == nil
}
