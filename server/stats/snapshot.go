package stats

import (
	"math"
	"strconv"
	"strings"
)

// A Snapshot is what a Histogram held at one moment, or the sum of several. Count, Sum, Min
// and Max are as recorded (nanoseconds for Millis); the methods give what is shown.
type Snapshot struct {
	Unit  Unit
	Count int64
	Sum   int64

	min, max int64 // value+1, 0 when unknown
	buckets  [bucketCount]int64
}

// Min is the smallest value in whole shown units, 0 without one, as ZooKeeper shows it.
func (s *Snapshot) Min() int64 {
	return s.whole(max(s.min-1, 0))
}

// Max is the largest value in whole shown units, 0 without one.
func (s *Snapshot) Max() int64 {
	return s.whole(max(s.max-1, 0))
}

// Total is the sum of all values in whole shown units.
func (s *Snapshot) Total() int64 {
	return s.whole(s.Sum)
}

// TotalExact is the sum of all values in shown units with its fraction.
func (s *Snapshot) TotalExact() float64 {
	return s.shown(float64(s.Sum))
}

// Avg is the mean in shown units, rounded half up to 4 decimals as ZooKeeper does, 0 without
// a value.
func (s *Snapshot) Avg() float64 {
	if s.Count <= 0 {
		return 0
	}
	return math.Floor(s.shown(float64(s.Sum)/float64(s.Count))*1e4+0.5) / 1e4
}

// Quantile is the value in shown units below which the share q (0 to 1) of all values lies,
// interpolated within its bucket and never outside Min and Max; 0 without a value.
func (s *Snapshot) Quantile(q float64) float64 {
	if s.Count <= 0 {
		return 0
	}
	rank := q * float64(s.Count) // how many values lie below
	seen := 0.0
	for i := range s.buckets {
		n := float64(s.buckets[i])
		if n <= 0 || seen+n < rank {
			seen += max(n, 0)
			continue
		}
		low, next := bucketBounds(i, s.Unit)
		// The values of a bucket of width w are low … low+w-1: for w = 1 this is exact.
		return s.shown(s.clamp(float64(low) + float64(next-low-1)*(rank-seen)/n))
	}
	return s.shown(s.clamp(math.Inf(1)))
}

// clamp brings a recorded value between the smallest and the largest one, where known.
func (s *Snapshot) clamp(v float64) float64 {
	if s.max > 0 {
		v = min(v, float64(s.max-1))
	}
	if s.min > 0 {
		v = max(v, float64(s.min-1))
	}
	if math.IsInf(v, 1) { // more values counted than found in the buckets: read while recording
		return float64(s.Sum) / float64(s.Count)
	}
	return v
}

func (s *Snapshot) whole(v int64) int64 {
	if s.Unit == Millis {
		return v / nanosPerMs
	}
	return v
}

func (s *Snapshot) shown(v float64) float64 {
	if s.Unit == Millis {
		return v / nanosPerMs
	}
	return v
}

// subtract takes off what was already there at a reset.
func (s *Snapshot) subtract(base *Snapshot) {
	s.Sum -= base.Sum
	s.Count -= base.Count
	for i := range s.buckets {
		s.buckets[i] -= base.buckets[i]
	}
}

// widen takes the smallest and largest value of another part in (as value+1, 0 for none).
func (s *Snapshot) widen(smallest, largest int64) {
	if smallest != 0 && (s.min == 0 || smallest < s.min) {
		s.min = smallest
	}
	s.max = max(s.max, largest)
}

// FormatFloat renders f as a decimal number with at least one digit after the point. Java
// prints the same except for numbers below 0.001 and from 10^7 on, where it changes to
// "5.0E-4": scripts that match [0-9.]+ break on that, and averages of a fast server are
// often so small.
func FormatFloat(f float64) string {
	t := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.ContainsAny(t, ".IN") { // neither a point, nor Inf, nor NaN
		t += ".0"
	}
	return t
}
