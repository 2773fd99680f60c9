package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/zkd-project/zkd/jepsen/check"
	"github.com/zkd-project/zkd/jepsen/history"
	proto "github.com/zkd-project/zkd/wire"
)

const (
	counters = 3
	// batchFolders keep the lists that are read at the end short enough for a frame.
	batchFolders = 4
)

// counterWorkload has clients that raise counters, and create several nodes at a time.
func counterWorkload() Workload {
	return Workload{
		Name: "counter",
		Doc:  "counters that are raised at the version that was read, and multis of several creations: none lost, none twice",
		Setup: func(ctx context.Context, e *Env) error {
			for _, path := range slices.Concat([]string{"/counter", "/batch"}, counterKeys(), batchKeys()) {
				if err := e.Root(ctx, path); err != nil {
					return err
				}
			}
			return nil
		},
		Run: func(ctx context.Context, e *Env) {
			e.every(ctx, 6, func(ctx context.Context, p *Proc) { p.count(ctx) })
		},
		Final:    finalCounters,
		Checkers: []check.Checker{check.Counter},
	}
}

func counterKeys() (keys []string) {
	for i := range counters {
		keys = append(keys, fmt.Sprintf("/counter/%d", i))
	}
	return keys
}

func batchKeys() (keys []string) {
	for i := range batchFolders {
		keys = append(keys, fmt.Sprintf("/batch/%d", i))
	}
	return keys
}

func (p *Proc) count(ctx context.Context) {
	p.note = "read"
	for n := 0; ctx.Err() == nil; n++ {
		switch p.Rand.IntN(12) {
		case 0:
			_, _ = p.Move(ctx, 1+p.Rand.IntN(p.e.Servers))
		case 1:
			folder := batchKeys()[p.Rand.IntN(batchFolders)]
			var parts []history.Part
			for i := range 2 + p.Rand.IntN(4) {
				parts = append(parts, history.Part{Key: fmt.Sprintf("%s/%d-%d-%d", folder, p.ID, n, i), Value: "v"})
			}
			p.MultiCreate(ctx, parts)
		default:
			p.increment(ctx, counterKeys()[p.Rand.IntN(counters)])
		}
		Pause(ctx, time.Duration(p.Rand.IntN(4))*time.Millisecond)
	}
}

// increment raises a counter by one at the version that it shows, which may be an old one.
func (p *Proc) increment(ctx context.Context, key string) {
	o := p.Get(ctx, key, false)
	if o.Kind != history.OK || o.Code != 0 {
		return
	}
	value, _ := strconv.Atoi(o.Value) // what is not a number, the checker reports
	r := proto.SetDataRequest{Path: key, Data: strconv.AppendInt(nil, int64(value)+1, 10), Version: o.Stat.Version}
	line := history.Op{F: "set", Key: key, Value: string(r.Data), Arg: int64(r.Version), Note: "increment"}
	o, d, ok := p.do(ctx, line, proto.OpSetData, r.Append(nil))
	if o.Kind == history.OK && o.Code == 0 {
		o.Stat = stat(&d)
	}
	p.record(o, &d, ok)
}

// MultiCreate creates nodes, all or none.
func (p *Proc) MultiCreate(ctx context.Context, parts []history.Part) history.Op {
	var ops []proto.MultiOp
	for _, x := range parts {
		ops = append(ops, proto.MultiOp{Op: proto.OpCreate, Create: proto.CreateRequest{Path: x.Key, Data: []byte(x.Value), ACL: world}})
	}
	o, d, ok := p.do(ctx, history.Op{F: "multi", Parts: parts}, proto.OpMulti, proto.AppendMulti(nil, ops))
	if o.Kind == history.OK && o.Code == 0 {
		o.Code = firstError(&d)
	}
	return p.record(o, &d, ok)
}

func finalCounters(ctx context.Context, e *Env) error {
	for _, key := range counterKeys() {
		err := e.settle(ctx, func(ctx context.Context, p *Proc) error {
			p.note = "final"
			if o := p.SyncGet(ctx, key); o.Kind != history.OK || o.Code != 0 {
				return errors.New("no answer to the last read of " + key)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, key := range batchKeys() {
		if err := e.finalLists(ctx, key); err != nil {
			return err
		}
	}
	return nil
}
