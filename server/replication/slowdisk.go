package replication

import (
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// A leader whose disk is slow holds everybody up: nothing is acknowledged before its own disk
// has it. So it measures what a sync of its log takes, hears from the others what theirs do
// (their reports carry it, digest.go), and hands over when
//
//   - its own have taken SlowDisk.Sync and more for SlowDisk.For, without a good moment, and
//   - a voter that could lead at once needs a quarter of that at most, and less than
//     SlowDisk.Sync.
//
// Where all disks are slow nobody is better, and nothing happens: they often are one disk, or
// the machine is busy. Moments without a sync count for neither side. After each attempt it
// waits SlowDisk.Pause, twice as long each time, whoever leads in between; so two servers whose
// disks take turns do not pass the leadership to and fro.
//
// A disk that does not even take a write holds raft's main loop, and that cannot hand over. Its
// heartbeats would go on all the same, and nobody else would stand for election. So when one
// write or sync has not come back for half as long again as SlowDisk.For, and a voter has a better
// disk, the leader falls silent until it comes back (standsStill).

// SlowDisk says when a leader hands over because of its disk.
type SlowDisk struct {
	// Sync is what a sync of the log takes on a slow disk; 500 ms by default, negative: never.
	// Too small: a hand-over for what costs less than the hand-over; too large: all wait.
	Sync time.Duration
	// For is how long it must have been so; 5 s by default.
	For time.Duration
	// Pause is the least time between two attempts; 1 minute by default, and it doubles up to
	// maxSlowPauses times that.
	Pause time.Duration
}

const (
	defaultSlowDisk      = 500 * time.Millisecond
	defaultSlowDiskFor   = 5 * time.Second
	defaultSlowDiskPause = time.Minute
	maxSlowPauses        = 16
	// slowLooks in SlowDisk.For.
	slowLooks = 10
	// muchBetter is how many times faster the disk of an heir must be.
	muchBetter = 4
)

func (d *SlowDisk) setDefaults() {
	if d.Sync == 0 {
		d.Sync = defaultSlowDisk
	}
	if d.For <= 0 {
		d.For = defaultSlowDiskFor
	}
	if d.Pause <= 0 {
		d.Pause = defaultSlowDiskPause
	}
}

// A syncMeter knows what syncs of the log take at present.
type syncMeter struct {
	mu     sync.Mutex  // guards what follows
	starts []time.Time // of the syncs under way, in their order
	sum    time.Duration
	count  int           // of those that ended since the last look
	last   time.Duration // what it was when there was one last; 0: never
}

// begin notes that a sync begins, and returns what notes its end.
func (m *syncMeter) begin() (end func()) {
	start := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.starts = append(m.starts, start)
	return func() {
		took := time.Since(start)
		m.mu.Lock()
		defer m.mu.Unlock()
		i := slices.Index(m.starts, start)
		m.starts = slices.Delete(m.starts, i, i+1)
		m.sum, m.count = m.sum+took, m.count+1
	}
}

// age is for how long the first of the syncs under way has been; 0 without one.
func (m *syncMeter) age() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ageLocked()
}

func (m *syncMeter) ageLocked() time.Duration {
	if len(m.starts) == 0 {
		return 0
	}
	return time.Since(m.starts[0])
}

// look returns the mean of the syncs that ended since the last look, or the age of one that is
// under way, if that is more; false if there was none.
func (m *syncMeter) look() (time.Duration, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var mean time.Duration
	if m.count > 0 {
		mean = m.sum / time.Duration(m.count)
	}
	some := m.count > 0
	if age := m.ageLocked(); age > mean && (some || age > m.last) {
		mean, some = age, true
	}
	m.sum, m.count = 0, 0
	if some {
		m.last = max(mean, time.Microsecond)
	}
	return mean, some
}

// typical is what a sync has taken last; 0: there was none yet.
func (m *syncMeter) typical() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(m.last, m.ageLocked())
}

