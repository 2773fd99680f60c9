package cluster

import (
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/internal/sim/disk"
	"github.com/zkd-project/zkd/internal/sim/rng"
	"github.com/zkd-project/zkd/server/fourletter"
)

// The faults of processes and of their disks.

// abruptly draws how a process ends that is not asked.
func (n *nemesis) abruptly() ending { return rng.Pick(n.r, []ending{killed, powerCut}) }

// crash ends one process.
func (n *nemesis) crash() {
	v, how := n.victim(), n.abruptly()
	n.note("%v: %d", how, v.number)
	v.stop(how, n.r.Uint64())
}

// crashAll ends all processes at once, or a majority or minority of them.
func (n *nemesis) crashAll() {
	count := len(n.w.nodes)
	switch n.r.Intn(4) {
	case 0, 1:
		count = count/2 + 1
	case 2:
		count /= 2
	}
	how := n.abruptly()
	n.note("%v of several: %d", how, count)
	first := n.r.Intn(len(n.w.nodes))
	n.stopAll(slices.Concat(n.w.nodes[first:], n.w.nodes[:first])[:count], how)
}

// restart ends a process and starts it again at once.
func (n *nemesis) restart() {
	v := n.victim()
	how := inOrder
	if n.r.OneIn(2) {
		how = n.abruptly()
	}
	n.note("restart after %v: %d", how, v.number)
	v.stop(how, n.r.Uint64())
	n.start(v)
}

func (n *nemesis) start(v *node) {
	if err := v.start(); err != nil {
		n.w.fail("server %d: %w", v.number, err)
	}
}

// slowDisk makes what a server writes or syncs late, until the faults are healed.
func (n *nemesis) slowDisk() {
	v := n.victim()
	op := rng.Pick(n.r, []disk.Op{disk.OpSync, disk.OpSync, disk.OpSyncDir, disk.OpWrite})
	delay := time.Duration(5+n.r.Intn(rng.Pick(n.r, []int{30, 300, 3000}))) * time.Millisecond
	n.note("slow disk: %d, every %v takes %v", v.number, op, delay)
	v.store().Inject(disk.Fault{Op: op, For: -1, Delay: delay})
	if n.r.OneIn(2) { // much is written and not synced when the power fails
		time.Sleep(time.Duration(n.r.Intn(2000)) * time.Millisecond)
		n.powerCut(v)
	}
}

// powerCut cuts the power of one server, or of all at once.
func (n *nemesis) powerCut(v *node) {
	victims := []*node{v}
	if n.r.OneIn(2) {
		victims = n.w.nodes
	}
	n.note("power cut of a slow disk: %d, %d servers", v.number, len(victims))
	n.stopAll(victims, powerCut)
}

// stopAll ends processes at the same time.
func (n *nemesis) stopAll(victims []*node, how ending) {
	var done sync.WaitGroup
	for _, v := range victims {
		seed := n.r.Uint64()
		done.Go(func() { v.stop(how, seed) })
	}
	done.Wait()
}

// diskError lets one of the next operations fail. The process has to end.
func (n *nemesis) diskError() {
	v := n.victim()
	f := disk.Fault{
		Op: rng.Pick(n.r, []disk.Op{disk.OpSync, disk.OpWrite, disk.OpAny, disk.OpSyncDir, disk.OpRead}),
		N:  1 + n.r.Intn(20), Err: syscall.EIO, Short: n.r.Intn(600),
	}
	n.note("disk error: %d, %v number %d", v.number, f.Op, f.N)
	v.store().Inject(f)
}

// fullDisk leaves little room, or none: nearly full the server must go on without taking writes;
// full the process has to end.
func (n *nemesis) fullDisk() {
	v := n.victim()
	d := v.store()
	free, total := d.Space()
	used := total - free
	room := rng.Pick(n.r, []int64{0, int64(n.r.Intn(4096)), used / 40})
	n.note("full disk: %d, room for %d of %d", v.number, room, used)
	d.SetCapacity(max(used+room, 1))
}

// wipe replaces the disk of a server by an empty one. That is the loss of a voter until it has its
// place again, so no other is lost before.
func (n *nemesis) wipe() {
	if !n.w.canLose() || !n.whole() || !n.w.risk.CompareAndSwap(noRisk, diskLost) {
		return
	}
	v := n.victim()
	n.note("wipe: %d", v.number)
	n.lost = v
	v.lostData.Store(true)
	v.stop(killed, 0)
	n.start(v)
}

// rot flips bits on the disk of a server that was stopped in order. It must notice, or they must
// not matter; then it starts anew with an empty disk.
func (n *nemesis) rot() {
	if !n.w.canLose() || !n.whole() || !n.w.risk.CompareAndSwap(noRisk, diskLost) {
		return
	}
	v := n.victim()
	n.lost = v
	v.stop(inOrder, 0)
	v.awaitEnd()
	d := v.store()
	name, size := fileSize(rng.Pick(n.r, d.Files()))
	n.note("rot: %d, %s", v.number, name)
	if size > 0 {
		for range 1 + n.r.Intn(3) {
			_ = d.Flip(name, int64(n.r.Intn(size)), 1<<n.r.Intn(8))
		}
		v.rotten.Store(true)
	}
	n.start(v)
}

// whole says whether every voter has all that it has ever acknowledged, as far as one can see.
func (n *nemesis) whole() bool {
	for _, s := range n.w.nodes {
		if !s.serves() {
			return false
		}
	}
	if n.lost == nil {
		return true
	}
	srv := n.lost.server()
	if srv == nil {
		return false
	}
	switch mode := srv.Face().Status().Mode; {
	case mode == fourletter.ModeLeader, mode == fourletter.ModeFollower, n.lost.observer && mode == fourletter.ModeObserver:
		n.lost = nil
		n.w.risk.CompareAndSwap(diskLost, noRisk)
		return true
	}
	return false
}
