package wire

import (
	"bufio"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	proto "github.com/zkd-project/zkd/wire"
)

// stranger is the server's side of a connection, played by the test.
type stranger struct {
	t  *testing.T
	nc net.Conn
	in *bufio.Reader
}

// connect opens a session with a server that the test plays.
func connect(t *testing.T) (*Conn, *stranger, chan Event, chan string) {
	t.Helper()
	return connectTaped(t, nil)
}

func connectTaped(t *testing.T, tapes *Tapes) (*Conn, *stranger, chan Event, chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	served := make(chan *stranger, 1)
	go func() {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		s := &stranger{t, nc, bufio.NewReader(nc)}
		if _, err := readFrame(s.in); err == nil {
			s.send((&proto.ConnectResponse{TimeoutMs: 1000, SessionID: 7, Password: make([]byte, 16)}).Append(nil))
		}
		served <- s
	}()
	nc, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	events, broken := make(chan Event, 9), make(chan string, 9)
	c, err := Open(nc, 1, Session{TimeoutMs: 1000}, 2*time.Minute, Hooks{
		Event:  func(_ *Conn, e Event) { events <- e },
		Broken: func(_ *Conn, s string) { broken <- s },
		Tapes:  tapes,
	})
	require.NoError(t, err)
	t.Cleanup(c.Cut)
	s := <-served
	t.Cleanup(func() { s.nc.Close() })
	return c, s, events, broken
}

func (s *stranger) send(body []byte) {
	b, mark := proto.AppendFrame(nil)
	b = append(b, body...)
	proto.FinishFrame(b, mark)
	_, _ = s.nc.Write(b)
}

func (s *stranger) reply(xid int32, zxid int64) {
	s.send(proto.AppendReply(nil, xid, zxid, proto.OK)[:16])
}

func TestRepliesAndEventsAreNumberedInTheOrderOfArrival(t *testing.T) {
	c, s, events, _ := connect(t)
	a, b := c.Send(proto.OpSync, nil), c.Send(proto.OpSync, nil)
	s.reply(a.Xid, 5)
	_, _ = s.nc.Write(proto.AppendEvent(nil, 6, proto.EventNodeCreated, "/a"))
	s.reply(b.Xid, 6)
	<-b.Done
	require.Equal(t, int64(1), a.Reply.Frame)
	require.Equal(t, int64(2), (<-events).Frame)
	require.Equal(t, int64(3), b.Reply.Frame)
	require.Equal(t, int64(6), c.LastZxid())
}

func TestWhatNoServerMaySendIsNoticed(t *testing.T) {
	for name, tt := range map[string]struct {
		send func(s *stranger)
		want string
	}{
		"out of order":  {func(s *stranger) { s.reply(2, 5) }, "the reply to xid 2 came before that to xid 1"},
		"to nobody":     {func(s *stranger) { s.reply(proto.XidPing, 5) }, "which nobody has sent"},
		"zxid falls":    {func(s *stranger) { s.reply(1, 9); s.reply(2, 8) }, "fell from 0x9 to 0x8"},
		"half a header": {func(s *stranger) { s.send([]byte{1, 2}) }, "cannot be decoded"},
	} {
		t.Run(name, func(t *testing.T) {
			c, s, _, broken := connect(t)
			c.Send(proto.OpSync, nil)
			c.Send(proto.OpSync, nil)
			tt.send(s)
			require.Contains(t, <-broken, tt.want)
		})
	}
}

func TestOutcomesAreNotMixedUp(t *testing.T) {
	c, s, _, _ := connect(t)
	lost := c.Send(proto.OpSync, nil)
	s.nc.Close()
	<-lost.Done
	require.ErrorIs(t, lost.Err, ErrLost)
	<-c.Gone()
	late := c.Send(proto.OpSync, nil)
	<-late.Done
	require.ErrorIs(t, late.Err, ErrNotSent)
}

// The lease of a client runs from the sending of what was answered, not from the answer.
func TestAliveIsWhenAnAnsweredRequestWasSent(t *testing.T) {
	c, s, _, _ := connect(t)
	first, second := c.Send(proto.OpSync, nil), c.Send(proto.OpSync, nil)
	s.reply(first.Xid, 1)
	<-first.Done
	require.Equal(t, first.Sent, c.Alive())
	s.reply(second.Xid, 1)
	<-second.Done
	require.Equal(t, second.Sent, c.Alive())
}
