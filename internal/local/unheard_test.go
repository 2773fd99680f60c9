package local_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/wire"
)

// A leader ends the sessions of a server that it has not heard for long enough. When that one is back
// and may answer its clients again, it may not know yet that they are over: it must not tell a client
// whose lock has been given away that its session lives.
func TestServerThatWasCutOffAnswersNobodyWhoseSessionMayBeOver(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	// It keeps its clients, however long that takes.
	cl, leader := startThree(ctx, t, "tickTime=200", "maxSessionTimeout=3600000", "syncLimit=100000")
	defer func() { require.NoError(t, cl.Close()) }()
	cut := leader%3 + 1
	other, err := client.Dial(ctx, cl.Addr(leader), client.WithTimeout(patience))
	require.NoError(t, err)
	defer other.Close(ctx)

	holder := newHolder(t, cl.Addr(cut))
	cl.Isolate(cut)
	large := make([]byte, 100_000) // the end of the session comes behind much else
	for given := false; !given; {
		if _, err := other.Set(ctx, "/", large, -1); err == nil {
			_, found, err := other.Exists(ctx, "/lock")
			given = err == nil && !found
		}
		require.NoError(t, ctx.Err())
	}
	const late = 1000
	_ = holder.send(late, wire.OpExists, (&wire.PathWatchRequest{Path: "/"}).Append(nil))
	cl.Heal()
	for {
		xid, err := holder.receive()
		if err != nil {
			break
		}
		require.NotEqual(t, int32(late), xid, "a client was answered whose session is over")
	}
}

// A holder is a client that holds a lock, and has no idea of time.
type holder struct {
	nc net.Conn
	in *bufio.Reader
}

func newHolder(t *testing.T, addr string) *holder {
	nc, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = nc.Close() })
	require.NoError(t, nc.SetReadDeadline(time.Now().Add(patience)))
	h := &holder{nc, bufio.NewReader(nc)}
	require.NoError(t, h.write((&wire.ConnectRequest{TimeoutMs: 2000, Password: make([]byte, 16)}).Append(nil)))
	_, err = h.receive()
	require.NoError(t, err)
	open := []wire.ACL{{Perms: wire.PermAll, ID: wire.ID{Scheme: "world", ID: "anyone"}}}
	create := wire.CreateRequest{Path: "/lock", ACL: open, Flags: wire.FlagEphemeral}
	require.NoError(t, h.send(1, wire.OpCreate, create.Append(nil)))
	_, err = h.receive()
	require.NoError(t, err)
	return h
}

func (h *holder) send(xid int32, op wire.OpCode, body []byte) error {
	header := wire.RequestHeader{Xid: xid, Op: op}
	return h.write(append(header.Append(nil), body...))
}

func (h *holder) write(body []byte) error {
	b, mark := wire.AppendFrame(nil)
	b = append(b, body...)
	wire.FinishFrame(b, mark)
	_, err := h.nc.Write(b)
	return err
}

// receive takes a frame and returns its first field.
func (h *holder) receive() (xid int32, err error) {
	var length [4]byte
	if _, err := io.ReadFull(h.in, length[:]); err != nil {
		return 0, err
	}
	body := make([]byte, binary.BigEndian.Uint32(length[:]))
	_, err = io.ReadFull(h.in, body)
	return int32(binary.BigEndian.Uint32(body)), err
}
