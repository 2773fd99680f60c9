package httpport

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/zkd-project/zkd/internal/listen"
)

// Options describe a port.
type Options struct {
	Addr string // host:port, port 0 for any free one
	Key  string // the configuration key that chooses the port, for messages

	TLS       *tls.Config // nil: plain HTTP only
	AlsoPlain bool        // with TLS: plain HTTP is taken, too, told apart by the first byte
	TurnedOff func()      // called for each plain connection that a TLS port turns away; may be nil

	IdleTimeout time.Duration // of a connection between two requests; 0: for ever
	Log         *slog.Logger  // nil means slog.Default
}

// A Port is open from Listen to Close.
type Port struct {
	o        Options
	listener net.Listener
	server   *http.Server
	handler  http.Handler // set by Serve

	mu      sync.Mutex
	conns   map[*conn]struct{} // guarded by mu
	order   uint64             // guarded by mu: number of the last change of a connection
	closing bool               // guarded by mu

	handlers sync.WaitGroup
	serving  sync.WaitGroup // the acceptor
}

// Listen opens a port; clients wait until Serve. A taken port is a *listen.BusyError.
func Listen(o Options) (*Port, error) {
	l, err := listen.TCP(&net.ListenConfig{}, o.Addr, o.Key)
	if err != nil {
		return nil, err
	}
	return newPort(l, o), nil
}

func newPort(l net.Listener, o Options) *Port {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	p := &Port{o: o, listener: l, conns: map[*conn]struct{}{}}
	idle := o.IdleTimeout
	if idle == 0 {
		idle = -1 // net/http takes 0 for its header timeout
	}
	p.server = &http.Server{
		Handler:           http.HandlerFunc(p.serve),
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idle,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnState:         p.changed,
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn),
		// The options request "*" is answered by the handler like everything else.
		DisableGeneralOptionsHandler: true,
	}
	return p
}

// Serve begins to answer with h. It returns at once, and is called once.
func (p *Port) Serve(h http.Handler) {
	p.handler = h
	p.serving.Add(1)
	go func() {
		defer p.serving.Done()
		_ = p.server.Serve(admitting{p.listener, p}) // ends with Close
	}()
}

// Addr is where the port is bound.
func (p *Port) Addr() *net.TCPAddr { return p.listener.Addr().(*net.TCPAddr) }

// Close ends the port. Answers under way get a second; who asks nothing is not waited for.
func (p *Port) Close() {
	p.mu.Lock()
	p.closing = true
	var waiting []*conn
	for c := range p.conns {
		if c.waits {
			waiting = append(waiting, c)
		}
	}
	p.mu.Unlock()
	for _, c := range waiting {
		_ = c.sock.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	if p.server.Shutdown(ctx) != nil {
		_ = p.server.Close()
	}
	_ = p.listener.Close() // where Serve was not called
	p.serving.Wait()
	p.handlers.Wait()
}

type connKey struct{}

// serve puts the limits around the handler.
func (p *Port) serve(w http.ResponseWriter, r *http.Request) {
	c := r.Context().Value(connKey{}).(*conn)
	p.mu.Lock()
	if p.closing {
		p.mu.Unlock()
		w.Header().Set("Connection", "close")
		http.Error(w, "the server stops", http.StatusServiceUnavailable)
		return
	}
	p.handlers.Add(1)
	p.mu.Unlock()
	defer p.handlers.Done()
	c.until.Store(time.Now().Add(answerTime).UnixNano())
	if r.ContentLength != 0 {
		// net/http reads what the handler has left of a body.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
	}
	p.handler.ServeHTTP(w, r)
}

// LongAnswer takes the limit of its whole time off an answer that is long by intent, such as
// a profile. The client must still take it without stalling.
func LongAnswer(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		c.until.Store(0)
	}
}

// State is the TLS state of the connection that a request came by, nil for a plain one.
func State(ctx context.Context) *tls.ConnectionState {
	c, ok := ctx.Value(connKey{}).(*conn)
	if !ok {
		return nil
	}
	t := c.secure.Load()
	if t == nil {
		return nil
	}
	s := t.ConnectionState()
	return &s
}

// changed follows net/http: who waits may be closed in favour of a newcomer.
func (p *Port) changed(nc net.Conn, state http.ConnState) {
	c := nc.(*conn)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.order++
	switch state {
	case http.StateNew, http.StateIdle:
		c.waits, c.since = true, p.order
	case http.StateActive:
		c.waits = false
	case http.StateClosed, http.StateHijacked:
		delete(p.conns, c)
	}
}

// admit takes a connection in, or returns nil when it cannot. The other result, if any, has
// to go for it.
func (p *Port) admit(nc net.Conn) (c, victim *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing {
		return nil, nil
	}
	if len(p.conns) >= maxConns {
		for other := range p.conns {
			if other.waits && (victim == nil || other.since < victim.since) {
				victim = other
			}
		}
		if victim == nil {
			return nil, nil
		}
		delete(p.conns, victim)
	}
	p.order++
	c = &conn{sock: nc, port: p, waits: true, since: p.order}
	p.conns[c] = struct{}{}
	return c, victim
}

// An admitting listener keeps the number of connections within the limit.
type admitting struct {
	net.Listener
	p *Port
}

// Accept returns the next connection that is let in.
func (a admitting) Accept() (net.Conn, error) {
	for {
		nc, err := a.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c, victim := a.p.admit(nc)
		if victim != nil {
			_ = victim.sock.Close()
		}
		if c != nil {
			return c, nil
		}
		_ = nc.Close()
	}
}
