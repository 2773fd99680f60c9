package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zkd-project/zkd/wire"
)

// Types of the protocol, so that users of this package need not import wire.
type (
	// Stat is what a server tells of a node.
	Stat = wire.Stat
	// ACL is one entry of an access control list.
	ACL = wire.ACL
	// ID is an identity: a scheme and a name within it.
	ID = wire.ID
	// ClientInfo is one of the identities that WhoAmI returns.
	ClientInfo = wire.ClientInfo
)

// Permissions of an ACL entry.
const (
	PermRead   = wire.PermRead
	PermWrite  = wire.PermWrite
	PermCreate = wire.PermCreate
	PermDelete = wire.PermDelete
	PermAdmin  = wire.PermAdmin
	PermAll    = wire.PermAll
)

// WorldACL gives everybody these permissions. It is what a nil ACL means, with PermAll.
func WorldACL(perms int32) []ACL {
	return []ACL{{Perms: perms, ID: ID{Scheme: "world", ID: "anyone"}}}
}

// AuthACL gives these permissions to every identity under which the client is authenticated.
func AuthACL(perms int32) []ACL {
	return []ACL{{Perms: perms, ID: ID{Scheme: "auth"}}}
}

// A Client is a session with a group of servers, seen from one root. Its methods may be called
// from any goroutine.
type Client struct {
	k    *core
	root string // the prefix of all paths; "" for the whole tree
}

