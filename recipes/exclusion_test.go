package recipes

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/client"
)

// The history of a lock, for porcupine: operations with the time in which each took effect.
//
//	acquire  from the call of Lock to its return, with the token
//	write    of one who holds, guarded by the lease; only those that succeeded
//	release  from the last moment when the holder said that it holds to the end of Release, or,
//	         when the hold was lost, to the moment when the holder knew
//
// The history is right if there is an order of single moments in which nobody acquires before the
// one before has let go, tokens grow, and nobody writes behind another's back.
type lockOp struct {
	do    string
	token int64
}

type lockState struct {
	holder int64 // token; 0 for nobody
	newest int64 // the highest token so far
}

var lockModel = porcupine.Model{
	Init: func() any { return lockState{} },
	Step: func(state, input, _ any) (bool, any) {
		s, op := state.(lockState), input.(lockOp)
		switch op.do {
		case "acquire":
			return s.holder == 0 && op.token > s.newest, lockState{op.token, op.token}
		case "write":
			return s.newest == op.token, s
		}
		return s.holder == op.token, lockState{0, s.newest}
	},
}

// A lockHistory collects operations.
type lockHistory struct {
	began time.Time
	mu    sync.Mutex
	ops   []porcupine.Operation // guarded by mu
	holds int                   // guarded by mu
	lost  int                   // guarded by mu
}

func (h *lockHistory) now() int64 { return int64(time.Since(h.began)) }

func (h *lockHistory) add(client int, do string, token, call, end int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: lockOp{do, token}, Call: call, Return: end})
	if do == "acquire" {
		h.holds++
	}
}

func (h *lockHistory) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.holds
}

// contend takes the lock, works under it, and lets go, until ctx ends.
func (h *lockHistory) contend(t *testing.T, ctx context.Context, c *client.Client, m *Mutex, id int) {
	for {
		call := h.now()
		l, err := m.Lock(ctx)
		if err != nil {
			if ctx.Err() == nil {
				t.Errorf("lock: %v", err)
			}
			return
		}
		h.add(id, "acquire", l.Token(), call, h.now())
		h.work(t, c, l, id)
	}
}

// work uses a hold to its end.
func (h *lockHistory) work(t *testing.T, c *client.Client, l Lease, id int) {
	held := int64(-1) // when it was surely still held
	for range 1 + rand.IntN(3) {
		now := h.now()
		if !l.Valid() {
			break
		}
		held = now
		ctx, cancel := context.WithTimeout(context.Background(), testLimit)
		call := h.now()
		_, err := c.Multi().Add(l.Guard()...).Set("/data", []byte("x"), client.AnyVersion).Commit(ctx)
		cancel()
		switch {
		case err == nil:
			h.add(id, "write", l.Token(), call, h.now())
		case !errors.Is(err, client.ErrNoNode) && !errors.Is(err, client.ErrUncertain):
			t.Errorf("a guarded write: %v", err)
		}
		select {
		case <-l.Done():
		case <-time.After(rand.N(4 * time.Millisecond)): // it works
		}
	}
	now := h.now()
	if l.Valid() {
		held = now
	}
	ctx, cancel := context.WithTimeout(context.Background(), testLimit)
	defer cancel()
	err := l.Release(ctx)
	if err != nil {
		t.Errorf("release: %v", err)
	}
	if held >= 0 { // else nobody has ever believed in it, and when it ended says nothing
		h.add(id, "release", l.Token(), held, h.now())
		return
	}
	h.forget(l.Token())
}

// forget drops a hold that was over when its holder first looked.
func (h *lockHistory) forget(token int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lost++
	kept := h.ops[:0]
	for _, op := range h.ops {
		if op.Input.(lockOp).token != token {
			kept = append(kept, op)
		}
	}
	h.ops = kept
}

