package listen

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTakenPortNamesTheKey(t *testing.T) {
	l, err := TCP(&net.ListenConfig{}, "127.0.0.1:0", "some.port")
	require.NoError(t, err)
	defer l.Close()
	addr := l.Addr().String()
	_, err = TCP(&net.ListenConfig{}, addr, "some.port")
	var busy *BusyError
	require.True(t, errors.As(err, &busy))
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.Equal(t, addr+" is in use by another program: stop it, or choose another port with some.port", err.Error())
}

func TestAddressOfAnotherMachineNamesTheKey(t *testing.T) {
	_, err := TCP(&net.ListenConfig{}, "192.0.2.1:0", "some.port")
	require.ErrorContains(t, err, "listen on 192.0.2.1:0 (some.port): ")
	var busy *BusyError
	require.False(t, errors.As(err, &busy))
}
