package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
)

// A site takes part in transactions, and stands for the election of the coordinator.
type site struct {
	c  *client.Client
	id string

	// prepare says whether the work can be done. After true the site must be able to do it, even if
	// it dies and comes back. apply does it or drops it. It is called again if the site dies before
	// that is noted, so twice must be as good as once.
	prepare func(work string) bool
	apply   func(work, decision string)

	tree *recipes.Cache[string] // of everything below base
	made map[string]bool        // nodes that we have made, and that tree may not show yet; of participate
}

// run works until ctx ends.
func (s *site) run(ctx context.Context) error {
	s.tree, s.made = recipes.NewTreeCache(s.c, base, recipes.Text()), map[string]bool{}
	defer s.tree.Close()
	if err := s.tree.Ready(ctx); err != nil {
		return err
	}
	here := recipes.JoinGroup(s.c, base+"/sites", s.id, nil, recipes.GroupCurator)
	defer func() { _ = here.Leave(context.WithoutCancel(ctx)) }() // it ends with the session at the latest
	if err := here.Await(ctx); err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		stop(s.coordinate(ctx))
	}()
	stop(s.participate(ctx))
	<-done
	return context.Cause(ctx)
}

// participate votes in the transactions that come, and does what is decided. It begins with those
// that are there already: what we had promised in a former life is still to be done.
func (s *site) participate(ctx context.Context) error {
	for ev, err := range s.tree.Events(ctx) {
		if errors.Is(err, client.ErrLagged) {
			continue // everything comes again
		}
		if err != nil {
			return err
		}
		if err := s.step(ctx, txOf(ev.Path())); err != nil {
			return err
		}
	}
	return nil
}

// step does what is now ours to do in a transaction.
func (s *site) step(ctx context.Context, tx string) error {
	t, ok := s.transaction(tx)
	vote, done := tx+"/vote-"+s.id, tx+"/done-"+s.id
	if !ok || !slices.Contains(t.Sites, s.id) || s.has(done) {
		return nil
	}
	if decision, decided := s.tree.Get(tx + "/decision"); decided {
		s.apply(t.Work, decision.Value)
		s.made[done] = true
		return once(ctx, s.c, done, "")
	}
	if s.has(vote) {
		return nil // from here on it is not ours to say what becomes of it
	}
	s.made[vote] = true
	if s.prepare(t.Work) {
		return once(ctx, s.c, vote, commit)
	}
	return once(ctx, s.c, vote, abort)
}

func (s *site) has(path string) bool {
	_, there := s.tree.Get(path)
	return there || s.made[path]
}

// coordinate decides while we are the elected one. Who is elected begins with what is there, so it
// takes over whatever the one before it has left undecided.
//
// There can be a coordinator of the past that does not know it yet. It does no harm, and needs no
// guard: a decision is a node that can be made once, and whoever comes second finds the first one's.
func (s *site) coordinate(ctx context.Context) error {
	e := recipes.NewElection(s.c, base+"/coordinator", recipes.ElectionID(s.id), recipes.AutoRequeue())
	return e.Run(ctx, func(ctx context.Context, _ recipes.Lease) error {
		for ev, err := range s.tree.Events(ctx) {
			switch {
			case errors.Is(err, client.ErrLagged):
				continue
			case err != nil:
				return err
			case ev.Type == recipes.CacheInitialized, strings.HasPrefix(ev.Path(), base+"/sites/"):
				err = s.decideAll(ctx) // who is there matters to all of them
			case ev.Type == recipes.CacheCreated:
				err = s.decide(ctx, txOf(ev.Path()))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *site) decideAll(ctx context.Context) error {
	for path := range s.tree.All() {
		if path == txOf(path) {
			if err := s.decide(ctx, path); err != nil {
				return err
			}
		}
	}
	return nil
}

// decide makes the decision if it can be made. It is to commit if all have voted so; to abort if
// somebody has voted so, or has gone without a vote. What we know may be old: votes do not change, and
// to abort is right as long as nothing is decided. A site that is there and silent holds everything
// up; where that is not wanted, abort after some time, in the same way.
func (s *site) decide(ctx context.Context, tx string) error {
	t, ok := s.transaction(tx)
	if _, decided := s.tree.Get(tx + "/decision"); !ok || decided {
		return nil
	}
	decision, open := commit, false
	for _, id := range t.Sites {
		vote, voted := s.tree.Get(tx + "/vote-" + id)
		_, there := s.tree.Get(base + "/sites/" + id)
		switch {
		case voted && vote.Value == commit:
		case voted || !there:
			decision = abort
		default:
			open = true
		}
	}
	if open && decision == commit {
		return nil
	}
	return once(ctx, s.c, tx+"/decision", decision)
}

// transaction reads a transaction.
func (s *site) transaction(tx string) (t transaction, ok bool) {
	e, ok := s.tree.Get(tx)
	if !ok || tx == "" {
		return t, false
	}
	if err := json.Unmarshal([]byte(e.Value), &t); err != nil {
		fmt.Println(s.id, "cannot read", tx, err)
		return t, false
	}
	return t, true
}

// txOf returns the node of the transaction to which a path belongs, "" if there is none.
func txOf(path string) string {
	rest, ok := strings.CutPrefix(path, base+"/tx/")
	if !ok {
		return ""
	}
	id, _, _ := strings.Cut(rest, "/")
	return base + "/tx/" + id
}

// once makes a node that may be there already.
func once(ctx context.Context, c *client.Client, path, data string) error {
	_, _, err := c.Create(ctx, path, []byte(data), client.ModePersistent, nil, client.Idempotent())
	if errors.Is(err, client.ErrNodeExists) {
		return nil
	}
	return err
}
