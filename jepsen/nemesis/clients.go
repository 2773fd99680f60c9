package nemesis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/zkd-project/zkd/jepsen/wire"
)

const (
	// crowd is how many sessions come back at once.
	crowd = 1000
	// crowdTimeoutMs is far more than it may take them.
	crowdTimeoutMs = 20_000
)

// Faults by clients that speak the protocol. What is wrong with a session is seen by whoever has
// it, so it is judged here: as an error of the fault.
func clients() []Nemesis {
	return []Nemesis{
		{Name: "reconnects", Doc: "1,000 sessions lose their connections and come back at once, to any server", group: groupAbuse, longest: 4 * time.Second, inject: reconnects},
		{Name: "steal", Doc: "sessions are taken over with the right password, and with a wrong one", group: groupAbuse, longest: 3 * time.Second, inject: steal},
	}
}

// join opens or takes up a session on some server.
func (w *World) join(ctx context.Context, r *rand.Rand, s wire.Session) (*wire.Conn, error) {
	server := 1 + r.IntN(w.Cluster.Size())
	dialing, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	nc, err := w.Cluster.Driver().Dial(dialing, server)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	defer stop()
	return wire.Open(nc, server, s, 5*time.Second, wire.Hooks{Event: func(*wire.Conn, wire.Event) {}, Broken: func(*wire.Conn, string) {}})
}

// findings collects what is wrong.
type findings struct {
	mu   sync.Mutex
	errs []error // guarded by mu
}

func (f *findings) add(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.errs) < 5 {
		f.errs = append(f.errs, fmt.Errorf(format, args...))
	}
}

// background runs f for each of n until the fault ends.
func background(n int, r *rand.Rand, f func(ctx context.Context, r *rand.Rand, found *findings)) func() error {
	ctx, cancel := context.WithCancel(context.Background())
	found := &findings{}
	var wg sync.WaitGroup
	for range n {
		own := rand.New(rand.NewPCG(r.Uint64(), r.Uint64()))
		wg.Go(func() { f(ctx, own, found) })
	}
	return func() error {
		cancel()
		wg.Wait()
		return errors.Join(found.errs...)
	}
}

// reconnects has each session cut and taken up again until the fault ends. One that is refused
// must be one whose client was away for its timeout.
func reconnects(w *World, r *rand.Rand) (fault, error) {
	end := background(crowd, r, func(ctx context.Context, r *rand.Rand, found *findings) {
		s := wire.Session{TimeoutMs: crowdTimeoutMs}
		var alive time.Time
		for ctx.Err() == nil {
			c, err := w.join(ctx, r, s)
			switch {
			case err == nil:
				s, alive = c.Session, c.Alive()
				wait(ctx, time.Duration(200+r.IntN(800))*time.Millisecond)
				c.Cut()
			case errors.Is(err, wire.ErrRefused) && s.ID != 0:
				if away := time.Since(alive); away < crowdTimeoutMs*time.Millisecond {
					found.add("session 0x%x was refused as over after %v; its timeout is %d ms", s.ID, away, crowdTimeoutMs)
				}
				s = wire.Session{TimeoutMs: crowdTimeoutMs}
			default:
				wait(ctx, time.Duration(20+r.IntN(200))*time.Millisecond)
			}
		}
	})
	return fault{fmt.Sprintf("%d sessions", crowd), nil, end}, nil
}

// steal has one client after the other take up the same session. Without the password nobody gets
// it, and who has it is not disturbed.
func steal(w *World, r *rand.Rand) (fault, error) {
	const thieves = 8
	end := background(thieves, r, func(ctx context.Context, r *rand.Rand, found *findings) {
		owner, err := w.join(ctx, r, wire.Session{TimeoutMs: crowdTimeoutMs})
		if err != nil {
			return
		}
		defer func() { owner.Cut() }()
		for ctx.Err() == nil {
			wrong := owner.Session
			wrong.Password = bytes.Clone(wrong.Password)
			wrong.Password[r.IntN(len(wrong.Password))] ^= 1 << r.IntN(8)
			if c, err := w.join(ctx, r, wrong); err == nil {
				found.add("session 0x%x was given to a client with a wrong password", wrong.ID)
				c.Cut()
			}
			next, err := w.join(ctx, r, owner.Session)
			switch {
			case err == nil:
				owner.Cut()
				owner = next
			case errors.Is(err, wire.ErrRefused) && time.Since(owner.Alive()) < crowdTimeoutMs*time.Millisecond:
				found.add("session 0x%x was refused to a client with its password, %v after a sign of life", owner.Session.ID, time.Since(owner.Alive()))
				return
			}
			wait(ctx, time.Duration(r.IntN(100))*time.Millisecond)
		}
	})
	return fault{fmt.Sprintf("%d sessions", thieves), nil, end}, nil
}
