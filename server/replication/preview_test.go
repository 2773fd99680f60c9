package replication

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// With a leader all of the log is committed, so the preview is the machine.
func TestPreviewShowsSnapshotAndLog(t *testing.T) {
	o := testOptions()
	o.Dir = t.TempDir()
	r := openRig(t, o)
	m, err := r.Preview(t.Context())
	require.NoError(t, err)
	require.Equal(t, r.digest(), m.Digest(), "of the log alone")
	r.session()
	for i := range 30 {
		r.mustDo(createNode(uint64(i+1), nodePath(i), nil))
		if i == 20 {
			require.NoError(t, r.SnapshotNow(testContext(t)))
			r.Node.keeper.purge()
		}
	}
	m, err = r.Preview(t.Context())
	require.NoError(t, err)
	require.Equal(t, r.digest(), m.Digest())
	require.NoError(t, m.Check())
	require.NotNil(t, m.Tree().Lookup(nodePath(29)))

	over, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range 2 * previewEntries {
		r.mustDo(createNode(uint64(i+31), nodePath(i+30), nil))
	}
	_, err = r.Preview(over)
	require.ErrorIs(t, err, context.Canceled)
}
