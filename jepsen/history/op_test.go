package history

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHistoryIsReadBackAsItWasRecorded(t *testing.T) {
	var b bytes.Buffer
	r := NewRecorder(&b)
	r.Add(Op{Begin: 20, End: 30, Kind: OK, F: "set", Key: "/a", Value: "\x00x", Stat: &Stat{Version: 2, Mzxid: 7}})
	r.Add(Op{Begin: 10, End: 40, Kind: Unknown, F: "multi", Parts: []Part{{"/a", "y", 1, 2}}})
	ops, err := r.Ops()
	require.NoError(t, err)
	require.Equal(t, []int64{10, 20}, []int64{ops[0].Begin, ops[1].Begin}, "by beginning")
	path := filepath.Join(t.TempDir(), "history.jsonl")
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
	again, err := Read(path)
	require.NoError(t, err)
	require.Equal(t, ops, again)
}

func TestABrokenHistoryIsNotReadInSilence(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl")
	require.NoError(t, os.WriteFile(path, []byte("{\"t\":1}\n{\"t\":"), 0o600))
	_, err := Read(path)
	require.ErrorContains(t, err, "line 2")
}

func TestEndIsNowUnlessItIsKnown(t *testing.T) {
	r := NewRecorder(nil)
	r.Add(Op{})
	r.Add(Op{End: 5})
	ops, err := r.Ops()
	require.NoError(t, err)
	require.Positive(t, ops[0].End)
	require.Equal(t, int64(5), ops[1].End)
}
