package product

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// What was not read when the gate closed is read when it opens, and not before; a connection
// behind it can be closed all the same.
func TestGateHoldsConnectionsUp(t *testing.T) {
	g := &gate{}
	var far net.Conn
	near, err := g.dial(t.Context(), func(context.Context) (nc net.Conn, err error) {
		nc, far = net.Pipe()
		return nc, nil
	})
	require.NoError(t, err)
	defer far.Close()
	g.close()
	read := make(chan byte)
	go func() {
		b := make([]byte, 1)
		if _, err := near.Read(b); err == nil {
			read <- b[0]
		}
		close(read)
	}()
	_, err = far.Write([]byte{7}) // it has left the other end, and waits at the gate
	require.NoError(t, err)
	select {
	case <-read:
		t.Fatal("read through a closed gate")
	default:
	}
	g.open()
	require.Equal(t, byte(7), <-read)
	<-read

	g.close()
	written := make(chan error)
	go func() {
		_, err := near.Write([]byte{8})
		written <- err
	}()
	require.NoError(t, near.Close())
	require.Error(t, <-written)
}

func TestNobodyDialsThroughAClosedGate(t *testing.T) {
	g := &gate{}
	g.close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := g.dial(ctx, func(context.Context) (net.Conn, error) { panic("dialed") })
	require.ErrorIs(t, err, net.ErrClosed)
}
