package replication

import (
	"fmt"
	"sync"
	"testing"

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
func (b *benchObserver) Restored()      {}

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
	if err := n.WaitLeading(testContext(b)); err != nil {
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
