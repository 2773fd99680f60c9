package recipes

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/wire"
)

// T12: a writer is about to become a reader when its write lock is lost. The reader's node would carry
// the writer's number and overtake everybody: it must queue up like any other.
func TestWriterThatLostItsLockDoesNotOvertakeAsAReader(t *testing.T) {
	for name, lose := range map[string]func(r *rig, w Lease){
		"taken away": func(r *rig, w Lease) {
			c := r.dial()
			remove(r.t, c, w.Path())
			r.close(c)
		},
		"session lost": func(r *rig, w Lease) { r.srv.ExpireSession(w.(*share).session.ID()) },
	} {
		t.Run(name, func(t *testing.T) {
			forEachRW(t, func(t *testing.T, r *rig, opts ...Option) {
				var w Lease
				var armed atomic.Bool
				var writes Lease
				holds := make(chan struct{}) // closed when writes holds
				p := tap{request: func(op wire.OpCode) {
					if op == wire.OpCreate2 && armed.CompareAndSwap(true, false) {
						lose(r, w)
						<-holds // the next writer has the lock before the create goes out
					}
				}}
				m, other := NewRWMutex(r.dial(p.option()), "/lock", opts...), NewRWMutex(r.dial(), "/lock", opts...)
				me := WithOwner(testContext(t), "me")
				w, err := m.Lock(me)
				require.NoError(t, err)
				go func() {
					defer close(holds)
					var err error
					if writes, err = other.Lock(testContext(t)); err != nil {
						t.Error(err)
					}
				}()
				c := r.dial()
				r.queued(c, "/lock", 2)
				armed.Store(true)
				reader := start(t, me, m.RLock)
				<-holds
				eventually(t, "the reader stands behind the writer", func() bool {
					select {
					case <-reader.lease:
						require.FailNow(t, "it reads beside the writer")
					default:
					}
					for _, name := range r.children(c, "/lock") {
						if n, _ := other.line.names.read(name); n.kind == shared {
							return strings.Compare(name[len(name)-10:], base(writes.Path())[len(base(writes.Path()))-10:]) > 0
						}
					}
					return false
				})
				require.NoError(t, writes.Verify(testContext(t)))
				reader.waits()
				release(t, writes)
				release(t, reader.got())
				_ = w.Release(testContext(t))
			})
		})
	}
}