// Dial connects to one of the servers, "host:port,host:port/chroot", and returns when the
// session is there. When ctx ends first, or the session or the credentials are refused for
// good, nothing of the client is left. ctx has no meaning after that: see Close.
func Dial(ctx context.Context, servers string, opts ...Option) (*Client, error) {
	hosts, root, err := parseServers(servers)
	if err != nil {
		return nil, err
	}
	cfg := defaultConfig()
	for _, o := range opts {
		o(&cfg)
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	c := &Client{k: newCore(cfg, hosts), root: root}
	go c.k.run()
	for ev := range c.Events(ctx) {
		if ev.State.connected() {
			return c, nil
		}
	}
	return nil, c.k.failedDial(ctx, servers)
}

func newCore(cfg config, hosts []string) *core {
	k := &core{
		cfg: cfg, epoch: time.Now(), done: make(chan struct{}), events: newEventLog(),
		servers: newServerList(hosts), moves: make(chan struct{}, 1),
		budget:  budget{maxBytes: cfg.inFlightBytes, maxRequests: cfg.inFlightRequests},
		watches: watchTable{entries: map[string]*watchEntry{}},
		auths:   cfg.auths, lackBy: map[string]lackings{}, suspects: map[suspect]int{},
	}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	k.session = noSession(k.epoch, ErrSessionLapsed)
	k.session.id, k.session.password = cfg.sessionID, cfg.password
	k.mu.Lock()
	k.enter(StateConnecting, nil)
	k.mu.Unlock()
	return k
}

// failedDial ends a client that did not connect, and says why it did not.
func (k *core) failedDial(ctx context.Context, servers string) error {
	k.mu.Lock()
	reason, detail := k.fatal, k.lastLoss
	k.terminate(StateClosed, ErrClosed)
	k.mu.Unlock()
	<-k.done
	if reason == nil {
		reason = contextError(ctx)
	}
	if detail == nil {
		return fmt.Errorf("connect to %s: %w", servers, reason)
	}
	return fmt.Errorf("connect to %s: %w; the last attempt: %v", servers, reason, detail)
}

// Chroot returns a view of the same session in which path is the root. Paths in calls, results,
// events and errors are relative to it. A path that is not valid makes every call of the view
// fail. Closing any view closes them all.
func (c *Client) Chroot(path string) *Client {
	if path == "/" {
		return c
	}
	return &Client{k: c.k, root: c.root + path}
}

// Root is the path that is the root of this view, "/" for the whole tree.
func (c *Client) Root() string {
	if c.root == "" {
		return "/"
	}
	return c.root
}

// Close ends the session on the server, so that its ephemeral nodes go at once, and then the
// client. Calls that were made before are served first; those that come later fail with
// ErrClosed. When ctx ends first, the session is left to expire, and the error says so. So it is when
// no server answers until the session has lapsed and one more session timeout has passed: then the
// error is ErrSessionLapsed, and a ctx without an end does no harm. When Close returns, no goroutine
// of the client is left. Close may be called again.
func (c *Client) Close(ctx context.Context) error {
	ctx, stop := c.k.whileHopeful(ctx)
	err := c.k.endSession(ctx)
	stop()
	c.k.mu.Lock()
	if reason := c.k.fatal; reason != nil && !errors.Is(reason, ErrClosed) {
		err = nil // there is no session to be left behind
	}
	c.k.terminate(StateClosed, ErrClosed)
	c.k.mu.Unlock()
	<-c.k.done
	return err
}

// whileHopeful returns a context that ends with ctx, or when there has been no server for so long that
// the session has surely expired.
func (k *core) whileHopeful(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	k.mu.Lock()
	s := k.session
	k.mu.Unlock()
	var waiting sync.WaitGroup
	waiting.Go(func() {
		select {
		case <-s.Done():
		case <-ctx.Done():
			return
		}
		t := time.NewTimer(max(s.Timeout(), k.cfg.timeout))
		defer t.Stop()
		select {
		case <-t.C:
			cancel(ErrSessionLapsed)
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel(nil)
		waiting.Wait()
	}
}

// endSession waits for the deletions of the background, and closes the session.
func (k *core) endSession(ctx context.Context) error {
	k.mu.Lock()
	if k.fatal != nil || k.closing {
		first := k.closing && k.fatal == nil
		k.mu.Unlock()
		if first {
			return k.awaitEnd(ctx)
		}
		return nil
	}
	if k.session.id == 0 && k.conn == nil {
		k.mu.Unlock()
		return nil // never had a session
	}
	idle := k.awaitIdle()
	k.mu.Unlock()
	select {
	case <-idle:
	case <-k.done:
		return nil
	case <-ctx.Done():
	}
	r := k.newRequest(wire.OpCloseSession)
	r.frame = finish(appendHeader(r.frame, r.op))
	over := make(chan error, 1)
	k.mu.Lock()
	if k.fatal != nil {
		k.mu.Unlock()
		return nil
	}
	k.closing = true
	r.onDone = func() { over <- r.err }
	k.enqueue(r)
	k.mu.Unlock()
	return k.awaitClosed(ctx, over)
}

// awaitClosed waits for the answer to closeSession. A connection that is lost meanwhile means
// that it may have been closed or not: ask again.
func (k *core) awaitClosed(ctx context.Context, over chan error) error {
	for {
		select {
		case err := <-over:
			if err == nil || !errors.Is(err, ErrConnectionLoss) {
				return nil
			}
			k.mu.Lock()
			if k.fatal == nil {
				r := k.newRequest(wire.OpCloseSession)
				r.frame = finish(appendHeader(r.frame, r.op))
				r.onDone = func() { over <- r.err }
				k.enqueue(r)
			}
			k.mu.Unlock()
		case <-k.done:
			return nil
		case <-ctx.Done():
			return leftToExpire(ctx)
		}
	}
}

func leftToExpire(ctx context.Context) error {
	reason := contextError(ctx)
	if errors.Is(reason, ErrSessionLapsed) {
		reason = ErrSessionLapsed
	}
	return fmt.Errorf("close: %w; the session was left to expire", reason)
}

// awaitEnd waits for a Close that somebody else has begun.
func (k *core) awaitEnd(ctx context.Context) error {
	select {
	case <-k.done:
		return nil
	case <-ctx.Done():
		return leftToExpire(ctx)
	}
}

// Server is the address of the server of the present connection, or of the last one.
func (c *Client) Server() string {
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	return c.k.server
}

// LastZxid is the newest state of the tree that this client has seen.
func (c *Client) LastZxid() int64 {
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	return c.k.lastZxid
}

// UpdateServers replaces the list of servers, without a chroot. The client stays where it is,
// or moves so that all clients which get the same list end up evenly spread. A move waits for
// the replies that are due, so no outcome becomes uncertain by it.
func (c *Client) UpdateServers(servers string) error {
	hosts, root, err := parseServers(servers)
	if err != nil {
		return err
	}
	if root != "" {
		return fmt.Errorf("servers %q: the chroot cannot change; leave it out", servers)
	}
	c.k.updateServers(hosts)
	return nil
}
