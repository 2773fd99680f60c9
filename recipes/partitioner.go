package recipes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/client"
)

// PartitionState says where a Partitioner stands.
type PartitionState int

// The states of a Partitioner.
const (
	// PartitionAllocating: the members are about to divide the items; we have none.
	PartitionAllocating PartitionState = iota

	// PartitionAcquired: the items are ours, until the next state.
	PartitionAcquired

	// PartitionRelease: the members have changed. What works on the items must stop now: when the
	// loop goes on, they are given back.
	PartitionRelease

	// PartitionFailed: the items were lost, with the session for example. Others may have them
	// already.
	PartitionFailed
)

// String returns the name of the state.
func (s PartitionState) String() string {
	names := [...]string{"Allocating", "Acquired", "Release", "Failed"}
	if s < 0 || int(s) >= len(names) {
		return fmt.Sprintf("PartitionState(%d)", int(s))
	}
	return names[s]
}

// A Partition is what a Partitioner has at some time.
type Partition struct {
	State PartitionState
	Items []string // Acquired and Release: ours
	Lease Lease    // Acquired and Release: on all of them; nil if there is none for us
}

// A Partitioner divides a set of items among its members: every item belongs to exactly one of
// them, as long as there are any. It is kazoo's SetPartitioner, and shares its path.
//
// When members come or go, all give back what they have, wait until nothing has changed for a
// while, and take the items that fall to them by rank: of the sorted items the i-th, the i+n-th
// and so on for the i-th of n members. Each item has a lock besides, so that nobody begins before
// the one before has stopped.
type Partitioner struct {
	c        *client.Client
	path     string
	id       string
	items    []string
	quiet    time.Duration
	byLeader bool
}

// A PartitionOption changes a Partitioner. All members use the same ones.
type PartitionOption func(*Partitioner)

// AssignedByLeader has one member, which the others elect, write down who gets what, in the node
// "assignment" below the path. Items stay with who has them as far as the shares allow, and only
// those whose share changes have to stop. kazoo does not know this form. The node stays when all
// members have gone.
func AssignedByLeader() PartitionOption { return func(p *Partitioner) { p.byLeader = true } }

// NewPartitioner makes a member with that id, which must be unique. All members must have the
// same items, whose names can stand in a path. quiet is how long the members must not have changed
// before they divide; 30 s in kazoo, and a second is enough where members start together.
func NewPartitioner(c *client.Client, path, id string, items []string, quiet time.Duration, opts ...PartitionOption) *Partitioner {
	items = slices.Clone(items)
	slices.Sort(items)
	p := &Partitioner{c: c, path: path, id: id, items: slices.Compact(items), quiet: quiet}
	for _, o := range opts {
		o(p)
	}
	return p
}

// Run is a member as long as the loop runs, and yields every state. The body may work on the items
// while it looks for the end of the Lease, but the next state is only found when it returns:
//
//	for p, err := range partitioner.Run(ctx) {
//		switch p.State {
//		case recipes.PartitionAcquired:
//			start(p.Lease, p.Items)
//		case recipes.PartitionRelease, recipes.PartitionFailed:
//			stopAndWait()
//		}
//	}
//
// The loop ends with an error when ctx ends or something cannot be done; the items are given back
// before that is yielded, and so they are when the loop is left.
func (p *Partitioner) Run(ctx context.Context) iter.Seq2[Partition, error] {
	return func(yield func(Partition, error) bool) {
		g := JoinGroup(p.c, join(p.path, "party"), p.id, nil, GroupShallowParty)
		defer func(ctx context.Context) {
			undo, done := parting(ctx)
			defer done()
			_ = g.Leave(undo)
		}(ctx)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if err := g.Await(ctx); err != nil {
			yield(Partition{State: PartitionFailed}, err)
			return
		}
		follow := p.follow
		if p.byLeader {
			follow = p.followAssignment
		}
		f := follow(ctx, g)
		defer func() { cancel(); <-f.done }()
		for {
			if !yield(Partition{State: PartitionAllocating}, nil) {
				return
			}
			again, err := p.round(ctx, f, yield)
			if err != nil {
				yield(Partition{State: PartitionFailed}, err)
			}
			if err != nil || !again {
				return
			}
		}
	}
}

// A following is the list of members, or what one of them has written about it, as a channel.
type following struct {
	g       *Group
	changed chan struct{} // capacity 1: the members are others than before
	done    chan struct{}
	err     error // set before done is closed

	// share waits for what falls to us, and is not nil; nil: look again.
	share func(ctx context.Context) ([]string, error)
	// stays says that these are our items still, although something has changed.
	stays func(items []string) bool
}

// follow divides by the rank of the members.
func (p *Partitioner) follow(ctx context.Context, g *Group) *following {
	f := &following{g: g, changed: make(chan struct{}, 1), done: make(chan struct{})}
	f.stays = func([]string) bool { return false }
	f.share = func(ctx context.Context) ([]string, error) {
		if err := f.settle(ctx, p.quiet); err != nil {
			return nil, fmt.Errorf("partition %s: %w", p.path, err)
		}
		return p.share(ctx, g)
	}
	go func() {
		defer close(f.done)
		var last []string
		for _, err := range g.Changes(ctx) {
			if err != nil {
				f.err = err
				return
			}
			if now := f.paths(); !slices.Equal(now, last) {
				last = now
				f.signal()
			}
		}
	}()
	return f
}

