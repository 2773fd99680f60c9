package replication

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/zkd-project/zkd/server/state"
)

// benchObserver counts what is applied and lets so many commands be under way.
type benchObserver struct {
	slots chan struct{}
	done  sync.WaitGroup
}

func (b *benchObserver) Applied(c *state.Command, r *state.Result) {
	if c.Kind != state.KindWrite {
		return
	}
	if r.Outcome != state.Applied {
		panic(fmt.Sprintf("outcome %d code %v", r.Outcome, r.Code))
	}
	<-b.slots
	b.done.Done()
}
func (b *benchObserver) BatchDone()     {}
func (b *benchObserver) BatchReleased() {}

// Routed implements Observer.
func (b *benchObserver) Routed(uint64) {}
func (b *benchObserver) Restored()     {}
func (b *benchObserver) Quarantined()  {}

// BenchmarkPropose: setData of 100 bytes through queue, log, disk and machine, with so many
// outstanding.
func BenchmarkPropose(b *testing.B) {
	for _, store := range []string{"memory", "segment", "bolt"} {
		for _, outstanding := range []int{1, 64, 1024} {
			b.Run(fmt.Sprintf("%s/%d", store, outstanding), func(b *testing.B) {
				o := testOptions()
				o.SegmentBytes = 0
				o.Rand = nil
				if store == "memory" {
					o.Memory = true
				} else {
					o.Dir, o.LogStore = b.TempDir(), store
				}
				benchPropose(b, o, outstanding)
			})
		}
	}
}

func benchPropose(b *testing.B, o Options, outstanding int) {
	r := newRig(b)
	o.Observer = r
	n, _, err := Open(o)
	if err != nil {
		b.Fatal(err)
	}
	defer n.Close()
	r.Node = n
	if err := n.WaitReady(testContext(b)); err != nil {
		b.Fatal(err)
	}
	r.session()
	const paths = 1000
	req := uint64(1)
	var commands []*state.Command
	for i := range paths {
		r.mustDo(createNode(req, nodePath(i), make([]byte, 100)))
		req++
		commands = append(commands, setData(0, nodePath(i), make([]byte, 100)))
	}
	obs := &benchObserver{slots: make(chan struct{}, outstanding)}
	n.o.Observer = obs // nothing is under way
	b.ReportAllocs()
	for b.Loop() {
		c := commands[req%paths]
		c.Req = req
		req++
		obs.done.Add(1)
		obs.slots <- struct{}{}
		if err := n.Propose(c); err != nil {
			b.Fatal(err)
		}
	}
	obs.done.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}

// fill creates n nodes of 100 bytes under /d0, /d1 …, a thousand in each.
func fill(b *testing.B, r *rig, n int) {
	b.Helper()
	r.session()
	req := uint64(1)
	propose := func(c *state.Command) {
		for {
			err := r.Propose(c)
			if err == nil {
				return
			}
			if !errors.Is(err, ErrQueueFull) {
				b.Fatal(err)
			}
			if err := r.WaitQueue(testContext(b)); err != nil {
				b.Fatal(err)
			}
		}
	}
	data := make([]byte, 100)
	for i := range n {
		if i%1000 == 0 {
			propose(createNode(req, fmt.Sprintf("/d%d", i/1000), nil))
			req++
		}
		propose(createNode(req, fmt.Sprintf("/d%d/node-%d", i/1000, i), data))
		req++
	}
	r.mustDo(createNode(req, "/last", nil))
}

// quietObserver is told and does nothing.
type quietObserver struct{}

func (quietObserver) Applied(*state.Command, *state.Result) {}
func (quietObserver) BatchDone()                            {}
func (quietObserver) BatchReleased()                        {}
func (quietObserver) Routed(uint64)                         {}
func (quietObserver) Restored()                             {}
func (quietObserver) Quarantined()                          {}

// BenchmarkRestart: from Open until the first write can be proposed, with a million nodes.
func BenchmarkRestart(b *testing.B) {
	for _, from := range []string{"snapshot", "log"} {
		b.Run(from, func(b *testing.B) {
			o := testOptions()
			o.SegmentBytes, o.Rand, o.Dir, o.SnapshotBytes = 0, nil, b.TempDir(), -1
			o.SnapCount = 1 << 30
			r := openRig(b, o)
			fill(b, r, 1_000_000)
			if from == "snapshot" {
				start := time.Now()
				if err := r.SnapshotNow(testContext(b)); err != nil {
					b.Fatal(err)
				}
				b.Logf("snapshot of %d bytes took %v", r.stores.snaps.bytes(), time.Since(start))
			}
			b.Logf("log of %d MB", r.LogBytes()>>20)
			r.Node.Close()
			r.Node = nil
			o.Observer = quietObserver{}
			for b.Loop() {
				n, _, err := Open(o)
				if err != nil {
					b.Fatal(err)
				}
				if err := n.WaitReady(testContext(b)); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				n.Close()
				b.StartTimer()
			}
		})
	}
}

// BenchmarkFirstWrite: from nothing on disk to a durable write.
func BenchmarkFirstWrite(b *testing.B) {
	for _, store := range []string{logStoreSegment, logStoreBolt} {
		b.Run(store, func(b *testing.B) {
			dir := b.TempDir()
			i := 0
			for b.Loop() {
				i++
				o := testOptions()
				o.Dir, o.LogStore, o.SegmentBytes = filepath.Join(dir, fmt.Sprint(i)), store, 0
				r := openRig(b, o)
				r.session()
				b.StopTimer()
				r.Node.Close()
				os.RemoveAll(o.Dir)
				b.StartTimer()
			}
		})
	}
}
