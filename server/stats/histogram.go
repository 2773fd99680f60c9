package stats

import (
	"math/bits"
	"sync/atomic"
)

// Unit says what a Histogram records and what is shown of it.
type Unit uint8

// The units.
const (
	Count  Unit = iota // recorded and shown as it is: sizes, numbers of things
	Millis             // recorded in nanoseconds, shown in milliseconds
)

// A histogram's buckets are log-linear: the recorded value (nanoseconds first divided by
// 1024, finer is noise) is its own bucket below 32, and from there on every octave has 16
// buckets of equal width, so a bucket is at most 1/16 of its values wide and the error of
// an interpolated percentile stays below 6 %.
//
//	value     0 1 2 … 31 | 32 34 … 62 | 64 68 … 124 | 128 …
//	bucket    0 1 2 … 31 | 32 33 … 47 | 48 49 … 63  | 64 …
//
// 512 buckets reach 2^35 things or 9 hours; larger values are counted in the last one.
const (
	bucketCount = 512
	subBits     = 4
	subCount    = 1 << subBits
	nanoShift   = 10
	nanosPerMs  = 1e6
)

// A Histogram is a distribution of values: number, sum, smallest, largest, percentiles.
// Record is safe for any number of goroutines, takes no lock, and allocates only for the
// first value. The zero value records counts.
type Histogram struct {
	sum     atomic.Int64
	min     atomic.Int64 // value+1, 0 before the first; since Reset
	max     atomic.Int64 // likewise
	buckets atomic.Pointer[[bucketCount]atomic.Int64]
	base    atomic.Pointer[Snapshot] // totals at the last Reset, nil before
	unit    Unit                     // immutable after NewHistogram
}

// NewHistogram returns an empty histogram of values in the given unit.
func NewHistogram(u Unit) *Histogram {
	return &Histogram{unit: u}
}

// Record adds a value: nanoseconds where the unit is Millis. A negative value (a clock that
// went back) is dropped.
func (h *Histogram) Record(v int64) {
	if v < 0 {
		return
	}
	b := h.buckets.Load()
	if b == nil {
		b = h.firstBuckets()
	}
	b[bucketOf(v, h.unit)].Add(1)
	h.sum.Add(v)
	// Nearly always both are already right: a load each, and no call.
	if m := h.min.Load(); m == 0 || v+1 < m {
		lower(&h.min, v+1)
	}
	if v+1 > h.max.Load() {
		raise(&h.max, v+1)
	}
}

// Read adds what the histogram holds in the given view to s, which takes over its unit. In
// the view SinceStart the smallest and largest value are left out: they are kept since the
// last Reset only.
func (h *Histogram) Read(v View, s *Snapshot) {
	s.Unit = h.unit
	b := h.buckets.Load()
	if b == nil {
		return
	}
	s.Sum += h.sum.Load()
	for i := range b {
		n := b[i].Load()
		s.buckets[i] += n
		s.Count += n
	}
	if v == SinceStart {
		return
	}
	if base := h.base.Load(); base != nil {
		s.subtract(base)
	}
	s.widen(h.min.Load(), h.max.Load())
}

// Reset starts the view SinceReset anew. A value recorded at the same moment may be missing
// in the smallest and largest.
func (h *Histogram) Reset() {
	if h.buckets.Load() == nil {
		return
	}
	base := new(Snapshot)
	h.Read(SinceStart, base)
	h.base.Store(base)
	h.min.Store(0)
	h.max.Store(0)
}

// firstBuckets is called before the first value only; of several callers one wins.
func (h *Histogram) firstBuckets() *[bucketCount]atomic.Int64 {
	h.buckets.CompareAndSwap(nil, new([bucketCount]atomic.Int64))
	return h.buckets.Load()
}

// bucketOf is the index of the bucket that v falls into.
func bucketOf(v int64, u Unit) int {
	x := uint64(v)
	if u == Millis {
		x >>= nanoShift
	}
	if x < 2*subCount {
		return int(x)
	}
	exp := bits.Len64(x) - subBits - 1
	return min(exp<<subBits+int(x>>exp), bucketCount-1)
}

// bucketBounds are the smallest recorded value of bucket i, and of the next one.
func bucketBounds(i int, u Unit) (low, next int64) {
	low, width := int64(i), int64(1)
	if i >= 2*subCount {
		exp := i>>subBits - 1
		low, width = int64(i%subCount+subCount)<<exp, 1<<exp
	}
	if u == Millis {
		return low << nanoShift, (low + width) << nanoShift
	}
	return low, low + width
}
