package foreign

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/jepsen/check"
	"github.com/zkd-project/zkd/jepsen/history"
	"github.com/zkd-project/zkd/jepsen/workload"
)

const (
	clients = 4
	keys    = 2 // in use at a time
	// opsPerKey bounds what the search for an order has to deal with.
	opsPerKey = 120
)

// common judge what every workload here records.
var common = []check.Checker{check.Broken, check.Sessions, check.WriteOrder}

func (l *Client) registerWorkload() workload.Workload {
	return workload.Workload{
		Name:     "register",
		Doc:      "set, compare-and-set, delete and create, and reads after a sync, linearizable on every node",
		Setup:    l.setup,
		Final:    func(context.Context, *workload.Env) error { return nil },
		Common:   common,
		Checkers: []check.Checker{check.Register},
		Run: func(ctx context.Context, e *workload.Env) {
			var used [keys]atomic.Int64
			timeout := time.Duration(e.TimeoutMs) * time.Millisecond
			l.each(ctx, e, clients, timeout, func(ctx context.Context, c *child) error { return c.useRegister(ctx, &used) })
		},
	}
}

// useRegister does one operation.
func (c *child) useRegister(ctx context.Context, used *[keys]atomic.Int64) error {
	slot := c.rand.IntN(keys)
	n := used[slot].Add(1)
	q := question{Path: fmt.Sprintf(root+"/%d-%d", slot, n/opsPerKey), Value: fmt.Sprintf("%d.%d", c.id, n), Version: -1}
	switch k := c.rand.IntN(100); {
	case k < 25:
		q.Do = "set"
	case k < 45:
		q.Do, q.Version = "set", int32(c.rand.IntN(12))
	case k < 60:
		q.Do = "create"
	case k < 65:
		q.Do = "delete"
	default:
		q.Do = "sync-get"
	}
	a, err := c.ask(q)
	o := c.line(q, &a)
	if q.Do == "create" {
		o.Arg = 0 // flags
	}
	c.e.Rec.Add(o)
	if o.Kind == history.Unknown {
		used[slot].Add(opsPerKey / 8) // it may happen at any later time: a few are as much as can be tried out
	}
	if c.rand.IntN(40) == 0 { // to another server, in the middle of things
		c.road.cut()
	}
	workload.Pause(ctx, time.Duration(c.rand.IntN(8))*time.Millisecond)
	return err
}

// line is what the history has of an operation. Answers have no zxid; that of a write that
// has changed a node is in the node's stat.
func (c *child) line(q question, a *answer) history.Op {
	o := history.Op{
		Begin: a.begin, End: a.end, Kind: history.OK, F: q.Do, Proc: c.id, Session: c.session, Key: q.Path, Value: q.Value,
		Arg: int64(q.Version), Code: a.Code,
	}
	switch {
	case a.Lost != "":
		o.Kind, o.Note = history.Unknown, a.Lost
		return o
	case workload.NotDone(a.Code):
		o.Kind = history.Fail
	case q.Do == "sync-get":
		o.Value = a.Value
	case q.Do == "set" || q.Do == "create":
		o.Zxid = a.Mzxid
	}
	if a.Code == 0 && a.Mzxid != 0 {
		o.Stat = &history.Stat{Czxid: a.Czxid, Mzxid: a.Mzxid, Version: a.Version, Owner: a.Owner}
	}
	return o
}
