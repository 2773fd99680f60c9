package cluster

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/zkd-project/zkd/wire"
)

// The workload members: one client takes a voter out of the cluster and brings it back, with its
// disk or with an empty one, while everybody else goes on. What it breaks the other workloads show;
// the members themselves must all be back at the end.

// What the cluster can bear once at a time: a voter that has lost its disk, or one that is taken
// out. See World.risk.
const (
	noRisk int32 = iota
	diskLost
	memberOut
)

func membersScript(ctx context.Context, c *Client) {
	for c.w.canLose() && ctx.Err() == nil {
		pause(ctx, time.Duration(c.Rand.Intn(20_000))*time.Millisecond)
		n := c.w.nodes[c.Rand.Intn(len(c.w.nodes))]
		if ctx.Err() != nil || n.observer || !n.serves() || !c.w.risk.CompareAndSwap(noRisk, memberOut) {
			continue
		}
		c.replace(ctx, n)
	}
}

// replace takes a server out and brings it back. When ctx ends, membersFinish does the rest.
func (c *Client) replace(ctx context.Context, n *node) {
	n.out.Store(true)
	c.w.History.add(Entry{Kind: Fault, Note: fmt.Sprintf("remove: %d", n.number)})
	c.w.stats.count("remove")
	if !c.reconfig(ctx, Op{Code: wire.OpReconfig, Path: "leaving", Data: fmt.Sprint(n.number)}) {
		return
	}
	how, empty := killed, c.Rand.OneIn(2)
	if c.Rand.OneIn(2) {
		how = powerCut
	}
	pause(ctx, time.Duration(c.Rand.Intn(3000))*time.Millisecond)
	n.stop(how, c.Rand.Uint64())
	n.awaitEnd()
	if empty {
		n.lostData.Store(true)
	}
	_ = c.back(ctx, n)
}

// back makes a server a member again, and waits until it serves.
func (c *Client) back(ctx context.Context, n *node) error {
	if n.server() == nil {
		if err := n.start(); err != nil {
			return err
		}
	}
	line := fmt.Sprintf("server.%d=%s:participant;%s", n.number, n.line(), clientAddress(n.number-1))
	if !c.reconfig(ctx, Op{Code: wire.OpReconfig, Path: "joining", Data: line}) {
		return fmt.Errorf("server %d is not taken in again: %w", n.number, ctx.Err())
	}
	for !n.serves() {
		if ctx.Err() != nil {
			return fmt.Errorf("server %d is a member again, and does not serve", n.number)
		}
		pause(ctx, 50*time.Millisecond)
	}
	c.w.History.add(Entry{Kind: Fault, Note: fmt.Sprintf("member again: %d", n.number)})
	n.out.Store(false)
	c.w.risk.Store(noRisk)
	return nil
}

// reconfig asks until it is done; false when ctx ends before.
func (c *Client) reconfig(ctx context.Context, op Op) bool {
	for ctx.Err() == nil {
		l := c.Link(ctx)
		if l == nil {
			return false
		}
		if r, ok := l.Do(op); ok && r.Err == wire.OK {
			return true
		}
		pause(ctx, 200*time.Millisecond)
	}
	return false
}

// membersFinish brings those back that are still out.
func membersFinish(ctx context.Context, c *Client) error {
	for _, n := range c.w.nodes {
		if n.out.Load() {
			if err := c.back(ctx, n); err != nil {
				return err
			}
		}
	}
	return anyFinish(ctx, c)
}

// encodeReconfig makes the body of a reconfig from an Op with Path "joining" or "leaving": three
// lists, of which two are null (an empty one would mean something), and any version.
func encodeReconfig(op Op) []byte {
	null := []byte{0xff, 0xff, 0xff, 0xff}
	list := append(binary.BigEndian.AppendUint32(nil, uint32(len(op.Data))), op.Data...)
	var b []byte
	if op.Path == "joining" {
		b = slices.Concat(list, null, null)
	} else {
		b = slices.Concat(null, list, null)
	}
	return binary.BigEndian.AppendUint64(b, ^uint64(0))
}
