package recipes

import (
	"fmt"
	"math"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestNamesAreThoseOfCuratorAndKazoo(t *testing.T) {
	const u36, u32 = `[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`, `[0-9a-f]{32}`
	for _, tc := range []struct {
		names naming
		kind  kind
		want  string
	}{
		{lockNames(Curator), exclusive, `_c_` + u36 + `-lock-`},
		{latchNames(Curator), exclusive, `_c_` + u36 + `-latch-`},
		{readWriteNames(Curator), exclusive, `_c_` + u36 + `-__WRIT__`},
		{readWriteNames(Curator), shared, `_c_` + u36 + `-__READ__`},
		{lockNames(Kazoo), exclusive, u32 + `__lock__`},
		{latchNames(Kazoo), exclusive, u32 + `__lock__`},
		{readWriteNames(Kazoo), exclusive, u32 + `__lock__`},
		{readWriteNames(Kazoo), shared, u32 + `__rlock__`},
	} {
		name := tc.names.fresh(tc.kind)
		require.Regexp(t, regexp.MustCompile("^"+tc.want+"$"), name)
		c, ok := tc.names.read(name + "0000000042")
		require.True(t, ok)
		require.Equal(t, contender{name: name + "0000000042", seq: 42, kind: tc.kind}, c)
	}
}

func TestContendersAreTold(t *testing.T) {
	const u = "_c_2f0d8a0e-5b1c-4c8e-9d62-0e7c5d3f9b10-"
	type want struct {
		seq     int32
		kind    kind
		foreign bool
	}
	for _, tc := range []struct {
		names naming
		name  string
		want  *want // nil: no contender
	}{
		{lockNames(Curator), u + "lock-0000000007", &want{7, exclusive, false}},
		{lockNames(Curator), "2f0d8a0e5b1c4c8e9d620e7c5d3f9b10-lock-0000000007", &want{7, exclusive, false}},
		{lockNames(Curator), u + "lock--2147483648", &want{math.MinInt32, exclusive, false}},
		{lockNames(Curator), u + "lock--1999999999", &want{-1999999999, exclusive, false}},
		{lockNames(Curator), u + "lock--000000001", &want{-1, exclusive, false}},
		{lockNames(Curator), u + "lock-2147483647", &want{math.MaxInt32, exclusive, false}},
		{lockNames(Curator), "2f0d8a0e5b1c4c8e9d620e7c5d3f9b10__lock__0000000007", &want{7, exclusive, true}},
		{lockNames(Curator), u + "__WRIT__0000000007", &want{7, exclusive, true}},
		{lockNames(Curator), u + "latch-0000000007", &want{7, exclusive, true}},
		{lockNames(Curator), "x-72057594037927936-0000000007", &want{7, exclusive, true}},
		{lockNames(Curator), u + "lock-mine-0000000007", &want{7, exclusive, true}},
		{lockNames(Curator), "leases", nil},
		{lockNames(Curator), "lock-", nil},
		{lockNames(Curator), "n-123", nil},
		{readWriteNames(Curator), u + "__READ__0000000007", &want{7, shared, false}},
		{readWriteNames(Curator), u + "__WRIT__0000000007", &want{7, exclusive, false}},
		{readWriteNames(Curator), u + "lock-0000000007", &want{7, exclusive, true}},
		{lockNames(Kazoo), "2f0d8a0e5b1c4c8e9d620e7c5d3f9b10__lock__0000000007", &want{7, exclusive, false}},
		{lockNames(Kazoo), u + "lock-0000000007", &want{7, exclusive, true}},
		{readWriteNames(Kazoo), "2f0d8a0e5b1c4c8e9d620e7c5d3f9b10__rlock__-000000002", &want{-2, shared, false}},
	} {
		c, ok := tc.names.read(tc.name)
		if tc.want == nil {
			require.False(t, ok, tc.name)
			continue
		}
		require.True(t, ok, tc.name)
		require.Equal(t, *tc.want, want{c.seq, c.kind, c.foreign}, tc.name)
	}
}

// T15: the queue keeps its order when the server's counter goes over the edge.
func TestOrderSurvivesTheWrapOfTheCounter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.OneOf(rapid.Int32(), rapid.Int32Range(math.MaxInt32-40, math.MaxInt32)).Draw(t, "first")
		n := rapid.IntRange(1, 60).Draw(t, "contenders")
		names := lockNames(rapid.SampledFrom([]Format{Curator, Kazoo}).Draw(t, "format"))
		var q, want []contender
		for i := range n {
			name := fmt.Sprintf("%s%010d", names.fresh(exclusive), first+int32(i))
			c, ok := names.read(name)
			if !ok || c.foreign {
				t.Fatalf("%s is not told", name)
			}
			want = append(want, c)
		}
		q = append(q, rapid.Permutation(want).Draw(t, "listed")...)
		order(q)
		require.Equal(t, want, q)
	})
}

func FuzzName(f *testing.F) {
	for _, s := range []string{"", "lock-0000000001", "__lock__-000000001", "lock-lock-9999999999", "x-1-0000000002"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		for _, names := range []naming{lockNames(Curator), lockNames(Kazoo), readWriteNames(Curator), readWriteNames(Kazoo), latchNames(Curator)} {
			c, ok := names.read(name)
			if !ok || c.foreign {
				continue
			}
			again, ok := names.read(c.name)
			if !ok || again != c || name != c.name {
				t.Errorf("%q: %+v and then %+v", name, c, again)
			}
		}
	})
}
