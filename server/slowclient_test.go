package server

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/wire"
)

// The clients of these tests have so much time that only unhear makes them silent: it takes all
// their signs of life away, and what comes later is a new one.

const slowTimeoutMs = 600_000

// newSlowClient connects with a receive window that is full soon.
func newSlowClient(t *testing.T, addr string, secure *tls.Config) *rawClient {
	t.Helper()
	nc, err := net.DialTimeout("tcp", addr, patience)
	require.NoError(t, err)
	require.NoError(t, nc.(*net.TCPConn).SetReadBuffer(64<<10))
	if secure != nil {
		nc = tls.Client(nc, secure)
	}
	return newRawClient(t, nc).create(slowTimeoutMs)
}

// unheardNs is long before the server began.
const unheardNs = -2 * slowTimeoutMs * int64(time.Millisecond)

// unhear makes the client silent.
func (c *conn) unhear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastSeen.Store(unheardNs)
	c.told.Store(unheardNs)
}

// heard says whether there was a sign of life since.
func (c *conn) heard() bool { return c.signNs() > unheardNs }

// isParked says whether nobody reads what the client sends, since much is to be taken by it.
func (c *conn) isParked() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.parked && c.out.weight > outSoftLimit
}

// Nobody reads the pings of a client that has asked for more than it can take at once. What it takes
// shows all the same that it is alive.
func TestClientThatTakesItsRepliesSlowlyKeepsItsSession(t *testing.T) {
	const n, size = 60, 500_000
	for _, test := range []struct {
		name   string
		secure bool
		reads  int
		size   int
	}{
		{"many replies", false, n, size},
		{"many replies over TLS", true, n, size},
		{"a large one over TLS", true, 1, n * size},
	} {
		t.Run(test.name, func(t *testing.T) {
			srv, s, addr := startTLS(t, set("tickTime", "60000"), set("minSessionTimeout", "1000"), set("jute.maxbuffer", "40000000"))
			var secure *tls.Config
			if test.secure {
				secure = s.client("")
			} else {
				addr = srv.addr
			}
			open(t, srv.addr, slowTimeoutMs).call(wire.OpCreate, createBody("/big", make([]byte, test.size), persistent), wire.OK)
			c := newSlowClient(t, addr, secure)
			conn := srv.connOf(c.session)
			c.write(bytes.Repeat(request(1, wire.OpGetData, readBody("/big", false)), test.reads))
			eventually(t, "the client to be waited for", conn.isParked)
			const step = 100_000
			left := int64(n * size)
			for range 3 {
				conn.unhear()
				for !conn.heard() {
					left -= step
					require.Positive(t, left, "it has taken nearly all, and was not heard")
					_, err := io.CopyN(io.Discard, c.in, step)
					require.NoError(t, err)
				}
				require.False(t, conn.endSilence(srv.nowNs()))
			}
			_, err := io.CopyN(io.Discard, c.in, left)
			require.NoError(t, err)
		})
	}
}

// A server that stops answers what is under way, and reads nothing any more: who takes that slowly
// has his session when he comes back.
func TestClientThatTakesItsLastRepliesSlowlyKeepsItsSession(t *testing.T) {
	const size = 30_000_000 // more than fits into the sockets
	srv := asleep(t, set("jute.maxbuffer", "40000000"))
	open(t, srv.addr, slowTimeoutMs).call(wire.OpCreate, createBody("/big", make([]byte, size), persistent), wire.OK)
	c := newSlowClient(t, srv.addr, nil)
	conn := srv.connOf(c.session)
	c.write(request(1, wire.OpGetData, readBody("/big", false)))
	eventually(t, "the reply to be on its way", func() bool {
		conn.mu.Lock()
		defer conn.mu.Unlock()
		return conn.out.weight > size
	})
	conn.finish()
	stacks := make([]byte, 1<<20)
	eventually(t, "the last replies to be waited for", func() bool {
		return strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "conn).linger(") && conn.isParked()
	})
	conn.unhear()
	_, err := io.Copy(io.Discard, c.in)
	require.NoError(t, err)
	eventually(t, "a sign of life", conn.heard)
}

// Events go out whether or not anybody is there: the kernel takes them for a client that is dead as
// well, and they must not prolong its session.
func TestEventsAreNoSignOfLife(t *testing.T) {
	for _, name := range []string{"plain", "TLS"} {
		t.Run(name, func(t *testing.T) {
			srv, s, addr := startTLS(t, set("tickTime", "60000"), set("minSessionTimeout", "1000"))
			var secure *tls.Config
			if name == "TLS" {
				secure = s.client("")
			} else {
				addr = srv.addr
			}
			c := newSlowClient(t, addr, secure)
			conn := srv.connOf(c.session)
			r := wire.AddWatchRequest{Path: "/", Mode: wire.AddWatchPersistent}
			c.call(wire.OpAddWatch, r.Append(nil), wire.OK)
			c.ping()
			eventually(t, "the reader to read again", func() bool {
				conn.mu.Lock()
				defer conn.mu.Unlock()
				return !conn.parked
			})
			conn.unhear()
			open(t, srv.addr, slowTimeoutMs).call(wire.OpSetData, setBody("/", "x"), wire.OK)
			c.expectEvent(wire.EventNodeDataChanged, "/")
			eventually(t, "the event to be written", func() bool {
				conn.mu.Lock()
				defer conn.mu.Unlock()
				return !conn.out.busy()
			})
			require.True(t, conn.endSilence(srv.nowNs()))
		})
	}
}

// Whoever asks for much and takes nothing is dead, for all one can see: what the kernel takes for it
// has an end.
func TestClientThatTakesNothingIsSilentSoon(t *testing.T) {
	srv := asleep(t)
	open(t, srv.addr, slowTimeoutMs).call(wire.OpCreate, createBody("/big", make([]byte, 500_000), persistent), wire.OK)
	c := newSlowClient(t, srv.addr, nil)
	conn := srv.connOf(c.session)
	c.write(bytes.Repeat(request(1, wire.OpGetData, readBody("/big", false)), 1000))
	eventually(t, "the client to be waited for", conn.isParked)
	var quietNs int64 // since when nothing was taken
	eventually(t, "the kernel to have taken what it can", func() bool {
		if conn.heard() {
			conn.unhear()
			quietNs = srv.nowNs()
		}
		return srv.nowNs()-quietNs > int64(time.Second)/4
	})
	eventually(t, "the end", func() bool {
		conn.unhear()
		return conn.endSilence(srv.nowNs())
	})
}

// No ping can pass a large request on its way here.
func TestClientThatSendsALargeRequestSlowlyKeepsItsSession(t *testing.T) {
	for _, size := range []int{1000, 500_000} {
		srv := asleep(t)
		c := open(t, srv.addr, slowTimeoutMs)
		conn := srv.connOf(c.session)
		b := request(1, wire.OpCreate, createBody("/n", make([]byte, size), persistent))
		for part := len(b)/5 + 1; len(b) > part; b = b[part:] {
			conn.unhear()
			c.write(b[:part])
			eventually(t, "a sign of life", conn.heard)
			require.False(t, conn.endSilence(srv.nowNs()))
		}
		c.write(b)
		c.expect(1, wire.OK)
	}
}
