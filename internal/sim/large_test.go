package sim

import (
	"fmt"
	"testing"

	"github.com/zkd-project/zkd/internal/sim/rng"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/wire"
)

// largeHistory makes a tree of so many nodes, and then changes it while snapshots are
// written, each of which is restarted from afterwards.
func largeHistory(seed uint64, nodes int) *History {
	r := rng.New(seed)
	h := &History{Batches: []Batch{{AdvanceMs: 1000, NewTerm: true, Steps: []Step{{Kind: state.KindCreateSession}}}}}
	write := func(b *Batch, op Op) {
		b.Steps = append(b.Steps, Step{Kind: state.KindWrite, IDs: superID, Op: op})
	}
	name := func() string { return fmt.Sprintf("/d%02d/n%d", r.Intn(20), r.Intn(nodes/20)) }
	for i := 0; i < nodes; {
		var b Batch
		for range 200 {
			if dir := fmt.Sprintf("/d%02d", i%20); i < 20 {
				write(&b, Op{Code: wire.OpCreate, Path: dir, ACL: openACL})
			} else {
				write(&b, Op{Code: wire.OpCreate, Path: fmt.Sprintf("%s/n%d", dir, i/20), Data: []byte("data"), ACL: openACL})
			}
			i++
		}
		h.Batches = append(h.Batches, b)
	}
	for i := range 300 {
		var b Batch
		if i%30 == 0 {
			b.Actions = []Action{{Kind: TakeSlowSnapshot, Replica: i / 30 % 3, Batches: 25}}
		}
		if i%30 == 29 {
			b.Actions = []Action{{Kind: Restart, Replica: i / 30 % 3}}
		}
		for range 20 {
			flags := rng.Pick(r, []int32{wire.FlagPersistent, wire.FlagEphemeral, wire.FlagPersistentSequential})
			write(&b, rng.Pick(r, []Op{
				{Code: wire.OpSetData, Path: name(), Data: make([]byte, r.Intn(100)), Version: -1},
				{Code: wire.OpDelete, Path: name(), Version: -1},
				{Code: wire.OpCreate, Path: name(), ACL: rng.Pick(r, goodACLs), Flags: flags},
				{Code: wire.OpCreate, Path: name() + "/kid", ACL: openACL, Flags: flags},
				{Code: wire.OpSetACL, Path: name(), ACL: rng.Pick(r, goodACLs), Version: -1},
				{Code: wire.OpMulti, Multi: []Op{
					{Code: wire.OpSetData, Path: name(), Version: -1},
					{Code: wire.OpDelete, Path: name(), Version: -1},
					{Code: wire.OpCreate, Path: name(), ACL: openACL},
				}},
			}))
		}
		h.Batches = append(h.Batches, b)
	}
	return h
}

// The tree is so large that snapshots are written in many pieces, with changes in between.
func TestSlowSnapshotsOfALargeTreeAreOfTheirMoment(t *testing.T) {
	nodes := 20_000
	if testing.Short() {
		nodes = 8000
	}
	for _, seed := range []uint64{1, 2} {
		cfg := DefaultConfig()
		cfg.Model = false
		stats, err := Run(cfg, largeHistory(seed, nodes))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if stats.Restores < 5 || stats.During < 100 {
			t.Errorf("seed %d restarts too seldom, or its snapshots are too quick: %v", seed, stats)
		}
	}
}
