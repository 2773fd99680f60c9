package recipes

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/client"
)

// contenders are as many as in zkbench's preset lockqueue, each with a session of its own.
const contenders = 100

// BenchmarkLockHandOver hands one lock from contender to contender on a cluster of three, as zkbench's
// preset lockqueue does without a client library: who gets it lets go at once and queues up again.
// An operation is one hand-over, from one holder's moment to the next one's.
func BenchmarkLockHandOver(b *testing.B) {
	for name, opts := range map[string][]Option{"fair": nil, "unfair": {Unfair()}} {
		b.Run(name, func(b *testing.B) {
			r := newRigOf(b, 3)
			handOver(b, func(ctx context.Context, turn chan<- time.Time) {
				m := NewMutex(r.dial(client.WithTimeout(time.Minute)), "/lock", opts...)
				for {
					l, err := m.Lock(ctx)
					if err != nil {
						return
					}
					tell(ctx, turn)
					if err := l.Release(ctx); err != nil && ctx.Err() == nil {
						b.Error(err)
					}
				}
			})
		})
	}
	b.Run("go-zookeeper", func(b *testing.B) {
		r := newRigOf(b, 3)
		handOver(b, func(ctx context.Context, turn chan<- time.Time) {
			c, _, err := zk.Connect(r.srv.Each(), time.Minute, zk.WithLogger(quiet{}))
			if err != nil {
				b.Error(err)
				return
			}
			defer c.Close()
			stop := context.AfterFunc(ctx, c.Close) // its Lock knows no contexts
			defer stop()
			for ctx.Err() == nil {
				l := zk.NewLock(c, "/lock", zk.WorldACL(zk.PermAll))
				if l.Lock() != nil {
					return
				}
				tell(ctx, turn)
				_ = l.Unlock()
			}
		})
	})
}

func tell(ctx context.Context, turn chan<- time.Time) {
	select {
	case turn <- time.Now():
	case <-ctx.Done():
	}
}

// handOver runs the contenders and measures from one turn to the next.
func handOver(b *testing.B, contend func(ctx context.Context, turn chan<- time.Time)) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	turns := make(chan time.Time, 16)
	var all sync.WaitGroup
	for range contenders {
		all.Go(func() { contend(ctx, turns) })
	}
	var last time.Time
	for range 2 * contenders { // until all stand in the queue
		last = <-turns
	}
	var took []time.Duration
	for b.Loop() {
		now := <-turns
		took = append(took, now.Sub(last))
		last = now
	}
	cancel()
	all.Wait()
	require.NotEmpty(b, took)
	slices.Sort(took)
	at := func(q float64) float64 { return float64(took[int(q*float64(len(took)-1))].Nanoseconds()) }
	var sum time.Duration
	for _, d := range took {
		sum += d
	}
	b.ReportMetric(float64(len(took))/sum.Seconds(), "handovers/s")
	b.ReportMetric(at(0.5), "p50-ns")
	b.ReportMetric(at(0.99), "p99-ns")
}
