package replication

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/zkd-project/zkd/server/replication/peer"
	"github.com/zkd-project/zkd/server/state"
)

// The feature level is raised when somebody first needs what it brings, and not before: until
// then the cluster can go back to the version that it came from. The leader asks every member of
// raft's configuration which level it knows, and raises the level of the machine by a command
// when all know it. A member that does not answer may be older, and a command that it cannot
// read would stop it.
//
//	any server → leader   byte 1, level (4 bytes): raise it
//	leader → member       byte 0, level (4 bytes, not looked at): which one do you know?
//	answer                byte 0, level (4 bytes); or byte 1 and why not
const (
	levelAsk   = 0
	levelRaise = 1

	levelDone   = 0
	levelFailed = 1

	maxLevelText = 512
)

// ErrLevel is returned when not every member is there and new enough for what was asked for.
var ErrLevel = errors.New("not all servers know what this needs")

var errLevelMessage = errors.New("a message about the feature level that cannot be decoded")

// RequireLevel returns when the feature level of the cluster is at least level, which it raises
// if all members know it.
func (n *Node) RequireLevel(ctx context.Context, level uint32) error {
	if n.level() >= level {
		return nil
	}
	if n.peers == nil {
		return n.raiseLevel(ctx, level)
	}
	l := n.leadership()
	switch l.leader {
	case "":
		return ErrNotLeader
	case n.stores.id.serverID():
		return n.raiseWhenAllKnow(ctx, level)
	}
	if _, err := n.levelCall(ctx, l.leader, levelRaise, level); err != nil {
		return fmt.Errorf("the leader, server %d: %w", peer.Number(l.leader), err)
	}
	return n.waitLevel(ctx, level)
}

func (n *Node) level() uint32 {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.machine.Level()
}

// raiseWhenAllKnow is RequireLevel where this server leads.
func (n *Node) raiseWhenAllKnow(ctx context.Context, level uint32) error {
	if level > state.CurrentLevel {
		return fmt.Errorf("%w: server %d knows level %d, asked for is %d", ErrLevel, n.o.MyID, state.CurrentLevel, level)
	}
	for _, s := range n.raft().GetConfiguration().Configuration().Servers {
		if s.ID == n.stores.id.serverID() {
			continue
		}
		known, err := n.levelCall(ctx, s.ID, levelAsk, level)
		if err != nil {
			return fmt.Errorf("%w: server %d does not say which version it is; it must run, and this version: %w", ErrLevel, peer.Number(s.ID), err)
		}
		if known < level {
			return fmt.Errorf("%w: server %d runs an older version", ErrLevel, peer.Number(s.ID))
		}
	}
	return n.raiseLevel(ctx, level)
}

// raiseLevel proposes the command and waits for it.
func (n *Node) raiseLevel(ctx context.Context, level uint32) error {
	if err := n.Propose(&state.Command{Kind: state.KindLevel, Level: level}); err != nil {
		return err
	}
	if err := n.waitLevel(ctx, level); err != nil {
		return err
	}
	n.o.Logger.Info("the feature level was raised: older versions of zkd can no longer be members", "level", level)
	return nil
}

func (n *Node) waitLevel(ctx context.Context, level uint32) error {
	for {
		at := n.applied.Load()
		if n.level() >= level {
			return nil
		}
		if err := n.waitApplied(ctx, at+1); err != nil {
			return err
		}
	}
}

// levelCall asks another member something, and returns the level in its answer.
func (n *Node) levelCall(ctx context.Context, id raft.ServerID, what byte, level uint32) (known uint32, err error) {
	err = n.withStream(ctx, id, kindLevel, func(s *peer.Stream) error {
		if err := s.Send(appendLevel(what, level)); err != nil {
			return err
		}
		answer, err := s.Receive()
		if err != nil {
			return err
		}
		known, err = decodeLevelAnswer(answer)
		return err
	})
	return known, err
}

func appendLevel(what byte, level uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{what}, level)
}

func decodeLevelAnswer(b []byte) (uint32, error) {
	switch {
	case len(b) == 5 && b[0] == levelDone:
		return binary.BigEndian.Uint32(b[1:]), nil
	case len(b) > 1 && len(b) <= 1+maxLevelText && b[0] == levelFailed:
		return 0, fmt.Errorf("%w: %q", ErrLevel, b[1:])
	}
	return 0, errLevelMessage
}

// serveLevel answers another member.
func (n *Node) serveLevel(s *peer.Stream) {
	message, err := s.Receive()
	if err != nil || len(message) != 5 || message[0] > levelRaise {
		return
	}
	if message[0] == levelAsk {
		_ = s.Send(appendLevel(levelDone, state.CurrentLevel)) // who asked asks again
		return
	}
	_, end, err := n.whileLeading(s)
	if err != nil {
		return
	}
	defer end()
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	level := binary.BigEndian.Uint32(message[1:])
	if err := n.raiseWhenAllKnow(ctx, level); err != nil {
		text := err.Error()
		_ = s.Send(append([]byte{levelFailed}, text[:min(len(text), maxLevelText)]...))
		return
	}
	_ = s.Send(appendLevel(levelDone, level))
}
