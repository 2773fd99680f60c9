package recipes

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/client"
)

// A Barrier holds back all who wait, as long as its node is there. It is Curator's
// DistributedBarrier and kazoo's Barrier.
type Barrier struct {
	c    *client.Client
	path string
}

// NewBarrier returns the barrier at path.
func NewBarrier(c *client.Client, path string) *Barrier { return &Barrier{c: c, path: path} }

// Set puts the barrier up; it may be up already.
func (b *Barrier) Set(ctx context.Context) error {
	_, _, err := b.c.Create(ctx, b.path, nil, client.ModePersistent, nil, client.MakeParents(), client.Idempotent())
	if errors.Is(err, client.ErrNodeExists) {
		return nil
	}
	return err
}

// Remove takes the barrier away; it may be away already.
func (b *Barrier) Remove(ctx context.Context) error {
	return b.c.SureDelete(ctx, b.path, client.AnyVersion)
}

// Wait returns when the barrier is away. Lost connections and sessions do not matter.
func (b *Barrier) Wait(ctx context.Context) error {
	for {
		_, up, w, err := b.c.ExistsW(ctx, b.path)
		if err != nil {
			return err
		}
		if !up {
			forget(w)
			return nil
		}
		if err := wait(ctx, w, b.path); err != nil {
			return err
		}
	}
}

// wait waits for a watch that may outlive its session: then one has to look again.
func wait(ctx context.Context, w *client.Watch, path string) error {
	select {
	case ev := <-w.C():
		if ev.Err != nil && !errors.Is(ev.Err, client.ErrSessionExpired) {
			return ev.Err
		}
		return nil
	case <-ctx.Done():
		forget(w)
		return fmt.Errorf("wait for %s: %w", path, ended(ctx))
	}
}

// A DoubleBarrier lets a number of members begin together and end together. It is Curator's
// DistributedDoubleBarrier and, with WithFormat(Kazoo), kazoo's DoubleBarrier; both can meet at
// one path.
type DoubleBarrier struct {
	c    *client.Client
	path string
	n    int
	cfg  config
}

// NewDoubleBarrier returns the barrier at path for n members. WithData says who we are.
func NewDoubleBarrier(c *client.Client, path string, n int, opts ...Option) *DoubleBarrier {
	return &DoubleBarrier{c: c, path: path, n: n, cfg: newConfig(opts)}
}

const readyName = "ready"

func (b *DoubleBarrier) ready() string { return join(b.path, readyName) }

// A Passage is one member's way through a DoubleBarrier, between Enter and Leave.
type Passage struct {
	b       *DoubleBarrier
	session *client.Session
	name    string // of our node
}

// Enter waits until n members have entered. If our session is lost meanwhile, the error is
// ErrSessionLost: the others may have counted us.
func (b *DoubleBarrier) Enter(ctx context.Context) (*Passage, error) {
	s, err := b.c.AwaitSession(ctx)
	if err != nil {
		return nil, fmt.Errorf("barrier %s: %w", b.path, err)
	}
	p := &Passage{b: b, session: s, name: client.NewUUID()}
	if b.cfg.format == Kazoo {
		p.name = plainUUID()
	}
	if err := p.enter(ctx); err != nil {
		p.withdraw(ctx)
		return nil, p.failed(err)
	}
	return p, nil
}

// withdraw takes back what a failed Enter or Leave may have left: our node, and the ready node where
// nobody else is inside, or it would let those pass who come next. It does not wait when ctx has ended.
func (p *Passage) withdraw(ctx context.Context) {
	if ctx.Err() == nil && p.clear(ctx) == nil {
		return
	}
	_ = p.remove(over)
	go func() { // it ends with the session or the client
		for p.b.c.SessionID() == p.session.ID() {
			ctx, cancel := context.WithTimeout(context.Background(), p.session.Timeout())
			err := p.clear(ctx)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				return
			}
		}
	}()
}

func (p *Passage) clear(ctx context.Context) error {
	if err := p.remove(ctx); err != nil {
		return err
	}
	names, _, err := p.b.c.Children(ctx, p.b.path, client.Fresh())
	if errors.Is(err, client.ErrNoNode) {
		return nil
	}
	if err != nil || len(names) != 1 || names[0] != readyName {
		return err
	}
	return p.b.c.SureDelete(ctx, p.b.ready(), client.AnyVersion)
}

