package stats

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestEveryValueLiesInItsBucket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := rapid.SampledFrom([]Unit{Count, Millis}).Draw(t, "unit")
		v := rapid.Int64Min(0).Draw(t, "value")
		i := bucketOf(v, u)
		low, next := bucketBounds(i, u)
		if v < low || v >= next && i != bucketCount-1 {
			t.Fatalf("%d is in bucket %d, which is [%d, %d)", v, i, low, next)
		}
	})
}

func TestBucketsAreAdjacent(t *testing.T) {
	for _, u := range []Unit{Count, Millis} {
		_, next := bucketBounds(0, u)
		for i := 1; i < bucketCount; i++ {
			low, n := bucketBounds(i, u)
			if low != next {
				t.Fatalf("unit %d: bucket %d begins at %d, the one before ends at %d", u, i, low, next)
			}
			next = n
		}
	}
}

func TestQuantileIsNearTheExactOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		vs := rapid.SliceOfN(rapid.Int64Range(0, 1<<34), 1, 300).Draw(t, "values")
		q := rapid.SampledFrom([]float64{0, 0.5, 0.95, 0.99, 0.999, 1}).Draw(t, "q")
		h := NewHistogram(Count)
		for _, v := range vs {
			h.Record(v)
		}
		var s Snapshot
		h.Read(SinceReset, &s)
		got := s.Quantile(q)
		slices.Sort(vs)
		// The value below which the share q lies is between these two.
		rank := max(int(math.Ceil(q*float64(len(vs))))-1, 0)
		low, high := float64(vs[rank]), float64(vs[min(rank+1, len(vs)-1)])
		if got < low-low/16-1 || got > high+high/16+1 {
			t.Fatalf("quantile %v of %v is %v, want about %v to %v", q, vs, got, low, high)
		}
	})
}

func TestSmallCountsAreExact(t *testing.T) {
	h := NewHistogram(Count)
	for v := int64(1); v <= 20; v++ {
		h.Record(v)
	}
	var s Snapshot
	h.Read(SinceReset, &s)
	if got := s.Quantile(0.5); got != 10 {
		t.Errorf("median %v, want 10", got)
	}
	if s.Min() != 1 || s.Max() != 20 || s.Total() != 210 || s.Avg() != 10.5 || s.Count != 20 {
		t.Errorf("got min %d max %d sum %d avg %v count %d", s.Min(), s.Max(), s.Total(), s.Avg(), s.Count)
	}
}

func TestMillisecondsAreShownAsZooKeeperDoes(t *testing.T) {
	tests := []struct {
		name          string
		ns            []int64
		min, max, sum int64
		avg           string
	}{
		{"nothing recorded", nil, 0, 0, 0, "0.0"},
		{"fractions only show in the average", []int64{400_000, 500_000}, 0, 0, 0, "0.45"},
		{"half up at the fourth decimal", []int64{31_250, 31_250}, 0, 0, 0, "0.0313"},
		{"whole milliseconds", []int64{4e6}, 4, 4, 4, "4.0"},
		{"mixed", []int64{0, 1e6, 5e6, 1e6, 1e6, 1e6, 0}, 0, 5, 9, "1.2857"},
		{"hours", []int64{7 * 3600 * 1e9}, 25_200_000, 25_200_000, 25_200_000, "25200000.0"},
		{"beyond the buckets", []int64{100 * 3600 * 1e9}, 360_000_000, 360_000_000, 360_000_000, "360000000.0"},
		{"a clock that went back", []int64{-1, 2e6}, 2, 2, 2, "2.0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := NewHistogram(Millis)
			for _, v := range tt.ns {
				h.Record(v)
			}
			var s Snapshot
			h.Read(SinceReset, &s)
			if s.Min() != tt.min || s.Max() != tt.max || s.Total() != tt.sum {
				t.Errorf("min %d max %d sum %d, want %d %d %d", s.Min(), s.Max(), s.Total(), tt.min, tt.max, tt.sum)
			}
			if got := FormatFloat(s.Avg()); got != tt.avg {
				t.Errorf("avg %s, want %s", got, tt.avg)
			}
		})
	}
}

func TestResetHidesWhatWasBeforeAndKeepsTheTotal(t *testing.T) {
	h := NewHistogram(Millis)
	h.Reset() // nothing there yet
	h.Record(100e6)
	h.Reset()
	h.Record(1e6)
	h.Record(3e6)

	var s, all Snapshot
	h.Read(SinceReset, &s)
	h.Read(SinceStart, &all)
	if s.Count != 2 || s.Min() != 1 || s.Max() != 3 || s.Total() != 4 || s.Avg() != 2 {
		t.Errorf("since reset: count %d min %d max %d sum %d avg %v", s.Count, s.Min(), s.Max(), s.Total(), s.Avg())
	}
	if got := s.Quantile(1); got != 3 {
		t.Errorf("largest quantile since reset is %v, want 3", got)
	}
	if all.Count != 3 || all.Total() != 104 || all.Min() != 0 || all.Max() != 0 {
		t.Errorf("since start: count %d sum %d min %d max %d", all.Count, all.Total(), all.Min(), all.Max())
	}
	if got := all.Quantile(1); math.Abs(got-100) > 100.0/16 {
		t.Errorf("largest quantile since start is %v, want about 100", got)
	}
}

func TestHistogramsAddUp(t *testing.T) {
	a, b := NewHistogram(Millis), NewHistogram(Millis)
	a.Record(5e6)
	b.Record(1e6)
	b.Record(9e6)
	var s Snapshot
	a.Read(SinceReset, &s)
	b.Read(SinceReset, &s)
	if s.Count != 3 || s.Min() != 1 || s.Max() != 9 || s.Total() != 15 {
		t.Errorf("count %d min %d max %d sum %d", s.Count, s.Min(), s.Max(), s.Total())
	}
}

func TestFormatFloatIsPlainDecimal(t *testing.T) {
	for f, want := range map[float64]string{
		0: "0.0", 4: "4.0", 0.0001: "0.0001", 1.2857: "1.2857", 12345678: "12345678.0",
		-2.5: "-2.5", math.Inf(1): "+Inf",
	} {
		if got := FormatFloat(f); got != want {
			t.Errorf("FormatFloat(%v) = %s, want %s", f, got, want)
		}
	}
}
