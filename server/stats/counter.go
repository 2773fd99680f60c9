package stats

import "sync/atomic"

// A Counter only grows. Its zero value is ready, and any number of goroutines may use it.
type Counter struct {
	total atomic.Int64
	base  atomic.Int64 // total at the last Reset
}

// Add counts n more.
func (c *Counter) Add(n int64) {
	c.total.Add(n)
}

// Value is what was counted in the given view.
func (c *Counter) Value(v View) int64 {
	if v == SinceStart {
		return c.total.Load()
	}
	return c.total.Load() - c.base.Load()
}

// Reset starts the view SinceReset anew.
func (c *Counter) Reset() {
	c.base.Store(c.total.Load())
}

// A View says from when on counters and summaries count.
type View uint8

// The views.
const (
	SinceReset View = iota // since srst, or the start: four-letter words and admin server
	SinceStart             // since the start: monitoring systems, for which counters never fall
)

// Sizes remembers the last, smallest and largest of a series, such as the bytes of
// responses. Its zero value is ready, and any number of goroutines may use it.
type Sizes struct {
	// All three hold size+1, so that 0 means that there was none yet.
	last, min, max atomic.Int64
}

// Record adds a size.
func (s *Sizes) Record(size int64) {
	v := size + 1
	// Storing only what differs keeps the cache line shared between cores while sizes repeat.
	if s.last.Load() != v {
		s.last.Store(v)
	}
	lower(&s.min, v)
	raise(&s.max, v)
}

// Values are the last, smallest and largest size, each -1 before the first.
func (s *Sizes) Values() (last, smallest, largest int64) {
	return s.last.Load() - 1, s.min.Load() - 1, s.max.Load() - 1
}

// Reset forgets all sizes.
func (s *Sizes) Reset() {
	s.last.Store(0)
	s.min.Store(0)
	s.max.Store(0)
}

// lower makes a at most v, where 0 in a means that it has no value yet.
func lower(a *atomic.Int64, v int64) {
	for {
		cur := a.Load()
		if (cur != 0 && cur <= v) || a.CompareAndSwap(cur, v) {
			return
		}
	}
}

// raise makes a at least v.
func raise(a *atomic.Int64, v int64) {
	for {
		cur := a.Load()
		if cur >= v || a.CompareAndSwap(cur, v) {
			return
		}
	}
}
