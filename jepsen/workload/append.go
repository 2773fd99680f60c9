package workload

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/jepsen/check"
	"github.com/zkd-project/zkd/jepsen/history"
	proto "github.com/zkd-project/zkd/wire"
)

const (
	appendKeys = 4
	// appendsPerGroup keeps lists short.
	appendsPerGroup = 60
)

// appendWorkload has transactions over several nodes.
func appendWorkload() Workload {
	return Workload{
		Name:  "append",
		Doc:   "multis that append to several nodes at the versions they have read, and multi-reads of all: atomic, in one order",
		Setup: func(ctx context.Context, e *Env) error { return e.Root(ctx, "/append") },
		Run: func(ctx context.Context, e *Env) {
			var rounds atomic.Int64
			e.every(ctx, 6, func(ctx context.Context, p *Proc) {
				for n := 0; ctx.Err() == nil; n++ {
					group := fmt.Sprintf("/append/%d", rounds.Add(1)/appendsPerGroup)
					p.appendOnce(ctx, group, fmt.Sprintf("%d.%d", p.ID, n))
					if p.Rand.IntN(60) == 0 {
						_, _ = p.Move(ctx, 1+p.Rand.IntN(e.Servers))
					}
					Pause(ctx, time.Duration(p.Rand.IntN(4))*time.Millisecond)
				}
			})
		},
		Final:    func(context.Context, *Env) error { return nil },
		Checkers: []check.Checker{check.Append},
	}
}

// appendOnce reads all nodes of a group and appends to some.
func (p *Proc) appendOnce(ctx context.Context, group, id string) {
	keys := make([]string, appendKeys)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s-%d", group, i)
	}
	read := p.MultiRead(ctx, keys)
	if read.Kind == history.OK && read.Code == int32(proto.NoNode) {
		for _, k := range keys {
			_ = p.Make(ctx, k)
		}
		return
	}
	if read.Kind != history.OK || read.Code != 0 || p.Rand.IntN(3) == 0 {
		return
	}
	var parts []history.Part
	for _, i := range p.Rand.Perm(appendKeys)[:2+p.Rand.IntN(appendKeys-1)] {
		part := history.Part{Key: keys[i], Version: read.Parts[i].Version}
		if len(parts) == 0 || p.Rand.IntN(4) > 0 {
			part.Value = read.Parts[i].Value + " " + id
		}
		parts = append(parts, part)
	}
	if p.Rand.IntN(10) == 0 { // one that fails at its last operation leaves nothing of the others
		parts[len(parts)-1].Version += 1000
	}
	p.Multi(ctx, parts)
}

// Multi sets the parts that have a value, and checks the version of the others.
func (p *Proc) Multi(ctx context.Context, parts []history.Part) history.Op {
	var ops []proto.MultiOp
	for _, x := range parts {
		m := proto.MultiOp{Op: proto.OpCheck, Check: proto.CheckRequest{Path: x.Key, Version: x.Version}}
		if x.Value != "" {
			m = proto.MultiOp{Op: proto.OpSetData, SetData: proto.SetDataRequest{Path: x.Key, Data: []byte(x.Value), Version: x.Version}}
		}
		ops = append(ops, m)
	}
	o, d, ok := p.do(ctx, history.Op{F: "multi", Parts: parts}, proto.OpMulti, proto.AppendMulti(nil, ops))
	if o.Kind == history.OK && o.Code == 0 {
		o.Code = firstError(&d)
	}
	return p.record(o, &d, ok)
}

// firstError is the code of the operation that made a multi fail.
func firstError(d *proto.Decoder) int32 {
	results, err := proto.DecodeMultiResults(d)
	if err != nil {
		return 0 // which d reports
	}
	for _, m := range results {
		if m.Op == proto.OpError && m.Code != proto.OK {
			return int32(m.Code)
		}
	}
	return 0
}

// MultiRead reads nodes in one state. The versions are those of the Parts.
func (p *Proc) MultiRead(ctx context.Context, keys []string) history.Op {
	var ops []proto.MultiOp
	for _, k := range keys {
		ops = append(ops, proto.MultiOp{Op: proto.OpGetData, Path: proto.PathWatchRequest{Path: k}})
	}
	o, d, ok := p.do(ctx, history.Op{F: "multi-read"}, proto.OpMultiRead, proto.AppendMulti(nil, ops))
	if o.Kind == history.OK && o.Code == 0 {
		results, _ := proto.DecodeMultiResults(&d)
		for i, m := range results {
			if m.Op == proto.OpError {
				o.Code = int32(m.Code)
				continue
			}
			o.Parts = append(o.Parts, history.Part{Key: keys[i], Value: string(m.Data), Version: m.Stat.Version, Mzxid: m.Stat.Mzxid})
		}
	}
	return p.record(o, &d, ok)
}