// watchDisk looks at the log's disk, on every member, until stop.
func (n *Node) watchDisk(stop <-chan struct{}) {
	every := n.o.SlowDisk.For / slowLooks
	t := time.NewTicker(every)
	defer t.Stop()
	w := slowWatch{d: n.o.SlowDisk, pause: n.o.SlowDisk.Pause, leads: n.Leads, best: n.bestDisk, hand: n.handToDisk}
	for {
		select {
		case <-t.C:
		case <-stop:
			return
		case <-n.dead:
			return
		}
		took, some := n.syncs.look()
		// A write that is not synced yet takes next to nothing, so it counts only if it did not.
		if w, _ := n.writes.look(); w > took && (some || w >= n.o.SlowDisk.Sync) {
			took, some = w, true
		}
		if message, mean := w.look(took, some, every, time.Now()); message != "" {
			n.o.Logger.Warn(message, "sync", mean)
		}
	}
}

// A slowWatch decides when to hand over. Owned by watchDisk.
type slowWatch struct {
	d     SlowDisk
	leads func() bool
	// best is the voter that could lead and has the best disk, and what its syncs take; "" if
	// nothing is known of any.
	best func() (raft.ServerID, time.Duration)
	hand func(to raft.ServerID, mine, theirs time.Duration) error // over

	slow  time.Duration // for how long there was no good moment
	sum   time.Duration // of what was seen in it
	looks int
	next  time.Time     // no attempt before
	pause time.Duration // after the next attempt
}

// look takes in what syncs took in the last interval. A message is for the operator.
func (w *slowWatch) look(took time.Duration, some bool, every time.Duration, now time.Time) (message string, mean time.Duration) {
	switch {
	case !some || w.d.Sync < 0:
		return "", 0
	case took < w.d.Sync:
		w.slow, w.sum, w.looks = 0, 0, 0
		if now.Sub(w.next) > maxSlowPauses*w.d.Pause {
			w.pause = w.d.Pause // it was good for long
		}
		return "", 0
	}
	w.slow, w.sum, w.looks = w.slow+every, w.sum+took, w.looks+1
	if w.slow < w.d.For || now.Before(w.next) || !w.leads() {
		return "", 0
	}
	mean = w.sum / time.Duration(w.looks)
	w.next = now.Add(w.pause)
	to, theirs := w.best()
	if to == "" || theirs*muchBetter > mean || theirs >= w.d.Sync {
		return "the disk of this leader is slow, and no server that could lead has a much better one", mean
	}
	w.pause = min(2*w.pause, maxSlowPauses*w.d.Pause)
	if err := w.hand(to, mean, theirs); err != nil {
		return "a server with a slow disk still leads: " + err.Error(), mean
	}
	w.slow, w.sum, w.looks = 0, 0, 0
	return "", 0
}

// handToDisk hands over to a voter with a better disk.
func (n *Node) handToDisk(to raft.ServerID, mine, theirs time.Duration) error {
	n.o.Logger.Warn("the disk of this leader is slow: handing over", "sync", mine, "to", to, "sync there", theirs)
	n.o.Meters.SlowDisk()
	ctx, cancel := n.until(n.halt)
	defer cancel()
	return n.stepDown(ctx, to)
}

// standsStill says whether this leader's disk holds everybody up, and nothing but silence helps.
func (n *Node) standsStill() bool {
	age := max(n.syncs.age(), n.writes.age())
	switch {
	case n.o.SlowDisk.Sync < 0, age < n.o.SlowDisk.For*3/2:
		n.hushed.Store(false)
		return false
	case n.hushed.Load(): // in silence the others look as if they were away
		return true
	}
	to, theirs := n.bestDisk()
	if to == "" || theirs*muchBetter > age || theirs >= n.o.SlowDisk.Sync {
		return false
	}
	if n.hushed.CompareAndSwap(false, true) {
		n.o.Logger.Warn("the disk of this leader stands still: others may lead", "for", age.Round(time.Millisecond), "sync elsewhere", theirs)
		n.o.Meters.SlowDisk()
	}
	return true
}

// bestDisk is the voter whose syncs are shortest, of those that could lead at once; "" if
// nothing is known of any.
func (n *Node) bestDisk() (best raft.ServerID, took time.Duration) {
	for _, id := range n.voters() {
		if id == n.stores.id.serverID() || !n.fitToLead(id) {
			continue
		}
		c, ok := n.conditionOf(id)
		if d := time.Duration(c.syncNs); ok && d > 0 && (best == "" || d < took) {
			best, took = id, d
		}
	}
	return best, took
}
