package httpport

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// A conn is a connection whose first byte decides whether TLS is spoken, and whose writes
// have deadlines. net/http reads it from one goroutine at a time.
type conn struct {
	sock   net.Conn
	port   *Port
	secure atomic.Pointer[tls.Conn] // TLS over sock, once its first byte has come
	until  atomic.Int64             // Unix nanoseconds: the end of the answer under way, 0 for none

	looked bool   // reader: the first byte has been seen
	prefix []byte // reader: what was read to see it

	waits bool   // guarded by port.mu: no request is under way
	since uint64 // guarded by port.mu: Port.order when that began
}

// tlsHandshakeRecord is the first byte that a TLS client sends, and no HTTP client.
const tlsHandshakeRecord = 0x16

// wrongScheme is for those who speak plain HTTP to a TLS port.
const wrongScheme = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n" +
	"this port speaks HTTPS only\n"

var errPlain = errors.New("plain HTTP to a port that speaks HTTPS only")

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	if !c.looked {
		c.looked = true
		if err := c.look(); err != nil {
			return 0, err
		}
	}
	if t := c.secure.Load(); t != nil {
		return t.Read(b)
	}
	return c.readPlain(b)
}

// look decides what is spoken. net/http has set the deadline of the header already.
func (c *conn) look() error {
	if c.port.o.TLS == nil {
		return nil
	}
	first := make([]byte, 1)
	if _, err := io.ReadFull(c.sock, first); err != nil {
		return err
	}
	c.prefix = first
	if first[0] == tlsHandshakeRecord {
		c.secure.Store(tls.Server(plainSide{c}, c.port.o.TLS))
		return nil
	}
	if c.port.o.AlsoPlain {
		return nil
	}
	if f := c.port.o.TurnedOff; f != nil {
		f()
	}
	// What is left unread would make the system take the answer back. The deadline of the
	// header ends the wait for a client that keeps the connection.
	_, _ = c.Write([]byte(wrongScheme))
	_ = c.CloseWrite()
	_, _ = io.CopyN(io.Discard, c.sock, maxHeaderBytes)
	return errPlain
}

func (c *conn) readPlain(b []byte) (int, error) {
	if len(c.prefix) > 0 {
		n := copy(b, c.prefix)
		c.prefix = c.prefix[n:]
		return n, nil
	}
	return c.sock.Read(b)
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	if t := c.secure.Load(); t != nil {
		return t.Write(b)
	}
	return c.writePlain(b)
}

// writePlain gives the client stallTime to take b, but no longer than the answer may last.
func (c *conn) writePlain(b []byte) (int, error) {
	deadline := time.Now().Add(stallTime)
	if until := c.until.Load(); until != 0 && until < deadline.UnixNano() {
		deadline = time.Unix(0, until)
	}
	if err := c.sock.SetWriteDeadline(deadline); err != nil {
		return 0, err
	}
	return c.sock.Write(b)
}

// Close implements net.Conn. Over TLS the other side hears that this is the end, if it reads.
func (c *conn) Close() error {
	if t := c.secure.Load(); t != nil {
		c.until.Store(time.Now().Add(goodbyeTime).UnixNano())
		return t.Close()
	}
	return c.sock.Close()
}

// CloseWrite says that nothing more will be written.
func (c *conn) CloseWrite() error {
	if t := c.secure.Load(); t != nil {
		return t.CloseWrite()
	}
	if h, ok := c.sock.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return nil
}

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return c.sock.LocalAddr() }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return c.sock.RemoteAddr() }

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error { return c.sock.SetDeadline(t) }

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error { return c.sock.SetReadDeadline(t) }

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error { return c.sock.SetWriteDeadline(t) }

// plainSide is what TLS reads and writes.
type plainSide struct{ *conn }

// Read implements net.Conn.
func (p plainSide) Read(b []byte) (int, error) { return p.readPlain(b) }

// Write implements net.Conn.
func (p plainSide) Write(b []byte) (int, error) { return p.writePlain(b) }

// Close implements net.Conn.
func (p plainSide) Close() error { return p.sock.Close() }
