package replication

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/znode"
)

func TestCreatedDirectoryServesTheMachine(t *testing.T) {
	m := state.New()
	_, err := m.ImportNode("/imported", []byte("x"), nil, znode.Persisted{Czxid: 7, Mzxid: 7, Pzxid: 7, Cversion: 5})
	require.NoError(t, err)
	m.FinishImport(0x500000007, 1000)
	dir := t.TempDir()
	require.NoError(t, Create(Options{Dir: dir}, m))
	require.ErrorIs(t, Create(Options{Dir: dir}, m), errNotEmpty, "a database must not be replaced")

	report, err := CheckDir(dir, "", func(string) {})
	require.NoError(t, err)
	require.NotZero(t, report)
	for range 2 { // and again, over its own log
		n, info, err := Open(Options{Dir: dir, Settings: func() state.Settings { return state.Settings{} }, Observer: noObserver{}})
		require.NoError(t, err)
		require.False(t, info.New)
		require.NoError(t, n.WaitReady(context.Background()))
		n.RLock()
		got := n.Machine().Tree().Lookup("/imported")
		require.NotNil(t, got)
		require.Equal(t, "x", string(got.Data()))
		require.EqualValues(t, 5, n.Machine().Tree().NextSequence(got))
		require.Greater(t, n.Machine().Zxid(), int64(0x500000007), "clients have seen that zxid")
		n.RUnlock()
		require.NoError(t, n.Close())
	}
}
