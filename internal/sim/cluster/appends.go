package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/zkd-project/zkd/jepsen/history"
	"github.com/zkd-project/zkd/wire"
)

// The workloads append and set, in the form that the checkers of package jepsen/check judge.
//
// append: clients read all lists of a group in one state, and put their mark at the end of some of
// them in one transaction, at the versions they have read. set: clients make nodes of their own,
// all of which must be there at the end.

const (
	appendRoot  = "/append"
	appendKeys  = 4
	appendEpoch = 6 * time.Second // then the next group: lists stay short
	setRoot     = "/set"
)

func appendScript(ctx context.Context, c *Client) {
	for n := 0; ; n++ {
		l := c.Link(ctx)
		if l == nil {
			return
		}
		if c.Rand.OneIn(4) {
			l.Do(Op{Code: wire.OpCreate2, Path: fmt.Sprintf("%s/%d-%d", setRoot, c.Number, n), Data: "x"})
		} else {
			c.appendOnce(l, int(c.w.History.now()/appendEpoch), fmt.Sprintf("%d.%d", c.Number, n))
		}
		if c.Rand.OneIn(60) {
			l.Break()
		}
		pause(ctx, time.Duration(c.Rand.Intn(200))*time.Millisecond)
	}
}

// appendOnce reads the lists of a group, makes them if they are missing, and appends to some.
func (c *Client) appendOnce(l *Link, group int, mark string) {
	var keys []history.Part
	for i := range appendKeys {
		keys = append(keys, history.Part{Key: fmt.Sprintf("%s/%d-%d", appendRoot, group, i)})
	}
	read, ok := l.Do(Op{Code: wire.OpMultiRead, Path: appendRoot, Parts: keys})
	switch {
	case ok && read.Err == wire.NoNode:
		for _, k := range keys {
			l.Do(Op{Code: wire.OpCreate2, Path: k.Key})
		}
		return
	case !ok || read.Err != wire.OK || c.Rand.OneIn(3):
		return
	}
	var parts []history.Part
	first := c.Rand.Intn(appendKeys)
	for i := range 2 + c.Rand.Intn(appendKeys-1) {
		p := read.Parts[(first+i)%appendKeys]
		part := history.Part{Key: p.Key, Version: p.Version} // its version is checked
		if i == 0 || !c.Rand.OneIn(4) {
			part.Value = p.Value + " " + mark
		}
		parts = append(parts, part)
	}
	if c.Rand.OneIn(10) { // one that fails at its last operation leaves nothing of the others
		parts[len(parts)-1].Version += 1000
	}
	l.Do(Op{Code: wire.OpMulti, Path: appendRoot, Parts: parts})
}

// encodeParts makes the body of a multi or a multi-read.
func encodeParts(op Op) []byte {
	var ops []wire.MultiOp
	for _, p := range op.Parts {
		m := wire.MultiOp{Op: wire.OpCheck, Check: wire.CheckRequest{Path: p.Key, Version: p.Version}}
		switch {
		case op.Code == wire.OpMultiRead:
			m = wire.MultiOp{Op: wire.OpGetData, Path: wire.PathWatchRequest{Path: p.Key}}
		case p.Value != "":
			m = wire.MultiOp{Op: wire.OpSetData, SetData: wire.SetDataRequest{Path: p.Key, Data: []byte(p.Value), Version: p.Version}}
		}
		ops = append(ops, m)
	}
	return wire.AppendMulti(nil, ops)
}

// decodeParts takes the reply apart. The error of a multi is that of its first operation that has
// failed.
func decodeParts(op Op, r *Result, d *wire.Decoder) {
	results, err := wire.DecodeMultiResults(d)
	if err != nil {
		return // d tells
	}
	for i, m := range results {
		switch {
		case m.Op == wire.OpError && m.Code != wire.OK && r.Err == wire.OK:
			r.Err = m.Code
		case m.Op == wire.OpGetData:
			r.Parts = append(r.Parts, history.Part{Key: op.Parts[i].Key, Value: string(m.Data), Version: m.Stat.Version})
		}
	}
}

// lastList reads the children of the workload set when nobody writes any more.
func (w *World) lastList(ctx context.Context, c *Client) error {
	for {
		l := c.Link(ctx)
		if l == nil {
			return fmt.Errorf("nobody has read %s at the end", setRoot)
		}
		if r, ok := l.Fresh(Op{Code: wire.OpGetChildren2, Path: setRoot, Data: finalList}); ok && r.Err == wire.OK {
			return nil
		}
	}
}

// finalList marks the list by which the workload set is judged.
const finalList = "final"

// operations are what package jepsen/check judges: calls with their replies. They begin and end at
// the places of the entries in the history, which say what came before what better than times.
func operations(entries []Entry) []history.Op {
	sent := map[int]*Entry{}
	var ops []history.Op
	for i := range entries {
		e := &entries[i]
		switch e.Kind {
		case Sent:
			sent[e.Call] = e
		case Replied, Lost:
			if o, ok := operation(sent[e.Call], e); ok {
				ops = append(ops, o)
			}
		}
	}
	history.Sort(ops)
	return ops
}

var operationNames = map[wire.OpCode]string{
	wire.OpCreate2: "create", wire.OpSetData: "set", wire.OpDelete: "delete", wire.OpGetData: "get",
	wire.OpMulti: "multi", wire.OpMultiRead: "multi-read", wire.OpGetChildren2: "children",
}

// operation is one call; ok is false for those that the checkers have no use for. What ephemeral
// nodes do is not judged here: nobody says in a reply when a session's end has deleted them.
func operation(sent, e *Entry) (o history.Op, ok bool) {
	name, known := operationNames[e.Op.Code]
	if !known || sent == nil || strings.HasPrefix(e.Op.Path, ephemeralRoot) {
		return o, false
	}
	r := &e.Result
	o = history.Op{
		Begin: int64(sent.Seq), End: int64(e.Seq), Kind: history.OK, F: name, Proc: e.Client, Session: e.Session,
		Conn: int64(e.Link), Zxid: r.Zxid, Code: int32(r.Err), Key: e.Op.Path, Value: e.Op.Data, Arg: int64(e.Op.Version), Parts: e.Op.Parts,
	}
	switch e.Op.Code {
	case wire.OpCreate2:
		o.Arg = int64(e.Op.Flags)
		if e.Op.Flags&wire.FlagPersistentSequential != 0 {
			o.Note = r.Path
		}
	case wire.OpGetData:
		o.Value = r.Data
		if e.Since > 0 {
			o.F, o.Begin = "sync-get", int64(e.Since)
		}
	case wire.OpMultiRead:
		o.Parts = r.Parts
	case wire.OpGetChildren2:
		o.Note, o.Parts = e.Op.Data, nil
		for _, child := range r.Children {
			o.Parts = append(o.Parts, history.Part{Key: child})
		}
	}
	if r.Err == wire.OK && (e.Op.Code == wire.OpGetData || e.Op.Code == wire.OpSetData) {
		o.Stat = &history.Stat{Czxid: r.Czxid, Mzxid: r.Mzxid, Pzxid: r.Pzxid, Version: r.Version}
	}
	switch {
	case e.Kind == Lost && !isWrite(e.Op.Code):
		return o, false
	case e.Kind == Lost:
		o.Kind = history.Unknown
	case refused(e), r.Err == wire.SessionMoved, r.Err == wire.SessionExpired:
		o.Kind = history.Fail
	}
	return o, true
}
