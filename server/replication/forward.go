package replication

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/zkd-project/zkd/internal/failpoint"
	"github.com/zkd-project/zkd/server/replication/peer"
	"github.com/zkd-project/zkd/server/state"
)

// How commands get from a follower to the leader: over one stream that lives as long as both
// are what they are. The leader opens it with the index of the last entry that it had applied
// when it began to lead; the follower applies that far and then sends what is proposed here,
// batch by batch: 4 bytes number of commands, and the commands. Nothing is answered: the
// results come back with the log. A stream that breaks, or that the leader closes because it
// leads no more, ends the follower's generation of proposals (queue.go).

const (
	// openTimeout bounds the attempt to reach the leader.
	openTimeout = 2 * time.Second
	// followPause is between two attempts.
	followPause = 20 * time.Millisecond
)

// follow keeps the route to the leader while another server leads.
func (n *Node) follow(stop <-chan struct{}) {
	ctx, cancel := n.until(stop)
	defer cancel()
	for ctx.Err() == nil {
		l := n.leadership()
		if l.leader == "" || l.leader == n.stores.id.serverID() {
			select {
			case <-l.changed:
			case <-ctx.Done():
			}
			continue
		}
		if err := n.followLeader(ctx, l); err != nil {
			n.o.Logger.Debug("no way to the leader", "leader", l.leader, "reason", err)
		}
		select {
		case <-l.changed:
		case <-time.After(followPause):
		case <-ctx.Done():
		}
	}
}

// whileLeads returns a context that ends when somebody else leads than l says.
func whileLeads(ctx context.Context, l leadership) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-l.changed:
		case <-ctx.Done():
		}
		cancel()
	}()
	return ctx, cancel
}

// withStream opens a stream to another member for use, and closes it when use returns, or has
// it fail when ctx ends.
func (n *Node) withStream(ctx context.Context, to raft.ServerID, kind peer.Kind, use func(*peer.Stream) error) error {
	openCtx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	s, err := n.peers.Open(openCtx, to, kind)
	if err != nil {
		return err
	}
	defer s.Close()
	defer context.AfterFunc(ctx, func() { s.Close() })()
	return use(s)
}

// followLeader sends commands to a leader until it leads no more or the stream breaks.
func (n *Node) followLeader(ctx context.Context, l leadership) error {
	ctx, cancel := whileLeads(ctx, l)
	defer cancel()
	return n.withStream(ctx, l.leader, kindForward, func(s *peer.Stream) error { return n.forward(ctx, s) })
}

// forward is followLeader on an open stream.
func (n *Node) forward(ctx context.Context, s *peer.Stream) error {
	hello, err := s.Receive()
	if err == nil && len(hello) != 8 {
		err = errForward
	}
	if err != nil {
		return err
	}
	start := time.Now()
	if err := n.waitApplied(ctx, binary.BigEndian.Uint64(hello)); err != nil {
		return err
	}
	gen := n.queue.setRoute(routeLeader)
	if gen == anyGeneration {
		return ErrStale
	}
	defer n.queue.unroute(gen)
	n.o.Meters.Synced(time.Since(start), n.Votes())
	go func() { // ends with the stream
		n.sendTo(ctx, s, gen)
		s.Close()
	}()
	_, err = s.Receive() // the leader says nothing more: this is the end
	return err
}

var errForward = errors.New("a message about commands that cannot be decoded")

// sendTo sends what is proposed in a generation.
func (n *Node) sendTo(ctx context.Context, s *peer.Stream, gen uint64) {
	var message []byte
	for {
		c, ok := n.queue.take(gen)
		if !ok {
			if _, now := n.queue.current(); now != gen {
				return
			}
			select {
			case <-n.queue.sends:
			case <-ctx.Done():
				return
			}
			continue
		}
		message = binary.BigEndian.AppendUint32(message[:0], uint32(c.count))
		message = append(message, c.b...)
		if failpoint.Err(failpoint.Forward) != nil {
			return
		}
		if s.Send(message) != nil {
			return
		}
		n.queue.giveBack(c.b)
	}
}

