package stats

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/wire"
)

func TestTopFindsTheBusiest(t *testing.T) {
	var top Top
	var wg sync.WaitGroup
	for g := range uint64(4) {
		wg.Go(func() {
			for i := range 300 {
				top.Record(g, &Ask{Session: 7, User: "bob", Address: "10.0.0.1", Path: "/app", Op: wire.OpGetData, Bytes: 10})
				top.Record(g, &Ask{Session: int64(100 + i), Address: fmt.Sprint("10.1.0.", i), Path: "/x", Op: wire.OpCreate, Bytes: 1000})
			}
		})
	}
	wg.Wait()
	r := top.Report(2)
	require.Equal(t, Tally{Requests: 2400, Bytes: 1200*10 + 1200*1000}, r.Total)
	require.Zero(t, r.Dropped)
	require.Equal(t, []Tally{{"0x7", 1200, 12000}, {"0x100", 4, 4000}}, r.Busiest[BySession])
	require.Equal(t, []Tally{{"bob", 1200, 12000}}, r.Busiest[ByUser])
	require.Equal(t, []Tally{{"10.0.0.1", 1200, 12000}, {"10.1.0.0", 4, 4000}}, r.Busiest[ByAddress])
	require.Equal(t, []Tally{{"/x", 1200, 1200000}, {"/app", 1200, 12000}}, r.Busiest[ByPath], "the bytes decide between equals")
	require.Equal(t, []Tally{{"create", 1200, 1200000}, {"getData", 1200, 12000}}, r.Busiest[ByOperation])
}

// Names that clients invent cost a bounded memory, and hide nobody.
func TestTopIsBounded(t *testing.T) {
	var top Top
	const n = 20 * topKeys
	for i := range n {
		top.Record(0, &Ask{Path: fmt.Sprint("/", i), Op: wire.OpExists})
		if i > n/2 && i%10 == 0 { // comes late, when all places are taken
			top.Record(0, &Ask{Path: "/busy", Op: wire.OpExists})
		}
	}
	require.LessOrEqual(t, len(top.shards[0].names[ByPath]), 2*topKeys)
	r := top.Report(1)
	require.Equal(t, "/busy", r.Busiest[ByPath][0].Name)
	require.Positive(t, r.Dropped)
	require.Equal(t, int64(n+n/20-1), r.Total.Requests)

	long := strings.Repeat("u", 10*topNameBytes)
	top.Record(0, &Ask{User: long, Op: wire.OpExists})
	require.Equal(t, long[:topNameBytes], top.Report(1).Busiest[ByUser][0].Name, "users are chosen by clients, too")
}

func TestPathPrefix(t *testing.T) {
	for _, c := range []struct {
		path  string
		depth int
		want  string
	}{
		{"/a/b/c", 1, "/a"}, {"/a/b/c", 2, "/a/b"}, {"/a/b/c", 3, "/a/b/c"}, {"/a/b/c", 9, "/a/b/c"}, {"/", 2, "/"}, {"", 1, ""}, {"x", 1, "x"},
	} {
		require.Equal(t, c.want, string(PathPrefix([]byte(c.path), c.depth)), "%+v", c)
	}
	require.Len(t, PathPrefix(make([]byte, 5000), 2), topNameBytes)
}
