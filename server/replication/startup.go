package replication

import "time"

// A Startup says how long it took until all that the stores held was applied.
type Startup struct {
	Snapshot time.Duration // loading the newest snapshot; 0: there is none
	Replay   time.Duration // applying the log behind it, without the time until that began
	Commands int           // of the log
	Took     time.Duration // both, and opening the stores
}

// A replay measures the start. Owned by Open, and from the first entry on by raft's FSM goroutine.
type replay struct {
	Startup
	began time.Time // opening the stores; and then applying the log, zero before
	last  uint64    // the last entry of the log that was there
}

// loaded is called when the newest snapshot is loaded, which leaves some entries up to last.
func (n *Node) loaded(entries, last uint64) {
	r := n.replay
	r.Took = n.o.Now().Sub(r.began)
	if entries == 0 {
		n.replay = nil
		n.o.Meters.Started(r.Startup)
		return
	}
	r.began, r.last = time.Time{}, last
}

// replaying is called before entries are applied, until all are that were there at the start.
func (f *fsm) replaying() {
	if f.replay.began.IsZero() && !f.n.still() {
		f.replay.began = f.n.o.Now()
	}
}

// replayed is called when an entry with commands has been applied.
func (f *fsm) replayed(index uint64) {
	r := f.replay
	if index <= r.last {
		r.Commands += len(f.commands)
	}
	if index >= r.last {
		r.Replay = f.n.o.Now().Sub(r.began)
		r.Took += r.Replay
		f.replay = nil
		f.n.o.Meters.Started(r.Startup)
	}
}
