package recipes

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/zkd-project/zkd/client"
)

// An Election chooses one leader among all who use the same path. Its methods may be called
// from any goroutine; each Campaign and each Run is a candidate of its own.
//
// To be the leader and to know it are two things: the first node in the queue is the leader's
// before its owner has been told, and Observe goes by the nodes. Who must know that the leader
// has taken over lets it write that down, with the lease's Guard.
type Election struct {
	c     *client.Client
	path  string
	cfg   config
	line  *line // nil in the unfair form
	post  *post // nil in the fair form
	place taker

	mu    sync.Mutex
	turns map[*turn]bool // guarded by mu; of Run
}

// NewElection returns the election at path. It is shared with Curator's LeaderLatch, with its
// LeaderSelector by JoinSelectors, and with kazoo's Election by WithFormat(Kazoo).
//
// Candidates lead in the order in which they came. With Unfair all race for one node whenever
// the leader ends.
func NewElection(c *client.Client, path string, opts ...Option) *Election {
	e := &Election{c: c, path: path, cfg: newConfig(opts), turns: map[*turn]bool{}}
	if e.cfg.id != "" {
		e.cfg.data = []byte(e.cfg.id)
	}
	if e.cfg.unfair {
		e.post = &post{c: c, dir: path, name: "leader", cfg: &e.cfg}
		e.place = e.post
		return e
	}
	names := latchNames(e.cfg.format)
	if e.cfg.selector {
		names = lockNames(e.cfg.format)
	}
	e.line = &line{c: c, dir: path, names: names, cfg: &e.cfg}
	e.place = e.line
	return e
}

// Path is where the election is.
func (e *Election) Path() string { return e.path }

// Campaign waits until we lead. The leadership lasts until the lease is released or lost. When
// ctx ends first, we are no candidate any more.
func (e *Election) Campaign(ctx context.Context) (Lease, error) {
	h, err := e.campaign(ctx, false)
	if err != nil {
		return nil, err
	}
	return h, nil
}

// TryCampaign leads if nobody else is there, and returns ErrLocked otherwise.
func (e *Election) TryCampaign(ctx context.Context) (Lease, error) {
	h, err := e.campaign(ctx, true)
	if err != nil {
		return nil, err
	}
	return h, nil
}

func (e *Election) campaign(ctx context.Context, try bool) (*hold, error) {
	if _, leads := (heldKey{e.c, e.path}).heldBy(ctx); leads {
		return nil, fmt.Errorf("election %s: %w", e.path, ErrDeadlock)
	}
	return e.place.take(ctx, want{kind: exclusive, data: e.cfg.data, try: try})
}

// Participants lists the leader and then the other candidates in their order. In the unfair form
// only the leader is known.
func (e *Election) Participants(ctx context.Context) ([]Participant, error) {
	return e.place.participants(ctx)
}

// Leader returns who leads; ok is false if nobody does.
func (e *Election) Leader(ctx context.Context) (p Participant, ok bool, err error) {
	all, err := e.Participants(ctx)
	if err != nil || len(all) == 0 {
		return Participant{}, false, err
	}
	return all[0], true, nil
}

// Break removes a candidate by force; see Mutex.Break.
func (e *Election) Break(ctx context.Context, node string) error {
	return e.place.breakNode(ctx, node)
}

// A turn is one call of the function of Run.
type turn struct {
	h    *hold
	over chan struct{} // closed when the node is gone
}

// Run is a candidate that leads only while f runs. f's context ends with the leadership, which
// in turn ends when f returns or panics, never while it runs on: a loss cancels f and Run waits
// for it.
//
// Without AutoRequeue there is one turn, and Run returns what f returned, or why the leadership
// was lost. With it Run goes on until ctx ends or f returns an error although nothing was lost;
// lost connections and sessions do not end it. Resign ends a turn in both cases, and Run goes on.
func (e *Election) Run(ctx context.Context, f func(ctx context.Context, l Lease) error) error {
	for {
		h, err := e.campaign(ctx, false)
		if err != nil {
			return err
		}
		err = e.serve(ctx, h, f)
		lost := h.Err()
		resigned := errors.Is(lost, ErrResigned)
		lossOnly := lost != nil && !errors.Is(lost, ErrReleased)
		switch {
		case ctx.Err() != nil:
			return errors.Join(fmt.Errorf("election %s: %w", e.path, ended(ctx)), unless(err, ctx.Err()))
		case resigned:
		case !e.cfg.autoQueue && lossOnly:
			return errors.Join(fmt.Errorf("election %s: %w", e.path, lost), unless(err, lost, context.Canceled))
		case !e.cfg.autoQueue || err != nil && !lossOnly:
			return err
		}
	}
}

// unless returns err, or nil if it is one of those that are told anyway.
func unless(err error, told ...error) error {
	for _, t := range told {
		if errors.Is(err, t) {
			return nil
		}
	}
	return err
}

// serve runs f as the leader, and then deletes the node.
func (e *Election) serve(ctx context.Context, h *hold, f func(ctx context.Context, l Lease) error) error {
	t := &turn{h: h, over: make(chan struct{})}
	e.mu.Lock()
	e.turns[t] = true
	e.mu.Unlock()
	inner, cancel := h.Context(ctx)
	defer func() {
		cancel()
		_ = h.Release(ctx) // what is not deleted now is deleted in the background
		e.mu.Lock()
		delete(e.turns, t)
		e.mu.Unlock()
		close(t.over)
	}()
	return f(inner, h)
}

// Resign ends the turns of this process's Runs: their functions are cancelled, with ErrResigned
// as the cause, and each Run enters the election again at its tail. It returns when the functions
// have returned and the nodes are gone. Who does not lead just now returns at once.
func (e *Election) Resign(ctx context.Context) error {
	e.mu.Lock()
	var all []*turn
	for t := range e.turns {
		all = append(all, t)
	}
	e.mu.Unlock()
	for _, t := range all {
		t.h.end(ErrResigned)
	}
	for _, t := range all {
		select {
		case <-t.over:
		case <-ctx.Done():
			return fmt.Errorf("election %s: resign: %w", e.path, ended(ctx))
		}
	}
	return nil
}
