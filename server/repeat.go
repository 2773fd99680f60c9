package server

import (
	"context"
	"errors"
	"sync"

	"github.com/zkd-project/zkd/server/replication"
	"github.com/zkd-project/zkd/server/state"
)

// How a client's writes outlive a leader.
//
// A command that was proposed while leadership changed hands may be in the log or lost. So a
// connection of a cluster's server keeps every command until it is applied, and when the node
// has found a way to the log again (Routed), proposes all of them once more, in order. The
// state machine applies a write only if its number is the next one of the connection, so what
// was in the log already is skipped, and nothing can overtake what was lost.
//
// Each connection proposes in the generation to which it has been brought (conn.gen); the
// node refuses what comes from an earlier one. So whatever a reader proposes beside the
// repetition is either part of it, or comes after it.

// Routed implements replication.Observer.
func (s *Server) Routed(gen uint64) {
	s.mu.Lock()
	if gen <= s.gen { // a later one has overtaken it
		s.mu.Unlock()
		return
	}
	s.gen = gen
	if n := s.currentNode(); n != nil && n.Leads() {
		s.leadsSinceNs.Store(s.nowNs())
	}
	conns := make([]*conn, 0, len(s.byNumber))
	for _, c := range s.byNumber {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	for _, c := range conns {
		c.repeat(gen)
	}
	s.barriers.repeat(s, gen)
}

// repeat brings the connection to a generation.
func (c *conn) repeat(gen uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if gen < c.gen || c.dead {
		return
	}
	c.gen = gen
	if c.handshake != nil {
		_ = c.s.node.Repeat(gen, c.handshake) // if it fails, a later generation has it again
	}
	for i := c.pending.head; i < len(c.pending.q); i++ {
		p := &c.pending.q[i]
		if p.kind.logged() && !p.done {
			_ = c.s.node.Repeat(gen, p.encoded)
		}
	}
}

// repeatFrom proposes again after the machine has refused a write because one before it is
// missing: once for each that is missing, for all that come behind it are refused, too.
func (c *conn) repeatFrom(cmd *state.Command) {
	c.mu.Lock()
	missing := c.pending.firstWrite()
	again := c.epoch == cmd.Epoch && missing != 0 && missing != c.repeated
	if again {
		c.repeated = missing
	}
	gen := c.gen
	c.mu.Unlock()
	if again {
		c.repeat(gen)
	}
}

// encode keeps a command for repetition, where there can be one, and names the generation to
// propose it in. Called with mu held.
func (c *conn) encode(cmd *state.Command) (gen uint64, encoded []byte) {
	if !c.s.clustered {
		return 0, nil
	}
	const around = 128 // ids and numbers
	return c.gen, state.AppendCommand(make([]byte, 0, len(cmd.Body)+around), cmd)
}

// propose hands a command of this connection to the log. If that takes time, what the
// client has coming is sent meanwhile. A command that has no way to the log now, and was
// encoded, is repeated when there is one.
func (c *conn) propose(cmd *state.Command, gen uint64, encoded []byte) error {
	for first := true; ; first = false {
		var err error
		if encoded == nil {
			err = c.s.node.Propose(cmd)
		} else {
			err = c.s.node.ProposeIn(gen, encoded)
		}
		switch {
		case errors.Is(err, replication.ErrQueueFull):
		case encoded != nil && (errors.Is(err, replication.ErrStale) || errors.Is(err, replication.ErrNotLeader)):
			return nil
		default:
			return err
		}
		if first {
			c.flush(c.raw == nil)
		}
		if err := c.s.node.WaitQueue(c.s.lifetime); err != nil {
			return err
		}
	}
}

// barriers are marks in the log that this server waits for itself: when one comes back, all
// that was acknowledged anywhere before it was proposed is applied here.
type barriers struct {
	mu      sync.Mutex
	tag     uint64
	waiting map[uint64]*barrier // guarded by mu
}

type barrier struct {
	encoded []byte
	done    chan struct{}
}

// barrier returns when a mark that it proposes is applied here.
func (s *Server) barrier(ctx context.Context) error {
	b := &barrier{done: make(chan struct{})}
	s.mu.Lock()
	gen := s.gen
	s.mu.Unlock()
	s.barriers.mu.Lock()
	s.barriers.tag++
	tag := s.barriers.tag
	b.encoded = state.AppendCommand(nil, &state.Command{Kind: state.KindSync, Session: s.barrierSession(), Req: tag})
	if s.barriers.waiting == nil {
		s.barriers.waiting = map[uint64]*barrier{}
	}
	s.barriers.waiting[tag] = b
	s.barriers.mu.Unlock()
	defer func() {
		s.barriers.mu.Lock()
		defer s.barriers.mu.Unlock()
		delete(s.barriers.waiting, tag)
	}()
	err := s.node.ProposeIn(gen, b.encoded)
	if err != nil && !errors.Is(err, replication.ErrStale) && !errors.Is(err, replication.ErrNotLeader) {
		return err
	}
	select {
	case <-b.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.lifetime.Done():
		return errNotServing
	}
}

// barrierSession stands in for a session in marks of this server itself: no connection has
// its epoch, 0.
func (s *Server) barrierSession() int64 { return int64(s.boot) }

// passed is called when a mark is applied.
func (bs *barriers) passed(tag uint64) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if b := bs.waiting[tag]; b != nil {
		delete(bs.waiting, tag)
		close(b.done)
	}
}

func (bs *barriers) repeat(s *Server, gen uint64) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	for _, b := range bs.waiting {
		_ = s.node.Repeat(gen, b.encoded)
	}
}
