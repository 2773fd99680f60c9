package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/zkd-project/zkd/wire"
)

var (
	errSessionRefused     = errors.New("the server does not know the session any more")
	errCredentialsRefused = errors.New("the server refuses the credentials")
	errNotServing         = errors.New("the server closed the connection without an answer: it does not serve (no quorum, too many connections), or its data is older than what this client has seen")
)

// connectTimeout bounds one attempt, so that all servers can be tried within the session.
func (k *core) connectTimeout() time.Duration {
	if k.cfg.connectTimeout > 0 {
		return k.cfg.connectTimeout
	}
	return max(k.cfg.timeout/time.Duration(k.servers.count()), minConnectTimeout)
}

// attempt connects to one address, up to the point where users' requests can be sent. When it
// fails nothing of it is left.
func (k *core) attempt(t target) (*conn, error) {
	k.trace(ConnEvent{Kind: ConnAttempt, Server: t.server})
	c, hello, err := k.shakeHands(t, false)
	if errors.Is(err, errNotServing) && k.cfg.readOnly && k.globalSession() && k.isReadOnly(t) {
		// A read-only server takes no session of the quorum's, but makes one of its own.
		c, hello, err = k.shakeHands(t, true)
		if err == nil && !hello.ReadOnly {
			_ = c.sock.Close()
			err = errors.New("the server is not read-only any more")
		}
	}
	if err != nil {
		return nil, err
	}
	c.start()
	if err := k.prepare(c); err != nil {
		c.stop(err)
		k.lost(c)
		return nil, err
	}
	if !k.established(c, hello) {
		c.stop(ErrClosed)
		k.lost(c)
		return nil, ErrClosed
	}
	k.trace(ConnEvent{Kind: ConnEstablished, Server: c.server, SessionID: hello.SessionID, ReadOnly: c.readOnly})
	return c, nil
}

func (k *core) globalSession() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.session.id != 0
}

// dialServer opens a socket, with TLS over it where that is wanted.
func (k *core) dialServer(ctx context.Context, t target) (nc, sock net.Conn, err error) {
	sock, err = k.cfg.dial(ctx, "tcp", t.addr)
	if err != nil {
		return nil, nil, err
	}
	if k.cfg.tls == nil {
		return sock, sock, nil
	}
	conf, err := k.cfg.tls()
	if err != nil {
		_ = sock.Close()
		return nil, nil, fmt.Errorf("tls: %w", err)
	}
	if conf == nil {
		conf = &tls.Config{}
	}
	if conf.ServerName == "" && !conf.InsecureSkipVerify {
		conf = conf.Clone()
		conf.ServerName = t.host
	}
	secure := tls.Client(sock, conf)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = sock.Close()
		return nil, nil, fmt.Errorf("tls: %w", err)
	}
	return secure, sock, nil
}

// shakeHands opens a connection and asks for the session, or, if fresh, for a new one.
func (k *core) shakeHands(t target, fresh bool) (*conn, *wire.ConnectResponse, error) {
	ctx, cancel := context.WithTimeout(k.ctx, k.connectTimeout())
	defer cancel()
	nc, sock, err := k.dialServer(ctx, t)
	if err != nil {
		return nil, nil, err
	}
	c := &conn{
		k: k, nc: nc, sock: sock, server: t.server, in: newFrameReader(nc, k.cfg.maxFrame),
		kick: make(chan struct{}, 1), dead: make(chan struct{}),
	}
	stop := context.AfterFunc(ctx, func() { _ = sock.Close() })
	hello, err := c.handshake(k.connectRequest(fresh))
	if !stop() {
		err = fmt.Errorf("no answer to the connect request within %v", k.connectTimeout())
	}
	if err != nil {
		_ = sock.Close()
		return nil, nil, err
	}
	c.in.seen = func() { c.heard.Store(k.now().mono) }
	c.in.seen()
	c.answered = c.opened
	if !c.readOnly { // what a read-only server gives is no session to depend on
		k.mu.Lock()
		k.adopt(c, hello)
		k.mu.Unlock()
	}
	return c, hello, nil
}

