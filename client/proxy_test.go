package client

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A proxy stands between clients and a server, and cuts or silences connections.
type proxy struct {
	t      testing.TB
	l      net.Listener
	target string

	mu      sync.Mutex
	conns   map[net.Conn]bool
	down    bool // new connections are refused
	running sync.WaitGroup

	// reply says what becomes of a frame of the server: it is passed on, or the connection is
	// cut with the frame lost. nil: all are passed on.
	reply  func(frame []byte) bool
	silent atomic.Bool // swallow everything, in both directions
}

func newProxy(t testing.TB, target string, reply func(frame []byte) bool) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{t: t, l: l, target: target, reply: reply, conns: map[net.Conn]bool{}}
	p.running.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.setDown(true)
		p.running.Wait()
	})
	return p
}

func (p *proxy) addr() string { return p.l.Addr().String() }

func (p *proxy) accept() {
	for {
		near, err := p.l.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", p.target)
		if err != nil || !p.keep(near, far) {
			_ = near.Close()
			continue
		}
		p.running.Go(func() { p.pump(far, near, nil) })
		p.running.Go(func() { p.pump(near, far, p.reply) })
	}
}

func (p *proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.down {
			_ = c.Close()
			continue
		}
		p.conns[c] = true
	}
	return !p.down
}

// pump moves frames until one side ends, and then ends both.
func (p *proxy) pump(dst, src net.Conn, pass func([]byte) bool) {
	defer dst.Close()
	defer src.Close()
	var head [4]byte
	for {
		if _, err := io.ReadFull(src, head[:]); err != nil {
			return
		}
		frame := make([]byte, 4+binary.BigEndian.Uint32(head[:]))
		copy(frame, head[:])
		if _, err := io.ReadFull(src, frame[4:]); err != nil {
			return
		}
		if p.silent.Load() {
			continue
		}
		if pass != nil && !pass(frame) {
			return
		}
		if _, err := dst.Write(frame); err != nil {
			return
		}
	}
}

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
		delete(p.conns, c)
	}
}

func (p *proxy) setDown(down bool) {
	p.mu.Lock()
	p.down = down
	p.mu.Unlock()
	if down {
		p.cut()
	}
}

// cutAtRandom loses about one reply in n, and the connection with it.
func cutAtRandom(n int) func([]byte) bool {
	return func([]byte) bool { return rand.IntN(n) != 0 }
}

func (p *proxy) dial(t testing.TB, opts ...Option) *Client {
	t.Helper()
	c, err := Dial(testContext(t), p.addr(), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { abandonClient(c) })
	return c
}

// fastRetry keeps a test that cuts all the time from waiting all the time.
func fastRetry() Option {
	return WithReconnect(BackoffFunc(func(int) (time.Duration, bool) { return 0, true }))
}
