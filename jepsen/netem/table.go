package netem

import (
	"sync"
	"time"
)

// A Link is what happens to what one host sends to another.
type Link struct {
	Blocked bool
	Delay   time.Duration
	Jitter  time.Duration // up to so much is added to Delay
	// Loss and Double are the shares of packets; only a Switch heeds them.
	Loss, Double float64
	// Rate is how many bytes pass in a second; 0: as many as are sent.
	Rate int
}

// lineQueue is for how long bytes wait for their turn on a narrow link; a Switch drops what would wait
// longer, as a router with a full queue does.
const lineQueue = 200 * time.Millisecond

// Clients is the host of the clients.
const Clients = 0

// A Table says what each host's traffic to each other host meets. The zero Link lets all
// through at once.
type Table struct {
	mu      sync.Mutex
	links   map[[2]int]Link      // guarded by mu
	busy    map[[2]int]time.Time // guarded by mu: until when a narrow link has something to carry
	changed chan struct{}        // guarded by mu: closed at the next change
}

// NewTable returns a table of a network without faults.
func NewTable() *Table {
	return &Table{links: map[[2]int]Link{}, busy: map[[2]int]time.Time{}, changed: make(chan struct{})}
}

// Set says what becomes of what src sends to dst.
func (t *Table) Set(src, dst int, l Link) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.links[[2]int{src, dst}] = l
	t.wake()
}

// Heal ends all faults.
func (t *Table) Heal() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.links)
	clear(t.busy)
	t.wake()
}

// wake is called with mu held.
func (t *Table) wake() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// Get returns the link, and a channel that is closed when any link changes.
func (t *Table) Get(src, dst int) (Link, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.links[[2]int{src, dst}], t.changed
}

// queue has n bytes take their turn on a link of a rate: they are through after wait. It is full, and they take
// none, if the turn is not reached within limit.
func (t *Table) queue(src, dst, n, rate int, limit time.Duration) (wait time.Duration, full bool) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	free := t.busy[[2]int{src, dst}]
	if free.Before(now) {
		free = now
	}
	if free.Sub(now) > limit {
		return 0, true
	}
	free = free.Add(time.Duration(n) * time.Second / time.Duration(rate))
	t.busy[[2]int{src, dst}] = free
	return free.Sub(now), false
}

// narrow waits until n bytes have passed a link, as far as it has a rate; false if stop is closed first.
func (t *Table) narrow(src, dst, n int, stop <-chan struct{}) bool {
	for {
		l, _ := t.Get(src, dst)
		if l.Rate == 0 {
			return true
		}
		wait, full := t.queue(src, dst, n, l.Rate, lineQueue)
		if full {
			wait = lineQueue // and then their turn may come
		}
		if !t.waitAt(src, dst, l.Rate, wait, stop) {
			return false
		}
		if now, _ := t.Get(src, dst); now.Rate == l.Rate && !full {
			return true
		}
	}
}

// waitAt waits for so long, or until the link has another rate; false if stop is closed first.
func (t *Table) waitAt(src, dst, rate int, wait time.Duration, stop <-chan struct{}) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		l, changed := t.Get(src, dst)
		if l.Rate != rate {
			return true
		}
		select {
		case <-timer.C:
			return true
		case <-changed:
		case <-stop:
			return false
		}
	}
}

// pass waits until the link is open, or stop is closed; false then.
func (t *Table) pass(src, dst int, stop <-chan struct{}) bool {
	for {
		l, changed := t.Get(src, dst)
		if !l.Blocked {
			return true
		}
		select {
		case <-changed:
		case <-stop:
			return false
		}
	}
}
