package recipes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zkd-project/zkd/client"
)

// A NodeOption changes a PersistentNode.
type NodeOption func(*nodeConfig)

type nodeConfig struct {
	acl      []client.ACL
	takeOver bool
}

// NodeACL gives the node this access control list, instead of an open one.
func NodeACL(acl []client.ACL) NodeOption { return func(c *nodeConfig) { c.acl = acl } }

// TakeOver deletes an ephemeral node of another session that stands in our place, as Curator
// does: after a restart nobody has to wait for the old session to end. Without it we wait. Two
// processes that take over from each other never come to rest.
func TakeOver() NodeOption { return func(c *nodeConfig) { c.takeOver = true } }

// A PersistentNode is a node that is made again whenever it is gone: after its session was lost,
// or because somebody deleted it. One goroutine (run) sees to that.
type PersistentNode struct {
	c    *client.Client
	mode client.CreateMode
	ttl  time.Duration // of the child "touch"; 0: there is none
	cfg  nodeConfig

	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // closed when run has returned

	mu      sync.Mutex
	path    string        // guarded by mu; of a sequential node it gets its number at the first create
	named   bool          // guarded by mu; path is final
	data    []byte        // guarded by mu; what is to be written
	there   bool          // guarded by mu; the node was there when we looked
	err     error         // guarded by mu; why run has ended
	changed chan struct{} // guarded by mu; closed and replaced when any of these changes
}

// NewPersistentNode begins to keep a node. A sequential one keeps the number that it was given
// first. Close it.
func NewPersistentNode(c *client.Client, path string, mode client.CreateMode, data []byte, opts ...NodeOption) *PersistentNode {
	return newNode(c, path, mode, 0, data, opts)
}

// NewPersistentTTLNode begins to keep a container with a child "touch" that lives for ttl and is
// renewed in half of that time: when this process ends, the server removes both, whatever
// becomes of the session. It is Curator's PersistentTtlNode, and needs a server that knows TTL
// nodes (extendedTypesEnabled). Close it.
func NewPersistentTTLNode(c *client.Client, path string, ttl time.Duration, data []byte, opts ...NodeOption) *PersistentNode {
	return newNode(c, path, client.ModePersistent, ttl, data, opts)
}

func newNode(c *client.Client, path string, mode client.CreateMode, ttl time.Duration, data []byte, opts []NodeOption) *PersistentNode {
	n := &PersistentNode{
		c: c, mode: mode, ttl: ttl, path: path, named: !mode.Sequential(),
		data: bytes.Clone(data), done: make(chan struct{}), changed: make(chan struct{}),
	}
	for _, o := range opts {
		o(&n.cfg)
	}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	go n.run()
	return n
}

// Path is where the node is. A sequential one has its number after the first Await.
func (n *PersistentNode) Path() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.path
}

// Await waits until the node is there.
func (n *PersistentNode) Await(ctx context.Context) error {
	return n.await(ctx, func() bool { return n.there })
}

func (n *PersistentNode) await(ctx context.Context, cond func() bool) error {
	for {
		n.mu.Lock()
		ok, err, changed := cond(), n.err, n.changed
		n.mu.Unlock()
		if ok || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("keep %s: %w", n.Path(), ended(ctx))
		}
	}
}

// Err is nil while the node is kept, and says afterwards why no longer.
func (n *PersistentNode) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// SetData writes data into the node, now and whenever it is made again.
func (n *PersistentNode) SetData(ctx context.Context, data []byte) error {
	n.mu.Lock()
	n.data = bytes.Clone(data)
	n.mu.Unlock()
	for {
		if err := n.Await(ctx); err != nil {
			return err
		}
		_, err := n.c.Set(ctx, n.Path(), data, client.AnyVersion, client.Idempotent())
		if !errors.Is(err, client.ErrNoNode) {
			return err
		}
		// It is being made again, with the old data or the new.
		if err := n.pause(ctx); err != nil {
			return err
		}
	}
}

// pause waits for a change of the state, or a moment.
func (n *PersistentNode) pause(ctx context.Context) error {
	n.mu.Lock()
	changed := n.changed
	n.mu.Unlock()
	t := time.NewTimer(20 * time.Millisecond)
	defer t.Stop()
	select {
	case <-changed:
	case <-t.C:
	case <-ctx.Done():
		return ended(ctx)
	}
	return nil
}

// Close deletes the node and keeps it no longer. When ctx ends first, the deletion goes on in the
// background.
func (n *PersistentNode) Close(ctx context.Context) error {
	n.cancel()
	<-n.done
	n.mu.Lock()
	path, named := n.path, n.named
	n.mu.Unlock()
	if !named {
		return nil // it never came to be
	}
	if n.ttl > 0 {
		if err := n.c.SureDelete(ctx, join(path, "touch"), client.AnyVersion); err != nil {
			return err
		}
	}
	if n.mode.Ephemeral() && !n.ours(ctx, path) {
		return nil
	}
	return n.c.SureDelete(ctx, path, client.AnyVersion)
}

// ours says that the node at our path is not known to be another's.
func (n *PersistentNode) ours(ctx context.Context, path string) bool {
	stat, ok, err := n.c.Exists(ctx, path, client.Fresh())
	return err != nil || ok && stat.EphemeralOwner == n.c.SessionID()
}

// run keeps the node until it is closed.
func (n *PersistentNode) run() {
	defer close(n.done)
	var err error
	for err == nil {
		err = n.keep()
		if errors.Is(err, errAgain) {
			err = nil
		}
	}
	n.update(func() { n.there, n.err = false, fmt.Errorf("keep %s: %w", n.path, err) })
}

