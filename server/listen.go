package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/internal/listen"
)

// A BusyError says that a port is taken, and what to do.
type BusyError = listen.BusyError

// listen opens one client port.
func (s *Server) listen(host string, port int, key string) (net.Listener, error) {
	addr := net.JoinHostPort(host, strconv.Itoa(port))
	if s.opts.Listen != nil {
		return s.opts.Listen(addr)
	}
	lc := net.ListenConfig{KeepAlive: -1}
	if s.cfg.ClientTCPKeepAlive {
		lc.KeepAlive = 0
	}
	l, err := listen.TCP(&lc, addr, key)
	if err != nil {
		return nil, err
	}
	if backlog := s.cfg.ClientPortListenBacklog; backlog > 0 {
		if err := setBacklog(l, backlog); err != nil {
			_ = l.Close()
			return nil, fmt.Errorf("listen on %s with clientPortListenBacklog=%d: %w", addr, backlog, err)
		}
	}
	return l, nil
}

// setBacklog changes how many connections the kernel keeps until they are accepted. The net
// package takes what the system gives; listening again replaces that.
func setBacklog(l net.Listener, n int) error {
	raw, err := l.(*net.TCPListener).SyscallConn()
	if err != nil {
		return err
	}
	if ctrl := raw.Control(func(fd uintptr) { err = syscall.Listen(int(fd), n) }); ctrl != nil {
		return ctrl
	}
	return os.NewSyscallError("listen", err)
}

// accept takes connections from l until it is closed.
func (s *Server) accept(l net.Listener, secure bool) {
	for {
		nc, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// Out of descriptors, most likely: those that we have will be closed in time.
			s.log.Error("cannot accept a connection", "error", err)
			select {
			case <-s.lifetime.Done():
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

// secureIfNeeded makes the connection a TLS one where the port asks for it, or where a port
// takes both and the client begins with a TLS handshake.
func (c *conn) secureIfNeeded() error {
	if !c.secure && !c.s.cfg.ClientPortUnification {
		return nil
	}
	if !c.secure {
		first, err := c.firstByte()
		if err != nil {
			return err
		}
		const tlsHandshakeRecord = 0x16
		if first[0] != tlsHandshakeRecord {
			c.in.held = first
			return nil
		}
		c.nc = &prefixedConn{Conn: c.nc, prefix: first}
		c.mu.Lock()
		c.secure = true
		c.mu.Unlock()
	}
	return c.handshakeTLS()
}

// firstByte waits for the byte that tells TLS from plain, for which a client has less time
// than for the whole handshake.
func (c *conn) firstByte() ([]byte, error) {
	whole := c.s.handshakeTimeout()
	began := time.Now()
	c.setDeadline(began.Add(min(whole, time.Duration(c.s.cfg.TLS.DetectionTimeoutMs)*time.Millisecond)))
	first := make([]byte, 1)
	if _, err := c.nc.Read(first); err != nil {
		return nil, err
	}
	c.setDeadline(began.Add(whole))
	return first, nil
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
	if !c.addIDs(c.x509IDs()...) {
		return errTooManyIDs
	}
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
