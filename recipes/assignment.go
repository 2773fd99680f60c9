package recipes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/zkd-project/zkd/client"
)

// The form of a Partitioner in which a leader assigns the items.
//
//	<path>/party/<uuid>-<id>     the members
//	<path>/leader/               their election
//	<path>/assignment            who gets what, written by the leader, with its guard
//	<path>/locks/<item>/         as in the form without a leader
//
// A leader that is late cannot overwrite what its successor has written: the write carries the
// guard of its lease. A member that has not seen a new assignment yet keeps its locks, so the one
// that an item goes to waits for it.

// An assignment is the data of the node.
type assignment struct {
	Version int                 `json:"version"`
	Shares  map[string][]string `json:"shares"` // by the name of the member's node, sorted
}

const assignmentVersion = 1

func (p *Partitioner) assignmentPath() string { return join(p.path, "assignment") }

// followAssignment divides by what the leader has written, and is a candidate for leading.
func (p *Partitioner) followAssignment(ctx context.Context, g *Group) *following {
	f := &following{g: g, changed: make(chan struct{}, 1), done: make(chan struct{})}
	node := NewNodeCache(p.c, p.assignmentPath(), JSON[assignment]())
	ours := func() []string {
		e, _ := node.Get(p.assignmentPath())
		if e.Err != nil || e.Value.Version != assignmentVersion {
			return nil
		}
		return e.Value.Shares[base(g.node.Path())]
	}
	f.stays = func(items []string) bool { return slices.Equal(ours(), items) && ours() != nil }
	f.share = func(ctx context.Context) ([]string, error) {
		for {
			select { // what has come so far is in what we look at now
			case <-f.changed:
			default:
			}
			if items := ours(); items != nil {
				return items, nil
			}
			if err := f.awaitMove(ctx, nil, nil); !errors.Is(err, errAgain) {
				return nil, fmt.Errorf("partition %s: %w", p.path, err)
			}
		}
	}
	ctx, stop := context.WithCancelCause(ctx)
	led := make(chan struct{})
	go func() {
		defer close(led)
		e := NewElection(p.c, join(p.path, "leader"), ElectionID(p.id), AutoRequeue())
		stop(e.Run(ctx, func(ctx context.Context, l Lease) error { return p.lead(ctx, g, l) }))
	}()
	go func() {
		defer close(f.done)
		defer func() { stop(nil); <-led; node.Close() }()
		for _, err := range node.Events(ctx) {
			if err != nil && !errors.Is(err, client.ErrLagged) {
				f.err = err
				return
			}
			f.signal()
		}
	}()
	return f
}

// lead assigns as long as we lead.
func (p *Partitioner) lead(ctx context.Context, g *Group, l Lease) error {
	ctx, cancel := context.WithCancel(ctx)
	f := p.follow(ctx, g)
	defer func() { cancel(); <-f.done }()
	for {
		if err := f.settle(ctx, p.quiet); err != nil {
			return err
		}
		switch err := p.assign(ctx, g, l); {
		case ctx.Err() != nil:
			return ended(ctx)
		case errors.Is(err, client.ErrBadVersion), errors.Is(err, client.ErrNodeExists), errors.Is(err, client.ErrNoNode),
			errors.Is(err, client.ErrUncertain):
			continue // we look again, and if it is the guard that refuses, ctx is about to end
		case err != nil:
			return err
		}
		if err := f.awaitMove(ctx, nil, nil); !errors.Is(err, errAgain) {
			return err
		}
	}
}

// assign writes down who gets what, if that is new.
func (p *Partitioner) assign(ctx context.Context, g *Group, l Lease) error {
	members, err := p.members(ctx, g)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(members))
	for _, m := range members {
		names = append(names, base(m.Path))
	}
	old, codec := assignment{}, JSON[assignment]()
	data, stat, err := p.c.Get(ctx, p.assignmentPath(), client.Fresh())
	exists := err == nil
	if err != nil && !errors.Is(err, client.ErrNoNode) {
		return err
	}
	if exists {
		if old, err = codec.Decode(data); err != nil || old.Version != assignmentVersion {
			old = assignment{} // of another version: nobody follows it, and we write ours
		}
	}
	now := assignment{assignmentVersion, divide(p.items, names, old.Shares)}
	if old.Version == now.Version && maps.EqualFunc(old.Shares, now.Shares, slices.Equal[[]string]) {
		return nil
	}
	if data, err = codec.Encode(now); err != nil {
		return fmt.Errorf("partition %s: %w", p.path, err)
	}
	m := p.c.Multi().Add(l.Guard()...)
	if exists {
		m.Set(p.assignmentPath(), data, stat.Version)
	} else {
		m.Create(p.assignmentPath(), data, client.ModePersistent, nil)
	}
	_, err = m.Commit(ctx)
	return err
}

// divide gives each member its share: as equal as can be, and as much as possible of what it has
// had. items are sorted.
func divide(items, members []string, had map[string][]string) map[string][]string {
	out := make(map[string][]string, len(members))
	kept := map[string]bool{}
	for _, m := range members {
		out[m] = []string{}
		for _, item := range had[m] {
			if _, known := slices.BinarySearch(items, item); known && !kept[item] {
				kept[item] = true
				out[m] = append(out[m], item)
			}
		}
	}
	// Who has most already gets one of the larger shares, where there are two sizes.
	order := slices.Clone(members)
	slices.SortStableFunc(order, func(a, b string) int { return len(out[b]) - len(out[a]) })
	free := slices.DeleteFunc(slices.Clone(items), func(item string) bool { return kept[item] })
	size := make(map[string]int, len(order))
	for i, m := range order {
		size[m] = len(items) / len(order)
		if i < len(items)%len(order) {
			size[m]++
		}
		if have := out[m]; len(have) > size[m] {
			free = append(free, have[size[m]:]...)
			out[m] = have[:size[m]:size[m]]
		}
	}
	slices.Sort(free)
	for _, m := range order {
		n := size[m] - len(out[m])
		out[m] = append(out[m], free[:n]...)
		free = free[n:]
		slices.Sort(out[m])
	}
	return out
}
