package freeport

import (
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPortsAreFreeAndGivenOnce(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		addr := Addr(t)
		require.False(t, seen[addr], addr)
		seen[addr] = true
		l, err := net.Listen("tcp", addr)
		require.NoError(t, err)
		require.NoError(t, l.Close())
	}
}

func TestATakenPortBreaksARow(t *testing.T) {
	first := Row(t, 3)
	for i := range 3 {
		handedOut.Lock()
		delete(handedOut.ports, first+i)
		handedOut.Unlock()
	}
	require.NoError(t, free("127.0.0.1", first, 3))
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+1))
	require.NoError(t, err)
	defer l.Close()
	require.Error(t, free("127.0.0.1", first, 3))
	require.NoError(t, free("127.0.0.2", first, 3))
}
