package zkdtest

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A hastyServer has answered before the write of the request to it returns.
type hastyServer struct {
	net.Conn
	reads    atomic.Int32
	answered chan struct{} // closed when the answer was read, and the next one is asked for
}

func (s *hastyServer) Read(b []byte) (int, error) {
	if s.reads.Add(1) == 3 { // behind a length and a body
		close(s.answered)
	}
	return s.Conn.Read(b)
}

func (s *hastyServer) Write(b []byte) (int, error) {
	n, err := s.Conn.Write(b)
	<-s.answered
	return n, err
}

// Whoever is cut off behind its request does not get the answer, however fast that is.
func TestAnswerDoesNotOvertakeTheCut(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	far, server := net.Pipe()
	hasty := &hastyServer{Conn: far, answered: make(chan struct{})}
	p := newProxy(t, l, func(context.Context) (net.Conn, error) { return hasty, nil })
	p.At(ToServer, 1, CutAfter())
	frame := []byte{0, 0, 0, 4, 'w', 'o', 'r', 'd'}
	got := make(chan []byte, 1)
	go func() {
		request := make([]byte, len(frame))
		_, _ = io.ReadFull(server, request)
		_, _ = server.Write(frame)
		got <- request
	}()
	client, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, client.SetDeadline(time.Now().Add(startLimit)))
	_, err = client.Write(frame)
	require.NoError(t, err)
	answer, err := io.ReadAll(client)
	require.NoError(t, err)
	require.Empty(t, answer)
	require.Equal(t, frame, <-got)
}
