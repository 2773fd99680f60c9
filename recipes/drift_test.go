package recipes

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/wire"
)

// A lonely server has one client and one lock, and a clock that runs faster than the client's. It
// works over a pipe, so it can live in a synctest bubble.
type lonely struct {
	session int64
	delay   func() time.Duration // before a request is read, and before a reply is sent

	mu      sync.Mutex
	node    string    // name of the lock's node
	heard   time.Time // guarded by mu; when the newest request came
	timeout time.Duration
	silent  bool // guarded by mu: nothing arrives any more, and nothing is said
	dialed  bool
}

func (s *lonely) dial(context.Context, string, string) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dialed {
		return nil, errors.New("the server is not there")
	}
	s.dialed = true
	near, far := net.Pipe()
	go s.serve(far)
	return near, nil
}

func (s *lonely) serve(nc net.Conn) {
	defer nc.Close()
	for n := 0; ; n++ {
		var head [4]byte
		if _, err := io.ReadFull(nc, head[:]); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head[:]))
		if _, err := io.ReadFull(nc, body); err != nil {
			return
		}
		time.Sleep(s.delay())
		s.mu.Lock()
		silent := s.silent
		if !silent {
			s.heard = time.Now()
		}
		s.mu.Unlock()
		if silent {
			continue
		}
		reply := s.answer(n == 0, body)
		time.Sleep(s.delay())
		if _, err := nc.Write(frame(reply)); err != nil {
			return
		}
	}
}

func (s *lonely) answer(hello bool, b []byte) []byte {
	d := wire.NewDecoder(b)
	if hello {
		var r wire.ConnectRequest
		r.Decode(&d)
		s.timeout = time.Duration(r.TimeoutMs) * time.Millisecond
		answer := wire.ConnectResponse{TimeoutMs: r.TimeoutMs, SessionID: s.session, Password: make([]byte, 16), HasReadOnly: true}
		return answer.Append(nil)
	}
	var h wire.RequestHeader
	h.Decode(&d)
	out := wire.AppendReply(nil, h.Xid, 1, wire.OK)
	stat := wire.Stat{Czxid: 1, Mzxid: 1, EphemeralOwner: s.session}
	switch h.Op {
	case wire.OpCreate2:
		path := d.String() + "0000000000"
		s.node = base(path)
		out = stat.Append(wire.AppendString(out, path))
	case wire.OpGetChildren2:
		out = stat.Append(wire.AppendStrings(out, []string{s.node}))
	case wire.OpGetData:
		out = stat.Append(wire.AppendBuffer(out, nil))
	}
	return out
}

// T3: whatever the delays, and with a server whose clock is up to nine parts in a hundred too fast,
// the holder knows that it has lost the lock before the server can give it to another.
func TestHoldEndsBeforeTheServersClockSaysSo(t *testing.T) {
	runs := 1000
	if testing.Short() {
		runs = 100
	}
	for range runs {
		synctest.Test(t, func(t *testing.T) {
			timeout := time.Duration(400+rand.IntN(30000)) * time.Millisecond
			s := &lonely{session: 7, delay: func() time.Duration { return rand.N(timeout / 20) }}
			c, err := client.Dial(testContext(t), "10.0.0.1:1", client.WithDialer(s.dial), client.WithTimeout(timeout))
			require.NoError(t, err)
			l := mustLock(t, NewMutex(c, "/lock").Lock)
			time.Sleep(rand.N(2 * timeout)) // it holds, and pings
			require.NoError(t, l.Err())
			s.mu.Lock()
			s.silent = true
			s.mu.Unlock()
			<-l.Done()
			lost := time.Now()
			s.mu.Lock()
			drift := rand.Float64() * 0.09
			over := s.heard.Add(time.Duration(float64(s.timeout) * (1 - drift)))
			s.mu.Unlock()
			if !lost.Before(over) || l.Valid() {
				t.Errorf("timeout %v: lost %v after the server could have given it away", timeout, lost.Sub(over))
			}
			require.ErrorIs(t, l.Err(), ErrSessionLost)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_ = c.Close(ctx)
		})
	}
}