func (p *Passage) path() string { return join(p.b.path, p.name) }

func (p *Passage) remove(ctx context.Context) error {
	return p.b.c.SureDelete(ctx, p.path(), client.AnyVersion)
}

// failed says it in other words when the session is lost.
func (p *Passage) failed(err error) error {
	if p.session.Err() != nil {
		return fmt.Errorf("barrier %s: %w", p.b.path, ErrSessionLost)
	}
	return err
}

// enter watches the ready node first, so that it cannot come unnoticed.
func (p *Passage) enter(ctx context.Context) error {
	b := p.b
	_, is, w, err := b.c.ExistsW(ctx, b.ready(), client.In(p.session))
	if err != nil {
		return err
	}
	defer forget(w)
	_, _, err = b.c.ProtectedCreate(ctx, p.path(), b.cfg.data, client.ModeEphemeral, b.cfg.acl,
		client.Unique(), client.MakeParents(), client.In(p.session))
	if err != nil || is {
		return err
	}
	members, err := p.members(ctx)
	if err != nil {
		return err
	}
	if len(members) >= b.n {
		_, _, err := b.c.Create(ctx, b.ready(), nil, client.ModePersistent, b.cfg.acl, client.Idempotent(), client.In(p.session))
		if errors.Is(err, client.ErrNodeExists) {
			return nil
		}
		return err
	}
	select {
	case ev := <-w.C():
		return ev.Err
	case <-p.session.Done():
		return p.session.Err()
	case <-ctx.Done():
		return fmt.Errorf("barrier %s: %w", b.path, ended(ctx))
	}
}

// members lists who is inside, in the order of the names, which all members see.
func (p *Passage) members(ctx context.Context) ([]string, error) {
	names, _, err := p.b.c.Children(ctx, p.b.path, client.In(p.session))
	if err != nil {
		return nil, err
	}
	return sortedWithout(names, readyName), nil
}

// Leave waits until all members want to leave. After a lost session it is ErrSessionLost: our
// node is gone, and the others did not wait for us.
func (p *Passage) Leave(ctx context.Context) error {
	if err := p.leave(ctx); err != nil {
		p.withdraw(ctx)
		return p.failed(err)
	}
	return nil
}

// leave: the lowest stays till the end and waits for the highest, the others give up their nodes
// and wait for the lowest, so nobody watches all. The last one removes the ready node.
func (p *Passage) leave(ctx context.Context) error {
	b, gone := p.b, false
	for {
		if err := p.session.Err(); err != nil {
			return err
		}
		members, err := p.members(ctx)
		if errors.Is(err, client.ErrNoNode) {
			return nil
		}
		if err != nil {
			return err
		}
		mine := slices.Index(members, p.name)
		if mine < 0 && !gone {
			return errLeftWithoutUs
		}
		other := ""
		switch {
		case len(members) == 0:
			return b.c.SureDelete(ctx, b.ready(), client.AnyVersion)
		case len(members) == 1 && mine == 0:
			if err := p.remove(ctx); err != nil {
				return err
			}
			return b.c.SureDelete(ctx, b.ready(), client.AnyVersion)
		case mine == 0:
			other = members[len(members)-1]
		default:
			if !gone {
				if err := p.remove(ctx); err != nil {
					return err
				}
				gone = true
			}
			other = members[0]
		}
		if err := p.waitFor(ctx, join(b.path, other)); err != nil {
			return err
		}
	}
}

// errLeftWithoutUs is returned when our node was deleted by somebody else.
var errLeftWithoutUs = errors.New("our node in the double barrier is gone: somebody deleted it")

func (p *Passage) waitFor(ctx context.Context, path string) error {
	_, ok, w, err := p.b.c.ExistsW(ctx, path, client.In(p.session))
	if err != nil {
		return err
	}
	if !ok {
		forget(w)
		return nil
	}
	select {
	case ev := <-w.C():
		return ev.Err
	case <-p.session.Done():
		forget(w)
		return p.session.Err()
	case <-ctx.Done():
		forget(w)
		return fmt.Errorf("barrier %s: %w", p.b.path, ended(ctx))
	}
}
