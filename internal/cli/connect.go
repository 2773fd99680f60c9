package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/client"
)

const (
	// dialLimit bounds the wait for a first connection, unless -waitforconnection is given: a
	// restart fits in, and somebody who mistyped a host does not sit there for long.
	dialLimit = 10 * time.Second

	// attemptLimit bounds one attempt to connect, so that one silent server of several does
	// not use up dialLimit.
	attemptLimit = 3 * time.Second

	// closeLimit bounds the end of a session: later it expires by itself.
	closeLimit = 2 * time.Second

	// refusals is how often every server on the list may refuse before we give up: they do
	// not run. More than one, since a name can have an address for each protocol.
	refusals = 4
)

// A connection is a session with a group of servers.
type connection struct {
	servers string         // as the user named them, with the chroot
	root    *client.Client // the whole tree
	view    *client.Client // the tree under the chroot
	chroot  string         // "" for none
	limit   time.Duration  // how long a command goes on without a connection

	closing atomic.Bool // we end it: that the connection goes with it is no news

	stop context.CancelFunc // of the goroutine that prints changes of the state
	done chan struct{}      // closed when it is gone
}

// dial opens a session. The caller closes it.
func (s *settings) dial(ctx context.Context, servers string) (*connection, error) {
	hosts, chroot, _ := strings.Cut(servers, "/")
	conn := &connection{servers: servers, limit: s.timeout}
	if chroot = strings.TrimSuffix(chroot, "/"); chroot != "" {
		conn.chroot = "/" + chroot
		if err := checkPath(conn.chroot); err != nil {
			return nil, usagef("-server %s: %v", servers, err)
		}
	}
	if err := checkServers(hosts); err != nil {
		return nil, usagef("-server %v", err)
	}
	if s.tls != nil { // else every attempt would fail on it, until there is no time left
		if _, err := s.tls.Config(); err != nil {
			return nil, &exitError{exitLocal, "tls: " + err.Error()}
		}
	}
	limit := dialLimit
	if s.wait {
		limit = s.timeout
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx, stop := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no server answered within %v", limit))
	defer stop()
	opts := append(s.clientOptions(), client.WithTimeout(s.timeout), client.WithConnectTimeout(attemptLimit))
	if !s.wait {
		opts = append(opts, client.WithTracer(&failureTracer{
			left: int64(refusals * (1 + strings.Count(hosts, ","))), plain: s.tls == nil, giveUp: cancel,
		}))
	}
	var err error
	if conn.root, err = client.Dial(ctx, hosts, opts...); err != nil {
		return nil, dialError(ctx, servers, err)
	}
	conn.view = conn.root
	if conn.chroot != "" {
		conn.view = conn.root.Chroot(conn.chroot)
	}
	return conn, nil
}

// dialError tells a list of servers that cannot be read from one that cannot be reached.
func dialError(ctx context.Context, servers string, err error) error {
	switch {
	case errors.Is(context.Cause(ctx), errInterrupted):
		return errInterrupted
	case errors.Is(err, client.ErrAuthFailed):
		return &exitError{exitRefused, fmt.Sprintf("%s refuses the credentials", servers)}
	case ctx.Err() == nil:
		return usagef("-server: %v", err)
	}
	reason := context.Cause(ctx).Error()
	if _, last, ok := strings.Cut(err.Error(), "; the last attempt: "); ok {
		reason += "; the last attempt: " + last
	}
	return &lostError{"no connection to " + servers + ": " + reason}
}

// A failureTracer ends a dial that cannot succeed: when every server has refused often enough, or
// one speaks TLS and we do not, or the other way round.
type failureTracer struct {
	left   int64 // atomic: how many refusals are borne
	plain  bool  // we speak no TLS
	giveUp context.CancelCauseFunc
}

// OpStart implements client.Tracer.
func (t *failureTracer) OpStart(ctx context.Context, _ client.OpInfo) context.Context { return ctx }

// OpEnd implements client.Tracer.
func (t *failureTracer) OpEnd(context.Context, client.OpInfo, client.OpOutcome) {}

// Connection implements client.Tracer.
func (t *failureTracer) Connection(ev client.ConnEvent) {
	switch {
	case ev.Kind != client.ConnFailed:
	case errors.Is(ev.Err, syscall.ECONNREFUSED):
		t.inVain("every server refuses connections")
	case t.plain && speaksTLS(ev.Server):
		t.giveUp(fmt.Errorf("%s speaks TLS there: use -tls, or -tls-ca, -tls-cert and -tls-key", ev.Server))
	case t.plain:
	case distrusts(ev.Err):
		t.inVain("no TLS connection comes about")
	case !speaksTLS(ev.Server) && speaksPlain(ev.Server):
		t.giveUp(fmt.Errorf("%s speaks no TLS there: leave the options -tls… out, or name its secureClientPort", ev.Server))
	}
}

// inVain notes an attempt that another one does not make better.
func (t *failureTracer) inVain(why string) {
	if atomic.AddInt64(&t.left, -1) == 0 {
		t.giveUp(errors.New(why))
	}
}

// distrusts says whether one side did not like the certificate of the other, or TLS as it speaks it.
func distrusts(err error) bool {
	var certificate *tls.CertificateVerificationError
	var alert *net.OpError
	return errors.As(err, &certificate) || errors.As(err, &alert) && alert.Op == "remote error"
}

// speaksTLS says whether a server that did not understand us answers the beginning of TLS. It
// does so before it asks who we are.
func speaksTLS(addr string) bool {
	const limit = time.Second
	d := net.Dialer{Timeout: limit}
	hello := false
	c, err := tls.DialWithDialer(&d, "tcp", addr, &tls.Config{
		InsecureSkipVerify: true, // nothing is said on this connection
		VerifyConnection: func(tls.ConnectionState) error {
			hello = true
			return errors.New("that was all we wanted to know")
		},
	})
	if err == nil {
		_ = c.Close()
	}
	return hello
}

// speaksPlain says whether a server that did not understand TLS answers a four-letter word, which
// each does, be it by saying that it may not.
func speaksPlain(addr string) bool {
	const (
		limit = time.Second
		alert = 0x15 // with which an alert of TLS begins
	)
	d := net.Dialer{Timeout: limit}
	c, err := d.Dial("tcp", addr)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(limit)) // cannot fail on an open connection
	if _, err := c.Write([]byte("srvr")); err != nil {
		return false
	}
	first := make([]byte, 1)
	_, err = c.Read(first)
	return err == nil && first[0] != alert
}