func (n *PersistentNode) update(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
	close(n.changed)
	n.changed = make(chan struct{})
}

// keep makes the node, and returns errAgain when it is gone.
func (n *PersistentNode) keep() error {
	s, err := n.c.AwaitSession(n.ctx)
	if err != nil {
		return err
	}
	if err := n.make(s); err != nil {
		return n.failed(s, err)
	}
	if err := n.touch(); err != nil {
		return n.failed(s, err)
	}
	stat, ok, w, err := n.c.ExistsW(n.ctx, n.Path(), client.In(s))
	if err != nil {
		return n.failed(s, err)
	}
	for ok && (!n.mode.Ephemeral() || stat.EphemeralOwner == s.ID()) {
		n.update(func() { n.there = true })
		if err := n.linger(s, w); err != nil {
			return err
		}
		if stat, ok, w, err = n.c.ExistsW(n.ctx, n.Path(), client.In(s)); err != nil {
			return n.failed(s, err)
		}
	}
	forget(w)
	n.update(func() { n.there = false })
	return errAgain
}

// readOnlyPause is how long a server without a quorum is left alone.
const readOnlyPause = 500 * time.Millisecond

// failed tells what can be tried again from what cannot. A server that is read-only (WithReadOnly) will
// be so no longer some day.
func (n *PersistentNode) failed(s *client.Session, err error) error {
	if errors.Is(err, client.ErrNotReadOnly) && pause(n.ctx, readOnlyPause) == nil {
		err = errAgain
	}
	if n.ctx.Err() == nil && (s.Err() != nil || errors.Is(err, errAgain)) {
		n.update(func() { n.there = false })
		return errAgain
	}
	return err
}

// linger waits for something to happen to the node, and touches it meanwhile.
func (n *PersistentNode) linger(s *client.Session, w *client.Watch) error {
	var tick <-chan time.Time
	if n.ttl > 0 {
		t := time.NewTicker(n.ttl / 2)
		defer t.Stop()
		tick = t.C
	}
	session := s.Done()
	if !n.mode.Ephemeral() {
		session = nil // the node does not mind, and the watch tells
	}
	for {
		select {
		case ev := <-w.C():
			if ev.Err != nil {
				return n.failed(s, ev.Err)
			}
			return nil
		case <-tick:
			if err := n.touch(); err != nil {
				forget(w)
				return n.failed(s, err)
			}
		case <-session:
			forget(w)
			return n.failed(s, errAgain)
		case <-n.ctx.Done():
			forget(w)
			return ended(n.ctx)
		}
	}
}

// make creates the node, or finds it.
func (n *PersistentNode) make(s *client.Session) error {
	n.mu.Lock()
	path, named, data := n.path, n.named, n.data
	n.mu.Unlock()
	if !named {
		made, _, err := n.c.ProtectedCreate(n.ctx, path, data, n.mode, n.cfg.acl, client.MakeParents(), client.In(s))
		if err != nil {
			return err
		}
		n.update(func() { n.path, n.named = made, true })
		return nil
	}
	var err error
	if n.ttl > 0 {
		_, _, err = n.c.CreateContainer(n.ctx, path, data, n.cfg.acl, client.MakeParents(), client.In(s))
	} else {
		mode := client.ModePersistent
		if n.mode.Ephemeral() {
			mode = client.ModeEphemeral
		}
		_, _, err = n.c.Create(n.ctx, path, data, mode, n.cfg.acl, client.MakeParents(), client.In(s))
	}
	if errors.Is(err, client.ErrUncertain) && n.ctx.Err() == nil {
		return errAgain
	}
	if errors.Is(err, client.ErrNodeExists) {
		return n.adopt(s, path, data)
	}
	return err
}

// adopt deals with a node that is there already.
func (n *PersistentNode) adopt(s *client.Session, path string, data []byte) error {
	have, stat, w, err := n.c.GetW(n.ctx, path, client.In(s))
	switch {
	case errors.Is(err, client.ErrNoNode):
		return errAgain
	case err != nil:
		return err
	case n.mode.Ephemeral() && stat.EphemeralOwner != s.ID():
		return n.displace(s, path, stat, w)
	}
	forget(w)
	if bytes.Equal(have, data) {
		return nil
	}
	_, err = n.c.Set(n.ctx, path, data, stat.Version, client.In(s), client.Idempotent())
	if errors.Is(err, client.ErrNoNode) || errors.Is(err, client.ErrBadVersion) {
		return errAgain
	}
	return err
}

// displace waits for the end of another session's node, or deletes it.
func (n *PersistentNode) displace(s *client.Session, path string, stat client.Stat, w *client.Watch) error {
	if n.cfg.takeOver {
		forget(w)
		if err := n.c.SureDelete(n.ctx, path, stat.Version); err != nil && !errors.Is(err, client.ErrBadVersion) {
			return err
		}
		return errAgain
	}
	select {
	case <-w.C():
	case <-s.Done():
		forget(w)
	case <-n.ctx.Done():
		forget(w)
		return ended(n.ctx)
	}
	return errAgain
}

// touch renews the child that lives for a while.
func (n *PersistentNode) touch() error {
	if n.ttl == 0 {
		return nil
	}
	path := join(n.Path(), "touch")
	_, err := n.c.Set(n.ctx, path, nil, client.AnyVersion, client.Idempotent())
	if !errors.Is(err, client.ErrNoNode) {
		return err
	}
	_, _, err = n.c.CreateTTL(n.ctx, path, nil, client.ModePersistent, n.ttl, n.cfg.acl, client.Idempotent())
	switch {
	case errors.Is(err, client.ErrNodeExists):
		return nil
	case errors.Is(err, client.ErrNoNode):
		return errAgain
	}
	return err
}
