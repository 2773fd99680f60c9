package wire

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	proto "github.com/zkd-project/zkd/wire"
)

func (t *Tapes) text(test *testing.T, start time.Time) string {
	test.Helper()
	var b bytes.Buffer
	require.NoError(test, t.Write(&b, start))
	return b.String()
}

func TestTapesHaveWhatWasSentAndRead(t *testing.T) {
	var tapes Tapes
	start := time.Now()
	c, s, _, _ := connectTaped(t, &tapes)
	call := c.Send(proto.OpSync, []byte{0xab})
	s.reply(call.Xid, 5)
	<-call.Done
	lines := strings.Split(strings.TrimSpace(tapes.text(t, start)), "\n")
	require.Len(t, lines, 4)
	require.Contains(t, lines[0], " client 00000000", "the handshake")
	for i, want := range []string{
		fmt.Sprintf("conn %d node 1 client %08x%08xab", c.Number, call.Xid, int32(proto.OpSync)),
		fmt.Sprintf("conn %d node 1 server %08x%016x%08x", c.Number, call.Xid, 5, 0),
	} {
		at, rest, _ := strings.Cut(lines[2+i], " ")
		require.Regexp(t, `^[0-9]+\.[0-9]{6}$`, at)
		require.Equal(t, want, rest)
	}
}

func TestTapesKeepTheNewest(t *testing.T) {
	var tapes Tapes
	c := &Conn{Number: 1, gone: make(chan struct{})}
	p := tapes.begin(c)
	for i := range 100 {
		p.add(false, bytes.Repeat([]byte{byte(i)}, tapeBytes/10))
	}
	require.Equal(t, 10, strings.Count(tapes.text(t, time.Now()), "\n"))
	require.Equal(t, int64(10*(tapeBytes/10)), tapes.bytes.Load())
	require.Contains(t, tapes.text(t, time.Now()), fmt.Sprintf("%x\n", bytes.Repeat([]byte{99}, tapeBytes/10)))
	p.add(true, make([]byte, 2*tapeBytes))
	require.Zero(t, tapes.bytes.Load(), "one that is longer than a tape leaves nothing")
}

// Many connections come and go: those that are gone make room.
func TestTapesOfAllConnectionsTogetherHaveABound(t *testing.T) {
	var tapes Tapes
	live := &Conn{Number: 0, gone: make(chan struct{})}
	tapes.begin(live).add(false, []byte("live"))
	frame := make([]byte, tapeBytes)
	const conns = 2 * tapesBytes / tapeBytes
	for i := range conns {
		c := &Conn{Number: int64(1 + i), gone: make(chan struct{})}
		tapes.begin(c).add(false, frame)
		close(c.gone)
	}
	require.LessOrEqual(t, tapes.bytes.Load(), int64(tapesBytes+tapeBytes+4))
	var some []int64
	for _, p := range tapes.all {
		some = append(some, p.conn.Number)
	}
	require.Equal(t, int64(0), some[0], "it may go on")
	require.Equal(t, int64(conns), some[len(some)-1])
	require.NotContains(t, some, int64(1))
}

func TestNoTapesKeepNothing(t *testing.T) {
	var none *Tapes
	none.begin(&Conn{}).add(true, []byte("x"))
	require.Empty(t, none.text(t, time.Now()))
}