// judge says what porcupine thinks.
func (h *lockHistory) judge(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	switch porcupine.CheckOperationsTimeout(lockModel, h.ops, 2*testLimit) {
	case porcupine.Illegal:
		t.Errorf("the history is not that of a lock: %v", h.shortest())
	case porcupine.Unknown:
		t.Error("the history could not be judged in time")
	case porcupine.Ok:
	}
	t.Logf("%d holds, %d of them over before they began, %d operations", h.holds, h.lost, len(h.ops))
}

// shortest returns the end of the shortest beginning of the history that is wrong already. Called
// with mu held.
func (h *lockHistory) shortest() []porcupine.Operation {
	low, high := 0, len(h.ops)
	for low < high {
		mid := (low + high) / 2
		if porcupine.CheckOperationsTimeout(lockModel, h.ops[:mid], time.Second) == porcupine.Illegal {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return h.ops[max(0, low-6):low]
}

// T1: 50 contenders on three nodes, with the leader killed again and again, nodes cut off and
// clients that fall silent.
func TestOneHoldsWhateverHappensToTheCluster(t *testing.T) {
	lasts, leaders, enough := 3*time.Second, 900*time.Millisecond, 60
	if testing.Short() {
		lasts, enough = time.Second, 20
	}
	if *long {
		lasts, leaders, enough = time.Minute, 2*time.Second, 1000
	}
	for _, form := range []string{"fair", "unfair"} { // kazoo's differs by its names only
		t.Run(form, func(t *testing.T) {
			opts := forms[form]
			s := newStorm(t)
			s.stays("/data")
			create(t, s.dial(), "/data", "")
			ctx, cancel := context.WithCancel(testContext(t))
			defer cancel()
			h := &lockHistory{began: time.Now()}
			var wg sync.WaitGroup
			for i := range 50 {
				if i%5 == 0 {
					s.join(client.WithTimeout(time.Second))
				}
				c := s.clients[len(s.clients)-1]
				m := NewMutex(c, "/lock", opts...)
				wg.Go(func() { h.contend(t, ctx, c, m, i) })
			}
			s.begin(leaders)
			for time.Since(h.began) < lasts || h.count() < enough {
				require.NoError(t, ctx.Err(), "%d holds", h.count())
				time.Sleep(10 * time.Millisecond) // the storm goes on
			}
			s.end()
			cancel()
			wg.Wait()
			h.judge(t)
		})
	}
}

// The judge tells wrong histories from right ones.
func TestJudgeOfLocksCanSayNo(t *testing.T) {
	op := func(id int, do string, token, call, end int64) porcupine.Operation {
		return porcupine.Operation{ClientId: id, Input: lockOp{do, token}, Call: call, Return: end}
	}
	for name, tc := range map[string]struct {
		ops  []porcupine.Operation
		want bool
	}{
		"one after the other": {[]porcupine.Operation{
			op(1, "acquire", 5, 0, 10), op(1, "write", 5, 11, 12), op(1, "release", 5, 20, 30),
			op(2, "acquire", 6, 1, 29), op(2, "release", 6, 40, 50),
		}, true},
		"both at once": {[]porcupine.Operation{
			op(1, "acquire", 5, 0, 10), op(1, "release", 5, 20, 30), op(2, "acquire", 6, 1, 15), op(2, "release", 6, 40, 50),
		}, false},
		"the same token again": {[]porcupine.Operation{
			op(1, "acquire", 5, 0, 10), op(1, "release", 5, 20, 30), op(2, "acquire", 5, 31, 35), op(2, "release", 5, 40, 50),
		}, false},
		"a write that came late": {[]porcupine.Operation{
			op(1, "acquire", 5, 0, 10), op(1, "release", 5, 11, 12), op(2, "acquire", 6, 13, 14), op(1, "write", 5, 15, 16),
			op(2, "release", 6, 40, 50),
		}, false},
		"a hold that nobody ended": {[]porcupine.Operation{
			op(1, "acquire", 5, 0, 10), op(1, "release", 5, 11, math.MaxInt64), op(2, "acquire", 6, 13, 14),
		}, true},
	} {
		require.Equal(t, tc.want, porcupine.CheckOperations(lockModel, tc.ops), name)
	}
}
