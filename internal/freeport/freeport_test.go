package freeport

import (
	"fmt"
	"net"
	"slices"
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
	require.True(t, free("127.0.0.1", first, 3))
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+1))
	require.NoError(t, err)
	defer l.Close()
	require.False(t, free("127.0.0.1", first, 3))
	require.True(t, free("127.0.0.2", first, 3))
	b := &block{next: first, last: first + 5}
	got, ok := b.take("127.0.0.1", 3)
	require.True(t, ok)
	require.Equal(t, first+2, got)
	_, ok = b.take("127.0.0.1", 2)
	require.False(t, ok, "there is one left")
}

// Another process that looks for ports at the same time gets others.
func TestABlockIsOneProcesss(t *testing.T) {
	first := Row(t, 1)
	i := slices.IndexFunc(handedOut.blocks, func(b *block) bool { return b.last-blockSize < first && first <= b.last })
	require.GreaterOrEqual(t, i, 0, "port %d is of no block", first)
	_, err := reserve(handedOut.blocks[i].last - blockSize + 1)
	require.Error(t, err)
	_, err = Find("127.0.0.1", blockSize+1)
	require.ErrorContains(t, err, "at most")
}

// Whoever needs more than a block has gets another one.
func TestABlockThatIsUsedUpIsFollowedByAnother(t *testing.T) {
	handedOut.Lock()
	before := len(handedOut.blocks)
	handedOut.Unlock()
	seen := map[int]bool{}
	for range 3 {
		first := Row(t, blockSize-10)
		for port := first; port < first+blockSize-10; port++ {
			require.False(t, seen[port])
			seen[port] = true
		}
	}
	require.Greater(t, len(handedOut.blocks), before+1)
}
