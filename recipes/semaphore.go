package recipes

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/client"
)

// A Limit is how many permits a semaphore has. It may change. One that has a method Ready, as a
// SharedCount has, is asked only when that has returned nil.
type Limit interface {
	// Limit returns the present number, and a channel that is closed when it has changed; nil if
	// it never does.
	Limit() (permits int, changed <-chan struct{})
}

type fixed int

func (f fixed) Limit() (int, <-chan struct{}) { return int(f), nil }

// A Semaphore gives out a number of permits. Whoever wants some queues up in a fair mutex; the
// one in front creates its lease nodes and waits until there are no more than the limit, so one
// waiter alone watches.
type Semaphore struct {
	c     *client.Client
	path  string
	limit Limit
	cfg   config
	inner *line
	dir   string // of the lease nodes
}

// NewSemaphore returns the semaphore at path with that many permits. All who use it must agree
// on the number.
//
// It shares its permits with Curator's InterProcessSemaphoreV2 and, with the option
// WithFormat(Kazoo), with kazoo's Semaphore. Unfair is ignored.
func NewSemaphore(c *client.Client, path string, permits int, opts ...Option) *Semaphore {
	return NewSemaphoreLimit(c, path, fixed(permits), opts...)
}

// NewSemaphoreLimit is NewSemaphore with a number that may change, for example a SharedCount.
// Permits that are held when it falls stay with their holders.
func NewSemaphoreLimit(c *client.Client, path string, limit Limit, opts ...Option) *Semaphore {
	s := &Semaphore{c: c, path: path, limit: limit, cfg: newConfig(opts), dir: join(path, "leases")}
	locks := join(path, "locks")
	if s.cfg.format == Kazoo {
		s.dir, locks = path, path+"-__lock__"
	}
	inner := s.cfg // of the mutex, which is held for a moment only
	inner.maxHold, inner.strict, inner.onLost = 0, false, nil
	s.inner = &line{c: c, dir: locks, names: lockNames(s.cfg.format), cfg: &inner}
	return s
}

// Acquire waits until it has n permits, all or none.
func (s *Semaphore) Acquire(ctx context.Context, n int) (Lease, error) {
	return s.acquire(ctx, n, false)
}

// TryAcquire is Acquire without waiting. It returns ErrLocked if there are not enough permits, or
// somebody else stands before us.
func (s *Semaphore) TryAcquire(ctx context.Context, n int) (Lease, error) {
	return s.acquire(ctx, n, true)
}

func (s *Semaphore) acquire(ctx context.Context, n int, try bool) (Lease, error) {
	if f, ok := s.limit.(fixed); n < 1 || ok && n > int(f) {
		return nil, fmt.Errorf("semaphore %s: %d permits can never be had, ask for 1 or more and no more than there are", s.path, n)
	}
	if r, ok := s.limit.(interface{ Ready(context.Context) error }); ok {
		if err := r.Ready(ctx); err != nil { // its seed may be more than the limit is
			return nil, fmt.Errorf("semaphore %s: %w", s.path, err)
		}
	}
	for {
		l, err := s.acquireOnce(ctx, n, try)
		switch {
		case err == nil:
			return l, nil
		case !errors.Is(err, errAgain):
			return nil, err
		case ctx.Err() != nil:
			return nil, fmt.Errorf("semaphore %s: %w", s.path, ended(ctx))
		}
	}
}

func (s *Semaphore) acquireOnce(ctx context.Context, n int, try bool) (Lease, error) {
	turn, err := s.inner.take(ctx, want{kind: exclusive, data: s.cfg.data, try: try})
	if err != nil {
		return nil, err
	}
	defer turn.Release(ctx)
	if err := s.agree(ctx, turn.session); err != nil {
		return nil, err
	}
	var nodes []*permit
	giveBack := func() {
		for _, p := range nodes {
			_ = p.remove(ctx)
		}
	}
	for range n {
		p, err := s.create(ctx, turn.session)
		if err != nil {
			giveBack()
			return nil, err
		}
		nodes = append(nodes, p)
	}
	if err := s.awaitRoom(ctx, turn, try); err != nil {
		giveBack()
		return nil, err
	}
	var all []member
	for i, p := range nodes {
		h, err := p.hold(ctx)
		if err != nil {
			_ = releaseAll(ctx, all)
			nodes = nodes[i:]
			giveBack()
			return nil, err
		}
		all = append(all, h)
	}
	return bundled(all), nil
}

