package workload

import (
	"bytes"
	"context"
	"time"

	"github.com/zkd-project/zkd/jepsen/history"
	proto "github.com/zkd-project/zkd/wire"
)

// A probe is something that an identity tries on a node: it must be permitted or refused as the
// node's list says.
type probe struct {
	name string
	op   proto.OpCode
	body func(p *Proc, node string) []byte
}

// none is a version that no node has: what is permitted fails of it, and changes nothing.
const none = 1 << 30

func pathWatch(watch bool) func(*Proc, string) []byte {
	return func(_ *Proc, node string) []byte {
		return (&proto.PathWatchRequest{Path: node, Watch: watch}).Append(nil)
	}
}

func multiOf(op func(node string) proto.MultiOp) func(*Proc, string) []byte {
	return func(_ *Proc, node string) []byte { return proto.AppendMulti(nil, []proto.MultiOp{op(node)}) }
}

var probes = []probe{
	{"get", proto.OpGetData, pathWatch(false)},
	{"watch", proto.OpGetData, pathWatch(true)},
	{"exists", proto.OpExists, pathWatch(true)},
	{"children", proto.OpGetChildren, pathWatch(true)},
	{"children", proto.OpGetChildren2, pathWatch(false)},
	{"getacl", proto.OpGetACL, func(_ *Proc, node string) []byte { return (&proto.PathRequest{Path: node}).Append(nil) }},
	{"set", proto.OpSetData, func(_ *Proc, node string) []byte {
		return (&proto.SetDataRequest{Path: node, Data: []byte("x"), Version: none}).Append(nil)
	}},
	{"create", proto.OpCreate, func(_ *Proc, node string) []byte {
		return (&proto.CreateRequest{Path: node + "/c", ACL: world}).Append(nil)
	}},
	{"delete", proto.OpDelete, func(_ *Proc, node string) []byte {
		return (&proto.DeleteRequest{Path: node + "/c", Version: -1}).Append(nil)
	}},
	{"multi-get", proto.OpMultiRead, multiOf(func(node string) proto.MultiOp {
		return proto.MultiOp{Op: proto.OpGetData, Path: proto.PathWatchRequest{Path: node}}
	})},
	{"multi-children", proto.OpMultiRead, multiOf(func(node string) proto.MultiOp {
		return proto.MultiOp{Op: proto.OpGetChildren, Path: proto.PathWatchRequest{Path: node}}
	})},
	{"multi-check", proto.OpMulti, multiOf(func(node string) proto.MultiOp {
		return proto.MultiOp{Op: proto.OpCheck, Check: proto.CheckRequest{Path: node, Version: none}}
	})},
	{"multi-set", proto.OpMulti, multiOf(func(node string) proto.MultiOp {
		return proto.MultiOp{Op: proto.OpSetData, SetData: proto.SetDataRequest{Path: node, Data: []byte("x"), Version: none}}
	})},
}

// probeAll tries everything, on a connection with a watch on all that happens below /acl.
func (p *Proc) probeAll(ctx context.Context, r *aclRun) {
	watching := int64(0)
	for ctx.Err() == nil {
		c, err := p.Move(ctx, 0)
		if err != nil {
			return
		}
		if c.Number != watching {
			watching = c.Number
			watch := proto.AddWatchRequest{Path: "/acl", Mode: proto.AddWatchPersistentRecursive}
			_, _, _ = p.do(ctx, history.Op{}, proto.OpAddWatch, watch.Append(nil))
		}
		slot := p.Rand.IntN(aclSlots)
		node := r.node(slot)
		if p.Rand.IntN(20) == 0 {
			node = aclVault
		}
		switch k := p.Rand.IntN(30); {
		case k == 0:
			if o := p.probeACL(ctx, node, p.drawSpec()); o.Kind == history.Unknown && node != aclVault {
				r.generations[slot].Add(1)
			}
		case k == 1:
			_, _ = p.Move(ctx, 1+p.Rand.IntN(p.e.Servers))
		default:
			p.try(ctx, node, &probes[p.Rand.IntN(len(probes))])
		}
		Pause(ctx, time.Duration(p.Rand.IntN(6))*time.Millisecond)
	}
}

// probeACL tries to change the list.
func (p *Proc) probeACL(ctx context.Context, node string, spec aclSpec) history.Op {
	r := proto.SetACLRequest{Path: node, ACL: spec.list(), Version: -1}
	line := history.Op{F: "probe", Key: node, Value: "setacl", Note: p.note, Parts: []history.Part{{Key: node, Value: string(spec)}}}
	o, d, ok := p.do(ctx, line, proto.OpSetACL, r.Append(nil))
	return p.record(o, &d, ok)
}

func (p *Proc) try(ctx context.Context, node string, x *probe) {
	o, d, ok := p.do(ctx, history.Op{F: "probe", Key: node, Value: x.name, Note: p.note}, x.op, x.body(p, node))
	if o.Kind == history.OK && o.Code == 0 {
		switch x.op {
		case proto.OpMulti, proto.OpMultiRead:
			o.Code = firstError(&d)
		case proto.OpGetACL:
			for _, user := range aclUsers {
				if bytes.Contains(d.Rest(), []byte(hash(user))) {
					o.Arg = 1
				}
			}
		}
	}
	p.record(o, &d, ok)
}