// serveForward takes the commands of a follower while this server leads.
func (n *Node) serveForward(s *peer.Stream) {
	// A generation that ends, as after a hand-over that came to nothing, has dropped what waited in its
	// queue: the follower learns of it by the end of the stream, and proposes again.
	gen, end, err := n.whileLeading(s)
	if err != nil {
		return
	}
	defer end()
	if err := s.Send(binary.BigEndian.AppendUint64(nil, n.applied.Load())); err != nil {
		return
	}
	var check state.BatchDecoder
	for {
		message, err := s.Receive()
		if err != nil {
			return
		}
		if err := n.takeForwarded(&check, gen, message); err != nil {
			if !errors.Is(err, ErrStale) && !errors.Is(err, ErrNotLeader) {
				n.o.Logger.Warn("commands of another member are not taken", "member", s.Peer(), "reason", err)
			}
			return
		}
	}
}

// takeForwarded queues commands of a follower. They are decoded first: what cannot be must
// not get into the log, which every server has to read.
func (n *Node) takeForwarded(check *state.BatchDecoder, gen uint64, message []byte) error {
	if len(message) < 4 {
		return errForward
	}
	count := int(binary.BigEndian.Uint32(message))
	commands := message[4:]
	if err := checkCommands(check, count, commands); err != nil {
		return fmt.Errorf("%w: %w", errForward, err)
	}
	for {
		err := n.queue.push(gen, count, true, func(b []byte) []byte { return append(b, commands...) })
		if !errors.Is(err, ErrQueueFull) {
			return err
		}
		if err := n.queue.waitRoom(context.Background()); err != nil {
			return err
		}
	}
}

func checkCommands(check *state.BatchDecoder, count int, commands []byte) error {
	var h state.BatchHeader
	entry := append(state.AppendHeader(nil, &h, count), commands...)
	if err := check.Reset(entry, &h); err != nil {
		return err
	}
	var c state.Command
	for check.Next(&c) {
		switch c.Kind {
		case state.KindLevel, state.KindMembers:
			return errors.New("only the leader raises the level and changes the membership")
		}
	}
	return check.Err()
}

// OpenReport opens a stream to the leader for the Observer's reports. Leads says that this
// server leads: then there is none.
func (n *Node) OpenReport(ctx context.Context) (s *Stream, err error) {
	l := n.leadership()
	if n.peers == nil || l.leader == "" || l.leader == n.stores.id.serverID() {
		return nil, ErrNotLeader
	}
	return n.peers.Open(ctx, l.leader, kindReport)
}

// serveReport hands a stream of another member to the Observer while this server leads.
func (n *Node) serveReport(s *peer.Stream) {
	_, end, err := n.whileLeading(s)
	if err != nil {
		return
	}
	defer end()
	if n.o.Cluster.Report != nil {
		n.o.Cluster.Report(s)
	}
}

// whileLeading waits a moment for this server to lead, and returns the generation. The stream
// is closed when that is over, or with end.
func (n *Node) whileLeading(s *peer.Stream) (gen uint64, end context.CancelFunc, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	gen, err = n.queue.wait(ctx, "leadership", func(r route) bool { return r == routeLog })
	if err != nil {
		return 0, nil, err
	}
	over, end := context.WithCancel(context.Background())
	go func() { // ends with the stream, or with the leadership
		_, _ = n.queue.wait(over, "the end", func(route) bool { _, now := n.queue.current(); return now != gen })
		s.Close()
	}()
	return gen, end, nil
}

// Leads says whether this server takes commands as the leader.
func (n *Node) Leads() bool {
	r, _ := n.queue.current()
	return r == routeLog
}

// Leader is the id of the server that leads, as far as this one knows; "" if none does.
func (n *Node) Leader() string {
	if !n.up.Load() {
		return ""
	}
	_, id := n.raft().LeaderWithID()
	return string(id)
}