func (k *core) connectRequest(fresh bool) *wire.ConnectRequest {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := &wire.ConnectRequest{
		LastZxidSeen: k.lastZxid, TimeoutMs: int32(k.cfg.timeout / time.Millisecond),
		Password: make([]byte, 16), HasReadOnly: true, ReadOnly: k.cfg.readOnly,
	}
	if !fresh && k.session.id != 0 {
		r.SessionID, r.Password = k.session.id, k.session.password
	}
	return r
}

// handshake sends the connect request and judges the answer.
func (c *conn) handshake(req *wire.ConnectRequest) (*wire.ConnectResponse, error) {
	b, mark := wire.AppendFrame(nil)
	b = req.Append(b)
	wire.FinishFrame(b, mark)
	c.opened = c.k.now()
	if _, err := c.nc.Write(b); err != nil {
		return nil, fmt.Errorf("connect request: %w", err)
	}
	body, err := c.in.next()
	if errors.Is(err, io.EOF) {
		return nil, errNotServing
	}
	if err != nil {
		return nil, fmt.Errorf("connect response: %w", err)
	}
	var resp wire.ConnectResponse
	d := wire.NewDecoder(body)
	resp.Decode(&d)
	switch {
	case d.Err() != nil:
		return nil, fmt.Errorf("connect response: %w", d.Err())
	case resp.TimeoutMs <= 0 && req.SessionID != 0:
		return nil, errSessionRefused
	case resp.TimeoutMs <= 0 || resp.SessionID == 0:
		return nil, fmt.Errorf("connect response: session 0x%x with a timeout of %d ms, after asking for a new one", uint64(resp.SessionID), resp.TimeoutMs)
	case req.SessionID != 0 && resp.SessionID != req.SessionID:
		return nil, fmt.Errorf("%w: asked for 0x%x, got 0x%x", errSessionRefused, uint64(req.SessionID), uint64(resp.SessionID))
	}
	resp.Password = append([]byte(nil), resp.Password...) // aliased the read buffer
	c.timeout = time.Duration(resp.TimeoutMs) * time.Millisecond
	c.readOnly = resp.ReadOnly
	return &resp, nil
}

// prepare does on a new connection what must be done before users' requests: it authenticates,
// and sets the watches again.
func (k *core) prepare(c *conn) error {
	stop := context.AfterFunc(k.ctx, func() { c.fail(ErrClosed) })
	defer stop()
	c.preparing = true
	defer func() { c.preparing = false }()
	if err := k.authenticate(c); err != nil {
		return err
	}
	if err := k.rewatch(c); err != nil {
		return err
	}
	if time.Since(k.epoch)-time.Duration(c.answered.mono) < c.timeout-k.margin(c.timeout) {
		return nil
	}
	// All this took so long that the session would lapse at once. A sign of life:
	r := k.newRequest(wire.OpExists)
	r.frame = appendPathWatch(r.frame, r.op, "", "/")
	err := c.call(r)
	r.release()
	if errors.Is(err, ErrConnectionLoss) {
		return err
	}
	return nil
}

// call sends a request ahead of all users' and waits for the reply, during prepare. The request
// is the caller's again in any case.
func (c *conn) call(r *request) error {
	c.k.mu.Lock()
	c.k.budget.force(len(r.frame), 1)
	c.setup.push(r)
	c.k.mu.Unlock()
	c.wake()
	c.tendAt = 0 // nobody looked after the connection between two calls
	timer := time.NewTimer(c.tend())
	defer timer.Stop()
	for waiting := true; waiting; {
		select {
		case <-timer.C:
			timer.Reset(c.tend())
		case <-r.ready:
			waiting = false
		case <-c.dead:
			c.stop(nil)
			c.k.lost(c) // completes r, unless its reply was the last thing that came
			<-r.ready
			waiting = false
		}
	}
	if r.err != nil {
		return r.err
	}
	if r.code != wire.OK {
		return r.code
	}
	return nil
}
