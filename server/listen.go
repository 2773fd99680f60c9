package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"
)

// A BusyError says that a port is taken, and what to do.
type BusyError struct {
	Addr string // host:port
	Key  string // the configuration key that chooses it
	Err  error
}

// Error implements error.
func (e *BusyError) Error() string {
	return fmt.Sprintf("%s is in use by another program: stop it, or choose another port with %s", e.Addr, e.Key)
}

// Unwrap returns the error of the system.
func (e *BusyError) Unwrap() error { return e.Err }

// listen opens one client port.
func (s *Server) listen(host string, port int, key string) (net.Listener, error) {
	addr := net.JoinHostPort(host, strconv.Itoa(port))
	lc := net.ListenConfig{KeepAlive: -1}
	if s.cfg.ClientTCPKeepAlive {
		lc.KeepAlive = 0
	}
	l, err := lc.Listen(context.Background(), "tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, &BusyError{Addr: addr, Key: key, Err: err}
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s (%s): %w", addr, key, err)
	}
	return l, nil
}

// accept takes connections from l until it is closed.
func (s *Server) accept(l net.Listener, secure bool) {
	defer s.background.Done()
	for {
		nc, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// Out of descriptors, most likely: those that we have will be closed in time.
			s.log.Error("cannot accept a connection", "error", err)
			select {
			case <-s.closing:
				return
			case <-time.After(50 * time.Millisecond):
			}
			continue
		}
		c, err := s.register(nc, secure)
		if err != nil {
			s.stats.ConnectionsRejected.Add(1)
			s.log.Debug("connection refused", "remote", nc.RemoteAddr(), "reason", err)
			_ = nc.Close()
			continue
		}
		go c.run()
	}
}

// secure makes the connection a TLS one where the port asks for it, or where a port takes
// both and the client begins with a TLS handshake.
func (c *conn) secureIfNeeded() error {
	if !c.secure && !c.s.cfg.ClientPortUnification {
		return nil
	}
	if !c.secure {
		var first [1]byte
		if _, err := c.nc.Read(first[:]); err != nil {
			return err
		}
		const tlsHandshakeRecord = 0x16
		if first[0] != tlsHandshakeRecord {
			c.in = append(c.in, first[0])
			return nil
		}
		c.nc = &prefixedConn{Conn: c.nc, prefix: first[:]}
		c.secure = true
	}
	return c.handshakeTLS()
}

// handshakeTLS takes the identity of the client's certificate, if it has one.
func (c *conn) handshakeTLS() error {
	c.s.tlsHandshakes.Add(1)
	defer c.s.tlsHandshakes.Add(-1)
	t := tls.Server(c.nc, c.s.tls.ServerConfig())
	c.raw = nil
	c.nc = t
	if err := t.Handshake(); err != nil { // under the deadline of the whole handshake
		c.s.stats.HandshakesFailed.Add(1)
		return fmt.Errorf("TLS handshake: %w", err)
	}
	c.addIDs(c.x509IDs()...)
	return nil
}

// A prefixedConn gives back bytes that were read to see what the client speaks.
type prefixedConn struct {
	net.Conn
	prefix []byte
}

// Read returns the prefix first.
func (p *prefixedConn) Read(b []byte) (int, error) {
	if len(p.prefix) > 0 {
		n := copy(b, p.prefix)
		p.prefix = p.prefix[n:]
		return n, nil
	}
	return p.Conn.Read(b)
}

// CloseWrite ends our half of the conversation.
func (p *prefixedConn) CloseWrite() error {
	if h, ok := p.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return nil
}
