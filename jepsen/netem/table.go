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
}

// Clients is the host of the clients.
const Clients = 0

// A Table says what each host's traffic to each other host meets. The zero Link lets all
// through at once.
type Table struct {
	mu      sync.Mutex
	links   map[[2]int]Link // guarded by mu
	changed chan struct{}   // guarded by mu: closed at the next change
}

// NewTable returns a table of a network without faults.
func NewTable() *Table {
	return &Table{links: map[[2]int]Link{}, changed: make(chan struct{})}
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
