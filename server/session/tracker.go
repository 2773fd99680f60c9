package session

import (
	"cmp"
	"maps"
	"slices"
)

// A Tracker knows when each session was last heard of, and which have been silent for
// longer than their timeout. Time is cut into ticks: a session touched at now is due at
//
//	bucket(now, timeout) = ((now + timeout) / tick + 1) * tick
//
// the first tick after its timeout, as in Apache ZooKeeper (ExpiryQueue), so it expires
// between timeout and timeout + tick after the last touch.
//
// A touch comes with nearly every request of every client, an expiry is rare. So a touch
// only notes the new bucket in the entry, and leaves the entry in the list of the bucket it
// was filed in; when that bucket's time comes, what was touched meanwhile is filed anew.
// Moving an entry at every touch would cost three more cache misses each. Each entry is
// filed at most once per timeout.
//
// Invariants; check verifies them:
//
//	E1  slots maps exactly the tracked ids, each to the entry that holds it;
//	E2  an entry is in the list of exactly one bucket, its filed, and filed <= due: it will
//	    be looked at in time;
//	E3  buckets has a head for exactly the lists that are not empty;
//	E4  no list is filed before next.
//
// Every server keeps one, for the time when it leads. Not safe for concurrent use.
type Tracker struct {
	tick    int64 // ns
	slots   map[int64]uint32
	entries []entry
	free    uint32           // list of unused entries through next; none: none
	buckets map[int64]uint32 // number of a bucket (its time / tick) → first entry of its list
	next    int64            // Expire has nothing to do before this bucket
	expired []int64          // result of Expire, reused
}

// An entry is a tracked session in the list of a bucket.
type entry struct {
	id         int64
	due        int64 // number of the bucket in which it expires
	filed      int64 // number of the bucket in whose list it is
	prev, next uint32
}

// none ends a list of entries.
const none = ^uint32(0)

// A Bucket lists the sessions that expire at the same time unless they are touched.
type Bucket struct {
	AtNs int64
	IDs  []int64 // sorted
}

// NewTracker returns a Tracker with buckets of tickNs, which must be positive.
func NewTracker(tickNs int64) *Tracker {
	if tickNs <= 0 {
		panic("session: the tick of a Tracker must be positive")
	}
	return &Tracker{tick: tickNs, slots: map[int64]uint32{}, free: none, buckets: map[int64]uint32{}}
}

// Len returns the number of tracked sessions.
func (t *Tracker) Len() int { return len(t.slots) }

// Touch says that the session was heard of at nowNs and may be silent for timeoutNs from
// then on. The newest call counts, also if it makes the session due earlier. An id that is
// not tracked is from now on: whether the session exists is the caller's to know.
func (t *Tracker) Touch(id, nowNs, timeoutNs int64) {
	due := (nowNs+timeoutNs)/t.tick + 1
	slot, ok := t.slots[id]
	if !ok {
		slot = t.alloc()
		t.slots[id] = slot
		t.entries[slot].id = id
		t.entries[slot].due = due
		t.file(slot, due)
		return
	}
	e := &t.entries[slot]
	e.due = due
	if due < e.filed {
		t.unfile(slot)
		t.file(slot, due)
	}
}

// Remove forgets the session; it does nothing if the session is not tracked.
func (t *Tracker) Remove(id int64) {
	slot, ok := t.slots[id]
	if !ok {
		return
	}
	t.unfile(slot)
	delete(t.slots, id)
	t.entries[slot] = entry{next: t.free}
	t.free = slot
}

// Expire returns the ids of the sessions that are due at nowNs, sorted. They stay due until
// they are touched or removed, so a close that gets lost is proposed again. The result is
// valid until the next call.
func (t *Tracker) Expire(nowNs int64) []int64 {
	t.expired = t.expired[:0]
	now := nowNs / t.tick
	if now < t.next {
		return t.expired
	}
	// The buckets that are due are collected first: filing adds to the map.
	var due []int64
	for number := range t.buckets {
		if number <= now {
			due = append(due, number)
		}
	}
	for _, number := range due {
		t.drain(number, now)
	}
	t.next = t.first()
	slices.Sort(t.expired)
	return t.expired
}

// drain looks at the entries filed in a bucket whose time has come: those that have been
// touched are filed anew, the others are due and stay.
func (t *Tracker) drain(number, now int64) {
	for slot := t.buckets[number]; slot != none; {
		e := &t.entries[slot]
		following := e.next
		if e.due > now {
			t.unfile(slot)
			t.file(slot, e.due)
		} else {
			t.expired = append(t.expired, e.id)
		}
		slot = following
	}
}

// first returns the number of the first bucket that is not empty, and one that never comes
// if all are empty.
func (t *Tracker) first() int64 {
	first := int64(1<<63 - 1)
	for number := range t.buckets {
		first = min(first, number)
	}
	return first
}

// Buckets returns all tracked sessions by the time at which they expire, earliest first:
// the session part of the four-letter word dump.
func (t *Tracker) Buckets() []Bucket {
	byNumber := map[int64][]int64{}
	for id, slot := range t.slots {
		due := t.entries[slot].due
		byNumber[due] = append(byNumber[due], id)
	}
	buckets := make([]Bucket, 0, len(byNumber))
	for _, number := range slices.SortedFunc(maps.Keys(byNumber), cmp.Compare) {
		ids := byNumber[number]
		slices.Sort(ids)
		buckets = append(buckets, Bucket{AtNs: number * t.tick, IDs: ids})
	}
	return buckets
}

// alloc returns an unused entry.
func (t *Tracker) alloc() uint32 {
	if t.free == none {
		t.entries = append(t.entries, entry{})
		return uint32(len(t.entries) - 1)
	}
	slot := t.free
	t.free = t.entries[slot].next
	return slot
}

// file puts the entry, which is in no list, at the front of the bucket's.
func (t *Tracker) file(slot uint32, number int64) {
	e := &t.entries[slot]
	e.filed = number
	e.prev = none
	e.next = none
	if head, ok := t.buckets[number]; ok {
		e.next = head
		t.entries[head].prev = slot
	}
	t.buckets[number] = slot
	t.next = min(t.next, number)
}

// unfile takes the entry out of its list.
func (t *Tracker) unfile(slot uint32) {
	e := &t.entries[slot]
	switch {
	case e.prev != none:
		t.entries[e.prev].next = e.next
	case e.next != none:
		t.buckets[e.filed] = e.next
	default:
		delete(t.buckets, e.filed)
	}
	if e.next != none {
		t.entries[e.next].prev = e.prev
	}
}
