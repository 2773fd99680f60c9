package session

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// newTracker returns a Tracker whose invariants are checked when the test ends.
func newTracker(t testing.TB, tickNs int64) *Tracker {
	tracker := NewTracker(tickNs)
	t.Cleanup(func() {
		if err := tracker.check(); err != nil {
			t.Error(err)
		}
	})
	return tracker
}

// check verifies the invariants of the Tracker.
func (t *Tracker) check() error {
	listed := 0
	for number, slot := range t.buckets {
		if number < t.next {
			return fmt.Errorf("E4: bucket %d is before next, %d", number, t.next)
		}
		if slot == none {
			return fmt.Errorf("E3: bucket %d has an empty list", number)
		}
		for before := none; slot != none; before, slot = slot, t.entries[slot].next {
			e := t.entries[slot]
			listed++
			if e.filed != number || e.filed > e.due || e.prev != before {
				return fmt.Errorf("E2: %+v is in the list of bucket %d after %d", e, number, before)
			}
			if at, ok := t.slots[e.id]; !ok || at != slot {
				return fmt.Errorf("E1: %+v is in slot %d, and mapped to %d, %v", e, slot, at, ok)
			}
		}
	}
	if listed != len(t.slots) {
		return fmt.Errorf("E2: %d entries in lists, %d tracked", listed, len(t.slots))
	}
	free := 0
	for slot := t.free; slot != none; slot = t.entries[slot].next {
		free++
	}
	if free+listed != len(t.entries) {
		return fmt.Errorf("E1: %d used and %d free of %d", listed, free, len(t.entries))
	}
	return nil
}

// TestBucketIsZooKeepers: ExpiryQueue.roundToNextInterval of now + timeout.
func TestBucketIsZooKeepers(t *testing.T) {
	for _, tt := range []struct{ now, timeout, want int64 }{
		{0, 4000, 6000},
		{1, 4000, 6000},
		{1999, 4000, 6000},
		{2000, 4000, 8000},
		{1500, 499, 2000},
		{1500, 500, 4000},
		{0, 0, 2000},
	} {
		tracker := newTracker(t, ms(2000))
		tracker.Touch(1, ms(tt.now), ms(tt.timeout))
		want := []Bucket{{AtNs: ms(tt.want), IDs: []int64{1}}}
		if got := tracker.Buckets(); !reflect.DeepEqual(got, want) {
			t.Errorf("now %d, timeout %d: %v, want %v", tt.now, tt.timeout, got, want)
		}
		if got := tracker.Expire(ms(tt.want) - 1); len(got) != 0 {
			t.Errorf("now %d, timeout %d: expired too early", tt.now, tt.timeout)
		}
		if got := tracker.Expire(ms(tt.want)); !slices.Equal(got, []int64{1}) {
			t.Errorf("now %d, timeout %d: did not expire in its bucket", tt.now, tt.timeout)
		}
	}
}

func TestDueStaysDueUntilTouchedOrRemoved(t *testing.T) {
	tracker := newTracker(t, ms(1000))
	for _, id := range []int64{3, 1, 2} {
		tracker.Touch(id, 0, ms(1500))
	}
	steps := []struct {
		name string
		do   func()
		now  int64
		want []int64
	}{
		{"before", func() {}, 1999, nil},
		{"due, sorted", func() {}, 2000, []int64{1, 2, 3}},
		{"still due", func() {}, 2001, []int64{1, 2, 3}},
		{"one touched", func() { tracker.Touch(2, ms(2001), ms(1500)) }, 2002, []int64{1, 3}},
		{"one removed", func() { tracker.Remove(1) }, 3999, []int64{3}},
		{"the touched one again", func() {}, 4000, []int64{2, 3}},
		{"an unknown one removed", func() { tracker.Remove(9) }, 9000, []int64{2, 3}},
		{"all gone", func() { tracker.Remove(2); tracker.Remove(3) }, 9000, nil},
	}
	for _, step := range steps {
		step.do()
		if got := tracker.Expire(ms(step.now)); !slices.Equal(got, step.want) {
			t.Errorf("%s: got %v, want %v", step.name, got, step.want)
		}
		if err := tracker.check(); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
	}
}

func TestShorterTimeoutCounts(t *testing.T) {
	tracker := newTracker(t, ms(1000))
	tracker.Touch(1, 0, ms(30_000))
	tracker.Touch(1, 0, ms(2000))
	if got := tracker.Expire(ms(3000)); !slices.Equal(got, []int64{1}) {
		t.Errorf("got %v, want [1]", got)
	}
}

