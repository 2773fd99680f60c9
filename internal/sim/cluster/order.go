package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zkd-project/zkd/wire"
)

// The workload order: each client has a node of its own, sends it bursts of numbers without
// waiting, and moves between servers. So it can tell whether each write was carried out once and
// in order. Now and then it takes a sequence number below a parent that all share.

const (
	orderRoot    = "/order"
	sequenceRoot = "/sequence"
)

func orderPath(client int) string { return orderRoot + "/" + strconv.Itoa(client) }

func orderScript(ctx context.Context, c *Client) {
	path := orderPath(c.Number)
	var known *Link // the link on which the node was read
	for n := 1; ; {
		l := c.Link(ctx)
		if l == nil {
			return
		}
		if l != known {
			r, ok := l.Do(Op{Code: wire.OpGetData, Path: path})
			if ok && r.Err == wire.NoNode {
				r, ok = l.Do(Op{Code: wire.OpCreate2, Path: path, Data: "0"})
			}
			if ok && r.Err == wire.OK {
				known = l
			} else {
				pause(ctx, 50*time.Millisecond)
			}
			continue
		}
		var calls []*Call
		for range 1 + c.Rand.Intn(8) {
			calls = append(calls, l.Start(Op{Code: wire.OpSetData, Path: path, Data: strconv.Itoa(n), Version: -1}, 0))
			n++
			if c.Rand.OneIn(4) {
				calls = append(calls, l.Start(Op{Code: wire.OpGetData, Path: path}, 0))
			}
			if c.Rand.OneIn(10) {
				calls = append(calls, l.Start(Op{Code: wire.OpCreate2, Path: sequenceRoot + "/n-", Flags: wire.FlagPersistentSequential}, 0))
			}
		}
		if c.Rand.OneIn(12) {
			pause(ctx, time.Duration(c.Rand.Intn(3))*time.Millisecond)
			l.Break()
		}
		for _, k := range calls {
			r, ok := k.Wait()
			if ok && r.Err == wire.OK && k.op.Code == wire.OpCreate2 && c.Rand.OneIn(3) {
				l.Do(Op{Code: wire.OpDelete, Path: r.Path, Version: -1}) // the number must not come again
			}
		}
		pause(ctx, time.Duration(c.Rand.Intn(300))*time.Millisecond)
	}
}

func orderFinish(ctx context.Context, c *Client) error {
	if _, err := lastRead(ctx, c, orderPath(c.Number)); err != nil {
		return err
	}
	l := c.Link(ctx)
	if l == nil {
		return ctx.Err()
	}
	if _, ok := l.Fresh(Op{Code: wire.OpGetChildren2, Path: sequenceRoot}); !ok {
		return fmt.Errorf("the connection was lost while listing %s", sequenceRoot)
	}
	return nil
}

// An ownNode is what one client knows of its node.
type ownNode struct {
	known   bool
	data    string // of the last write known to be carried out
	version int32
	lost    []string // written after it, of unknown outcome, in order; another link was opened since
	link    int
	fresh   bool // the node has been read, or written, on this link
}

// checkOrder demands of every session's own node: each write was carried out once, in the order of
// requests; of those that were under way when a connection ended the first ones were, or none, and
// not after the client was back; nothing that was acknowledged is lost.
func checkOrder(entries []Entry) []error {
	var errs []error
	nodes := map[string]*ownNode{}
	for i := range entries {
		e := &entries[i]
		if !strings.HasPrefix(e.Op.Path, orderRoot+"/") || e.Op.Code == wire.OpSync {
			continue
		}
		n := nodes[e.Op.Path]
		if n == nil {
			n = &ownNode{}
			nodes[e.Op.Path] = n
		}
		if e.Link != n.link {
			n.link, n.fresh = e.Link, false
		}
		var err error
		switch {
		case e.Kind == Lost && e.Op.Code == wire.OpSetData:
			n.lost = append(n.lost, e.Op.Data)
		case e.Kind == Replied:
			err = n.reply(e)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("order: %w\n%v", err, e))
			n.known = false // what follows from the first is not told
		}
	}
	return errs
}

func (n *ownNode) reply(e *Entry) error {
	r := &e.Result
	if refused(e) {
		return nil
	}
	switch e.Op.Code {
	case wire.OpCreate2:
		if r.Err == wire.OK {
			n.take("0", 0)
		}
		return nil
	case wire.OpSetData:
		was, fresh := n.version, n.fresh
		known := n.known
		if r.Err != wire.OK {
			return fmt.Errorf("a write to a node that exists fails")
		}
		n.take(e.Op.Data, r.Version)
		if known && fresh && r.Version != was+1 {
			return fmt.Errorf("after version %d comes %d", was, r.Version)
		}
		return nil
	}
	if r.Err == wire.NoNode {
		if n.known {
			return fmt.Errorf("the node is gone; it had version %d", n.version)
		}
		n.fresh = true
		return nil
	}
	defer n.take(r.Data, r.Version)
	switch {
	case !n.known || r.Data == n.data && r.Version == n.version:
		return nil
	case n.fresh:
		return fmt.Errorf("the client's own last write was %q, version %d", n.data, n.version)
	}
	for i, data := range n.lost {
		if r.Data == data && r.Version == n.version+int32(i)+1 {
			return nil
		}
	}
	return fmt.Errorf("acknowledged was %q, version %d; under way were %v", n.data, n.version, n.lost)
}

func (n *ownNode) take(data string, version int32) {
	n.known, n.data, n.version, n.lost, n.fresh = true, data, version, nil, true
}

// A numbered is a sequence node that was acknowledged.
type numbered struct {
	name string
	zxid int64
	seq  int // of the reply
}

// checkSequence demands that sequence numbers are unique, grow with the zxid, and that a fresh
// list has all nodes that were acknowledged and not deleted.
func checkSequence(entries []Entry) []error {
	var errs []error
	var created []numbered
	deleted := map[string]bool{}
	for i := range entries {
		e := &entries[i]
		if e.Kind == Sent && e.Op.Code == wire.OpDelete {
			deleted[e.Op.Path] = true
		}
		if e.Kind != Replied || e.Result.Err != wire.OK || !strings.HasPrefix(e.Op.Path, sequenceRoot) {
			continue
		}
		if e.Op.Code == wire.OpCreate2 && e.Op.Flags == wire.FlagPersistentSequential {
			created = append(created, numbered{e.Result.Path, e.Result.Zxid, e.Seq})
		}
		if e.Op.Code != wire.OpGetChildren2 {
			continue
		}
		there := map[string]bool{}
		for _, c := range e.Result.Children {
			there[sequenceRoot+"/"+c] = true
		}
		for _, c := range created {
			if c.seq < e.Since && !there[c.name] && !deleted[c.name] {
				errs = append(errs, fmt.Errorf("sequence: %s was acknowledged and is gone\n%v", c.name, e))
			}
		}
	}
	slices.SortFunc(created, func(a, b numbered) int { return cmp.Compare(a.zxid, b.zxid) })
	for i := 1; i < len(created); i++ {
		if created[i].name <= created[i-1].name { // ten digits each
			errs = append(errs, fmt.Errorf("sequence: after %s comes %s", created[i-1].name, created[i].name))
		}
	}
	return errs
}