// close ends the session.
func (conn *connection) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	_ = conn.root.Close(ctx) // what is left expires
}

// guard returns a context that ends when there has been no connection for the session timeout.
// The client itself would wait for ever.
func (conn *connection) guard(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var timer *time.Timer
		for ev := range conn.root.Events(ctx) {
			up := ev.State == client.StateConnected || ev.State == client.StateReadOnly
			if timer != nil && up {
				timer.Stop()
				timer = nil
			}
			if timer == nil && !up {
				reason := fmt.Sprintf("no connection to %s for %v", conn.servers, conn.limit)
				timer = time.AfterFunc(conn.limit, func() { cancel(&lostError{reason}) })
			}
		}
		if timer != nil {
			timer.Stop()
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-done
	}
}

// connect opens the shell's session.
func (sh *shell) connect(ctx context.Context, servers string) error {
	if sh.settings.greeting {
		sh.out.printNow("Connecting to " + servers + "\n")
	}
	conn, err := sh.settings.dial(ctx, servers)
	if err != nil {
		return err
	}
	if sh.settings.greeting {
		sh.out.printNow(sh.eventText(stateEvent("SyncConnected")))
	}
	ctx, conn.stop = context.WithCancel(context.Background())
	conn.done = make(chan struct{})
	sh.conn = conn
	sh.watches.reset()
	go func() {
		defer close(conn.done)
		if sh.session {
			sh.tellStates(ctx, conn)
		}
	}()
	return nil
}

// disconnect ends the shell's session, if there is one. With tell its end is printed.
func (sh *shell) disconnect(tell bool) {
	conn := sh.conn
	if conn == nil {
		return
	}
	sh.conn = nil
	if !tell {
		conn.stop()
		<-conn.done
	}
	conn.closing.Store(true)
	conn.close() // its last state, Closed, ends tellStates
	<-conn.done
	conn.stop()
}

// tellStates prints changes of the session's state, as zkCli does.
func (sh *shell) tellStates(ctx context.Context, conn *connection) {
	last := "SyncConnected" // the first event says so; it is told by the prompt
	for ev := range conn.root.Events(ctx) {
		var name string
		switch ev.State {
		case client.StateConnected:
			name = "SyncConnected"
		case client.StateReadOnly:
			name = "ConnectedReadOnly"
		case client.StateDisconnected, client.StateLapsed, client.StateConnecting:
			name = "Disconnected"
		default:
			name = ev.State.String() // Expired, AuthFailed, Closed
		}
		if name == "Disconnected" && conn.closing.Load() {
			continue
		}
		if name != last {
			last = name
			sh.tell(stateEvent(name))
		}
	}
}
