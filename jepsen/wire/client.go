package wire

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	proto "github.com/zkd-project/zkd/wire"
)

// Options say how a Client finds servers and what it reports.
type Options struct {
	Nodes     int
	TimeoutMs int32
	Dial      func(ctx context.Context, node int) (net.Conn, error)
	Rand      *rand.Rand // owned by the client from then on
	// OnEvent, OnBroken and OnSession are called from the client's goroutines. All are
	// required. OnSession says that a session began ("new"), moved to a connection
	// ("attached"), or is over ("expired", with when its newest answered request was sent).
	OnEvent   func(*Conn, Event)
	OnBroken  func(*Conn, string)
	OnSession func(what string, c *Conn, s Session, alive time.Time)
	// OnAttach is called before any other request on a connection that took a session up.
	OnAttach func(c *Conn)
	// OnOpen is called before any other request on every connection; may be nil.
	OnOpen func(c *Conn)
	// OnFrame sees every frame; may be nil.
	OnFrame func(c *Conn, b []byte)
	// Tapes keep the frames; nil: nothing does.
	Tapes *Tapes
	// NoPing leaves it to the caller to keep the session alive.
	NoPing bool
}

// A Client keeps a session over connections. Its methods are for one goroutine.
type Client struct {
	o       Options
	session Session
	conn    *Conn
	alive   time.Time // of connections that are gone
	pinging sync.WaitGroup
}

// NewClient connects when it is first used.
func NewClient(o Options) *Client {
	return &Client{o: o, session: Session{TimeoutMs: o.TimeoutMs}}
}

// Conn returns a connection with the session, on node unless that is 0; it tries servers
// until ctx ends. A session that is over is replaced by a new one.
func (c *Client) Conn(ctx context.Context, node int) (*Conn, error) {
	if c.conn != nil {
		select {
		case <-c.conn.Gone():
			c.Leave()
		default:
			if node == 0 || node == c.conn.Node {
				return c.conn, nil
			}
			c.Leave()
		}
	}
	for {
		at := node
		if at == 0 {
			at = 1 + c.o.Rand.IntN(c.o.Nodes)
		}
		conn, err := c.try(ctx, at)
		if err == nil {
			c.conn = conn
			return conn, nil
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ErrNotSent, ctx.Err(), err)
		case <-time.After(time.Duration(20+c.o.Rand.IntN(60)) * time.Millisecond):
		}
	}
}

func (c *Client) try(ctx context.Context, node int) (*Conn, error) {
	dialing, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	nc, err := c.o.Dial(dialing, node)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	defer stop()
	conn, err := Open(nc, node, c.session, 1500*time.Millisecond, Hooks{c.o.OnEvent, c.o.OnBroken, c.o.OnFrame, c.o.Tapes})
	if errors.Is(err, ErrRefused) {
		if c.session.ID != 0 {
			c.o.OnSession("expired", nil, c.session, c.alive)
		}
		c.session = Session{TimeoutMs: c.o.TimeoutMs}
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	what := "attached"
	if c.session.ID == 0 {
		what = "new"
	}
	c.session = conn.Session
	c.o.OnSession(what, conn, c.session, conn.Alive())
	if c.o.OnOpen != nil {
		c.o.OnOpen(conn)
	}
	if what == "attached" && c.o.OnAttach != nil {
		c.o.OnAttach(conn)
	}
	if !c.o.NoPing {
		c.pinging.Go(func() { ping(conn) })
	}
	return conn, nil
}

// ping keeps a session alive while its connection lasts, and ends a connection on which
// nothing is answered, as real clients do.
func ping(c *Conn) {
	every := time.Duration(c.Session.TimeoutMs) * time.Millisecond / 3
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-c.Gone():
			return
		case <-t.C:
		}
		if time.Since(c.Alive()) > 2*every {
			c.nc.Close()
			return
		}
		c.Send(proto.OpPing, nil)
	}
}

// Alive is when the newest answered request of the session was sent.
func (c *Client) Alive() time.Time {
	if c.conn != nil {
		if t := c.conn.Alive(); t.After(c.alive) {
			return t
		}
	}
	return c.alive
}

// Session is the session, with ID 0 if there is none yet.
func (c *Client) Session() Session { return c.session }

// Leave ends the connection and keeps the session.
func (c *Client) Leave() {
	if c.conn == nil {
		return
	}
	c.conn.Cut()
	c.alive = c.conn.Alive()
	c.session.LastZxid = max(c.session.LastZxid, c.conn.LastZxid())
	c.conn = nil
}

// Forget has the client begin a new session at its next connection.
func (c *Client) Forget() {
	c.Leave()
	c.session = Session{TimeoutMs: c.o.TimeoutMs}
}

// Close ends the client; the session is left to expire.
func (c *Client) Close() {
	c.Leave()
	c.pinging.Wait()
}

// Wait waits for the reply, or gives the connection up at the timeout.
func Wait(c *Conn, call *Call, timeout time.Duration) {
	select {
	case <-call.Done:
	case <-time.After(timeout):
		c.Cut()
		<-call.Done
	}
}
