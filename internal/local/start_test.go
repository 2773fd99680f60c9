package local_test

import (
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/freeport"
	"github.com/zkd-project/zkd/internal/local"
	"github.com/zkd-project/zkd/server"
)

// The servers that could start would wait for the one that could not.
func TestTakenPortOfOneServerEndsTheStart(t *testing.T) {
	first := freeport.Row(t, 3)
	taken, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+1))
	require.NoError(t, err)
	defer taken.Close()
	_, err = local.Start(t.Context(), local.Options{Nodes: 3, FirstPort: first})
	var busy *server.BusyError
	require.ErrorAs(t, err, &busy)
	require.ErrorContains(t, err, fmt.Sprintf("server 2: 127.0.0.1:%d is in use", first+1))
}