func (f *following) signal() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// errItemsLost ends the wait of one whose lease has ended.
var errItemsLost = errors.New("the items were lost")

// awaitMove returns when the items are not ours any more, or ctx ends, or nothing can be followed,
// with the reason: errAgain is the first of these, errItemsLost says that lost was closed.
func (f *following) awaitMove(ctx context.Context, items []string, lost <-chan struct{}) error {
	for {
		select {
		case <-lost:
			return errItemsLost
		case <-f.changed:
			if !f.stays(items) {
				return errAgain
			}
		case <-f.done:
			return f.err
		case <-ctx.Done():
			return ended(ctx)
		}
	}
}

func (f *following) paths() []string {
	var out []string
	for _, m := range f.g.Members() {
		out = append(out, m.Path)
	}
	return out
}

// settle waits until the members have not changed for a while.
func (f *following) settle(ctx context.Context, quiet time.Duration) error {
	t := time.NewTimer(quiet)
	defer t.Stop()
	for {
		select {
		case <-f.changed:
			t.Reset(quiet)
		case <-t.C:
			return nil
		case <-f.done:
			return f.err
		case <-ctx.Done():
			return ended(ctx)
		}
	}
}

// round divides once; again is false when the loop has been left.
func (p *Partitioner) round(ctx context.Context, f *following, yield func(Partition, error) bool) (again bool, err error) {
	items, err := f.share(ctx)
	if err != nil || items == nil {
		return err == nil, err
	}
	lease, err := p.acquire(ctx, f, items)
	switch {
	case errors.Is(err, errAgain):
		return true, nil
	case err != nil:
		return false, err
	}
	have := Partition{State: PartitionAcquired, Items: items, Lease: lease}
	var lost <-chan struct{}
	if lease != nil {
		lost = lease.Done()
		defer giveBack(ctx, lease)
	}
	if !yield(have, nil) {
		return false, nil
	}
	err = f.awaitMove(ctx, items, lost)
	if errors.Is(err, errItemsLost) {
		have.State = PartitionFailed
		return yield(have, nil), nil
	}
	have.State = PartitionRelease
	if !yield(have, nil) {
		return false, nil
	}
	if errors.Is(err, errAgain) {
		return true, nil
	}
	return false, fmt.Errorf("partition %s: %w", p.path, err)
}

// giveBack releases the items, although ctx may have ended.
func giveBack(ctx context.Context, lease Lease) {
	undo, done := parting(ctx)
	defer done()
	_ = lease.Release(undo)
}

// members asks the server who is there, by rank, and not the copy of the list, which may lag behind.
func (p *Partitioner) members(ctx context.Context, g *Group) ([]Member, error) {
	dir := join(p.path, "party")
	names, _, err := p.c.Children(ctx, dir, client.Fresh())
	if err != nil && !errors.Is(err, client.ErrNoNode) {
		return nil, err
	}
	var members []Member
	for _, name := range names {
		if m, ok := g.member(join(dir, name), Entry[[]byte]{}); ok {
			members = append(members, m)
		}
	}
	// kazoo ranks by the id and not by the node's name, which begins with a UUID.
	slices.SortFunc(members, func(a, b Member) int {
		return cmp.Or(strings.Compare(a.ID, b.ID), strings.Compare(a.Path, b.Path))
	})
	return members, nil
}

// share returns the items that fall to us, not nil; nil if we are no member just now.
func (p *Partitioner) share(ctx context.Context, g *Group) ([]string, error) {
	members, err := p.members(ctx, g)
	if err != nil {
		return nil, err
	}
	rank := slices.IndexFunc(members, func(m Member) bool { return m.Path == g.node.Path() })
	if rank < 0 {
		return nil, pause(ctx, 10*time.Millisecond) // our node is being made again
	}
	items := []string{}
	for i := rank; i < len(p.items); i += len(members) {
		items = append(items, p.items[i])
	}
	return items, nil
}

// acquire takes the locks of the items; errAgain if the items are not ours any more.
func (p *Partitioner) acquire(ctx context.Context, f *following, items []string) (Lease, error) {
	if len(items) == 0 {
		return nil, nil
	}
	locking, cancel := context.WithCancel(ctx)
	defer cancel()
	moved := make(chan error, 1)
	go func() {
		err := f.awaitMove(locking, items, nil)
		cancel()
		moved <- err
	}()
	var locks []Locker
	for _, item := range items {
		locks = append(locks, NewMutex(p.c, join(join(p.path, "locks"), item), WithFormat(Kazoo), WithData([]byte(p.id))))
	}
	lease, err := NewMultiLock(locks...).Lock(locking)
	cancel()
	if why := <-moved; !errors.Is(why, context.Canceled) && !errors.Is(why, context.DeadlineExceeded) {
		if lease != nil {
			giveBack(ctx, lease)
		}
		return nil, why
	}
	return lease, err
}