func TestBucketsAreSorted(t *testing.T) {
	tracker := newTracker(t, ms(2000))
	tracker.Touch(5, 0, ms(9000))
	tracker.Touch(4, 0, ms(4000))
	tracker.Touch(-3, 0, ms(8000))
	tracker.Touch(9, 0, ms(60_000))
	tracker.Touch(9, ms(100), ms(5000)) // where it is due, not where it was filed
	want := []Bucket{
		{AtNs: ms(6000), IDs: []int64{4, 9}},
		{AtNs: ms(10_000), IDs: []int64{-3, 5}},
	}
	if got := tracker.Buckets(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := tracker.Len(); got != 4 {
		t.Errorf("Len = %d, want 4", got)
	}
}

func TestTickMustBePositive(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	NewTracker(0)
}

// TestNeverEarlyAlwaysInTime runs random touches, removals and expiries beside a map of
// last touches: a session never expires before its timeout, and does at the first Expire
// that is at least one tick later.
func TestNeverEarlyAlwaysInTime(t *testing.T) {
	type touch struct{ at, timeout int64 }
	rapid.Check(t, func(t *rapid.T) {
		tick := rapid.Int64Range(1, 3000).Draw(t, "tick")
		tracker := NewTracker(tick)
		model := map[int64]touch{}
		now := int64(0)
		id := rapid.Int64Range(1, 20)
		t.Repeat(map[string]func(*rapid.T){
			"touch": func(t *rapid.T) {
				i, timeout := id.Draw(t, "id"), rapid.Int64Range(0, 10_000).Draw(t, "timeout")
				tracker.Touch(i, now, timeout)
				model[i] = touch{now, timeout}
			},
			"remove": func(t *rapid.T) {
				i := id.Draw(t, "id")
				tracker.Remove(i)
				delete(model, i)
			},
			"wait": func(t *rapid.T) { now += rapid.Int64Range(0, 5000).Draw(t, "wait") },
			"expire": func(t *rapid.T) {
				got := tracker.Expire(now)
				if !slices.IsSorted(got) {
					t.Fatalf("%v is not sorted", got)
				}
				for _, i := range got {
					last, ok := model[i]
					if !ok || now <= last.at+last.timeout {
						t.Fatalf("at %d: %d expired early or untracked, %+v", now, i, last)
					}
				}
				for i, last := range model {
					due := ((last.at+last.timeout)/tick + 1) * tick
					if slices.Contains(got, i) != (now >= due) {
						t.Fatalf("at %d: %d of %+v, due %d, expired %v", now, i, last, due, now < due)
					}
					if now >= last.at+last.timeout+tick && !slices.Contains(got, i) {
						t.Fatalf("at %d: %d of %+v is late", now, i, last)
					}
				}
			},
			"": func(t *rapid.T) {
				if err := tracker.check(); err != nil {
					t.Fatal(err)
				}
				n := 0
				for _, b := range tracker.Buckets() {
					for _, i := range b.IDs {
						n++
						if due := ((model[i].at+model[i].timeout)/tick + 1) * tick; b.AtNs != due {
							t.Fatalf("%d is listed at %d, want %d", i, b.AtNs, due)
						}
					}
				}
				if n != len(model) || tracker.Len() != len(model) {
					t.Fatalf("%d listed, %d tracked, want %d", n, tracker.Len(), len(model))
				}
			},
		})
	})
}

// tracked returns a Tracker with n sessions of 30 s in ticks of 2 s, touched over one tick.
func tracked(n int) *Tracker {
	tracker := NewTracker(ms(2000))
	for i := range n {
		tracker.Touch(int64(i+1), ms(2000)*int64(i)/int64(n), ms(30_000))
	}
	return tracker
}

func TestTouchDoesNotAllocate(t *testing.T) {
	const n = 1000
	tracker := tracked(n)
	now, i := ms(2000), int64(0)
	if allocs := testing.AllocsPerRun(20_000, func() {
		now += ms(2000) / n // each session is touched once per tick
		i++
		tracker.Touch(i%n+1, now, ms(30_000))
	}); allocs != 0 {
		t.Errorf("%v allocations, want 0", allocs)
	}
}

// BenchmarkTouch100k touches 100,000 sessions in random order, as pings do, while ticks
// pass and nothing expires.
func BenchmarkTouch100k(b *testing.B) {
	const n = 100_000
	tracker := tracked(n)
	order := rand.New(rand.NewPCG(1, 2)).Perm(n)
	now, i := ms(2000), 0
	b.ReportAllocs()
	for b.Loop() {
		tracker.Touch(int64(order[i]+1), now, ms(30_000))
		if i++; i == n {
			i = 0
			for range 5 { // each session pings every 10 s
				now += ms(2000)
				if len(tracker.Expire(now)) != 0 {
					b.Fatal("expired")
				}
			}
		}
	}
}

// BenchmarkExpireNothing100k is a tick in which nothing is due.
func BenchmarkExpireNothing100k(b *testing.B) {
	tracker := tracked(100_000)
	b.ReportAllocs()
	for b.Loop() {
		tracker.Expire(ms(2000))
	}
}

// BenchmarkExpireAll100k is the tick at which all are due.
func BenchmarkExpireAll100k(b *testing.B) {
	tracker := tracked(100_000)
	b.ReportAllocs()
	for b.Loop() {
		if len(tracker.Expire(ms(60_000))) != 100_000 {
			b.Fatal("not all are due")
		}
	}
}
