package peer

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSilenceIsLimitedByTheKernel(t *testing.T) {
	l, err := TCP{}.Listen("127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	nc, err := TCP{}.Dial(t.Context(), l.Addr().String())
	require.NoError(t, err)
	defer nc.Close()
	limitSilence(nc, silenceTimeout)
	raw, err := nc.(*net.TCPConn).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		ms, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout)
		require.NoError(t, err)
		require.EqualValues(t, silenceTimeout.Milliseconds(), ms)
	}))
	limitSilence(nil, silenceTimeout) // not of TCP: nothing to do
}