// agree writes the limit where kazoo has it, or compares it with what is written there.
func (s *Semaphore) agree(ctx context.Context, session *client.Session) error {
	f, ok := s.limit.(fixed)
	if s.cfg.format != Kazoo || !ok {
		return nil
	}
	text := strconv.Itoa(int(f))
	for {
		data, stat, err := s.c.Get(ctx, s.path, client.In(session))
		switch {
		case errors.Is(err, client.ErrNoNode):
			_, _, err := s.c.Create(ctx, s.path, []byte(text), client.ModePersistent, s.cfg.acl, client.MakeParents(), client.Idempotent())
			if err != nil && !errors.Is(err, client.ErrNodeExists) {
				return s.failed(session, err)
			}
			continue
		case err != nil:
			return s.failed(session, err)
		case string(data) == text:
			return nil
		case len(data) > 0:
			return fmt.Errorf("semaphore %s: others have %q permits and we %s: agree on one number", s.path, data, text)
		}
		_, err = s.c.Set(ctx, s.path, []byte(text), stat.Version, client.Idempotent())
		if err != nil && !errors.Is(err, client.ErrBadVersion) && !errors.Is(err, client.ErrNoNode) {
			return s.failed(session, err)
		}
	}
}

func (s *Semaphore) failed(session *client.Session, err error) error {
	if session.Err() != nil {
		return errAgain
	}
	return err
}

// create makes one lease node.
func (s *Semaphore) create(ctx context.Context, session *client.Session) (*permit, error) {
	name, mode := "_c_"+client.NewUUID()+"-lease-", client.ModeEphemeralSequential
	if s.cfg.format == Kazoo {
		name, mode = strings.ReplaceAll(client.NewUUID(), "-", ""), client.ModeEphemeral
	}
	path, _, err := s.c.ProtectedCreate(ctx, join(s.dir, name), s.cfg.data, mode, s.cfg.acl,
		client.Unique(), client.MakeParents(), client.In(session))
	if err != nil {
		return nil, s.failed(session, err)
	}
	return &permit{s: s, session: session, path: path}, nil
}

// awaitRoom waits until there are no more lease nodes, ours among them, than the limit.
func (s *Semaphore) awaitRoom(ctx context.Context, turn *hold, try bool) error {
	for {
		limit, changed := s.limit.Limit()
		names, _, w, err := s.c.ChildrenW(ctx, s.dir, client.In(turn.session))
		if err != nil {
			return s.failed(turn.session, err)
		}
		if len(names) <= limit {
			forget(w)
			return nil
		}
		if try {
			forget(w)
			return fmt.Errorf("semaphore %s: %w", s.path, ErrLocked)
		}
		select {
		case ev := <-w.C():
			if ev.Err != nil {
				return s.failed(turn.session, ev.Err)
			}
		case <-changed:
			forget(w)
		case <-turn.Done():
			forget(w)
			return errAgain
		case <-ctx.Done():
			forget(w)
			return fmt.Errorf("semaphore %s: %w", s.path, ended(ctx))
		}
	}
}

// Participants lists those who hold a permit, one entry for each permit.
func (s *Semaphore) Participants(ctx context.Context) ([]Participant, error) {
	names, _, err := s.c.Children(ctx, s.dir, client.Fresh())
	if errors.Is(err, client.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []Participant
	for _, name := range names {
		path := join(s.dir, name)
		data, stat, err := s.c.Get(ctx, path)
		if errors.Is(err, client.ErrNoNode) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, Participant{Node: name, Path: path, Data: data, Session: stat.EphemeralOwner, Token: stat.Czxid})
	}
	return out, nil
}

// Break takes a permit away from its holder; see Mutex.Break.
func (s *Semaphore) Break(ctx context.Context, node string) error {
	return s.c.SureDelete(ctx, join(s.dir, node), client.AnyVersion)
}

// A permit is one lease node of ours.
type permit struct {
	s       *Semaphore
	session *client.Session
	path    string
}

func (p *permit) remove(ctx context.Context) error {
	return p.s.c.SureDelete(ctx, p.path, client.AnyVersion)
}

func (p *permit) hold(ctx context.Context) (*hold, error) {
	data, stat, w, err := confirm(ctx, p.s.c, p.session, p.path)
	if err != nil {
		return nil, err
	}
	h := &hold{
		c: p.s.c, cfg: &p.s.cfg, session: p.session, of: heldKey{p.s.c, p.path}, kind: shared,
		path: p.path, stat: stat, remove: p.remove,
	}
	return h.begin(data, w), nil
}
