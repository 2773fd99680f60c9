package cluster

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/zkd-project/zkd/internal/sim/rng"
	"github.com/zkd-project/zkd/wire"
)

// A Client keeps a session: it connects to a server, pings, and when the connection ends or falls
// silent goes to another one. Its script (a workload's) uses one Link after the other.
//
// As with the Java client lastZxid is that of the replies; pingsCount is what other clients do.
type Client struct {
	Number  int
	w       *World
	r       *rng.Rand // of run
	Rand    *rng.Rand // of the script
	timeout time.Duration
	host    string

	pingsCount bool

	mu       sync.Mutex
	link     *Link         // guarded by mu; nil while there is none
	changed  chan struct{} // guarded by mu: closed when link changes
	session  int64         // guarded by mu; 0: none
	password []byte        // guarded by mu
	lastZxid int64         // guarded by mu
	alive    time.Duration // guarded by mu: when that was sent which was answered last
	believed time.Duration // guarded by mu: the session's timeout
	watches  watches       // guarded by mu
	links    int           // owned by run
	server   int           // owned by run
}

func newClient(w *World, number int, timeout time.Duration) *Client {
	r := w.rand.Fork("client " + strconv.Itoa(number))
	return &Client{
		Number: number, w: w, r: r, Rand: r.Fork("script"), timeout: timeout, host: name("client", number),
		pingsCount: r.OneIn(2), changed: make(chan struct{}), password: make([]byte, 16),
		server: r.Intn(len(w.nodes)), watches: newWatches(),
	}
}

// run connects again and again until ctx ends.
func (c *Client) run(ctx context.Context) {
	for ctx.Err() == nil {
		if l := c.connect(ctx); l != nil {
			if c.r.OneIn(8) { // the next server may not know of a new session yet
				l.Break()
			}
			c.keep(ctx, l)
			if c.r.OneIn(5) && !c.w.settling.Load() { // it comes back when its session is about to expire, or has
				pause(ctx, time.Duration(c.r.Intn(int(c.timeout+c.timeout/2))))
			}
			pause(ctx, time.Millisecond) // else, should nothing ever work, time would stand still
		} else {
			pause(ctx, time.Duration(20+c.r.Intn(200))*time.Millisecond)
		}
		c.server = c.r.Intn(len(c.w.nodes))
	}
}

// connect makes one attempt; nil: it failed.
func (c *Client) connect(ctx context.Context) *Link {
	patience := max(c.timeout/time.Duration(len(c.w.nodes)), 500*time.Millisecond)
	dialCtx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	nc, err := c.w.net.Host(c.host).Dial(dialCtx, clientAddress(c.server))
	if err != nil {
		return nil
	}
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	defer stop()
	_ = nc.SetDeadline(time.Now().Add(patience))
	c.mu.Lock()
	req := wire.ConnectRequest{
		LastZxidSeen: c.lastZxid, TimeoutMs: int32(c.timeout.Milliseconds()), SessionID: c.session, Password: c.password,
	}
	c.mu.Unlock()
	in := bufio.NewReader(nc)
	sent := c.w.History.now()
	resp, err := shake(nc, in, &req)
	if err != nil {
		_ = nc.Close()
		return nil
	}
	_ = nc.SetDeadline(time.Time{})
	if resp.SessionID == 0 {
		c.expired(req.SessionID)
		_ = nc.Close()
		return nil
	}
	return c.opened(nc, in, sent, &resp)
}

// expired forgets a session that a server has told to be over.
func (c *Client) expired(session int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.w.History.add(Entry{Kind: Expired, Client: c.Number, Session: session})
	c.forgetLocked()
}

func (c *Client) forgetLocked() {
	c.session, c.password, c.alive = 0, make([]byte, 16), 0
	c.watches = newWatches()
}

// opened begins to use a connection: watches are set again before anything else is sent.
func (c *Client) opened(nc net.Conn, in *bufio.Reader, sent time.Duration, resp *wire.ConnectResponse) *Link {
	c.links++
	l := &Link{
		c: c, number: c.links, session: resp.SessionID, nc: nc, in: in, dead: make(chan struct{}),
		heard: c.w.History.now(),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session, c.password, c.alive = resp.SessionID, slices.Clone(resp.Password), sent
	c.believed = time.Duration(resp.TimeoutMs) * time.Millisecond
	c.w.History.add(l.entry(Entry{
		Kind: Opened, SentAt: sent, Timeout: c.believed, Note: "at server " + strconv.Itoa(c.server+1),
	}))
	go l.read()
	if set := c.watches.request(c.lastZxid); set != nil {
		l.startLocked(Op{Code: wire.OpSetWatches2, Path: "(watches)"}, 0, set.Append(nil))
	}
	c.setLinkLocked(l)
	return l
}

func (c *Client) setLinkLocked(l *Link) {
	c.link = l
	close(c.changed)
	c.changed = make(chan struct{})
}

// keep pings until the connection ends, or is silent for two thirds of the timeout.
func (c *Client) keep(ctx context.Context, l *Link) {
	t := time.NewTicker(c.timeout / 6)
	defer t.Stop()
	for n := 0; ; n++ {
		select {
		case <-t.C:
			c.mu.Lock()
			silent := c.w.History.now() - l.heard
			l.complain()
			c.mu.Unlock()
			if silent > c.timeout*2/3 {
				l.Break()
			} else if n%2 == 1 {
				l.ping()
			}
			continue
		case <-l.dead:
		case <-ctx.Done():
			l.Break()
			<-l.dead
		}
		c.mu.Lock()
		c.setLinkLocked(nil)
		c.mu.Unlock()
		return
	}
}

// complain ends a connection whose server answers pings but not a request. Called with mu held.
func (l *Link) complain() {
	const limit = 30 * time.Second
	if len(l.pending) > 0 && l.c.w.History.now()-l.pending[0].at > limit {
		_ = l.broken(fmt.Sprintf("pings are answered, but for %v not the call %d", limit, l.pending[0].id))
		l.Break()
	}
}

// Link returns the connection, once there is one; nil when ctx ends before.
func (c *Client) Link(ctx context.Context) *Link {
	for ctx.Err() == nil {
		c.mu.Lock()
		l, changed := c.link, c.changed
		if l != nil && l.over {
			l = nil // run takes note soon
		}
		c.mu.Unlock()
		if l != nil {
			return l
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return nil
}

// Abandon drops the session without closing it, as the end of the client's process does.
func (c *Client) Abandon() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetLocked()
	if c.link != nil {
		c.link.Break()
	}
}

// Believes says whether the client may count on its session: something that it sent within the
// timeout was answered.
func (c *Client) Believes(session int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session == session && c.w.History.now() < c.alive+c.believed
}

// Do sends one request over a link and waits for its result; ok is false if the outcome is
// unknown.
func (l *Link) Do(op Op) (r Result, ok bool) { return l.Start(op, 0).Wait() }

// Fresh is a read that shows all that was acknowledged to anybody before: a sync goes first.
func (l *Link) Fresh(op Op) (r Result, ok bool) {
	sync := l.Start(Op{Code: wire.OpSync, Path: op.Path}, 0)
	return l.Start(op, sync.Seq).Wait()
}

// pause sleeps, at most until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
