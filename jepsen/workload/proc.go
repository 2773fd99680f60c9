package workload

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/zkd-project/zkd/jepsen/history"
	"github.com/zkd-project/zkd/jepsen/wire"
	proto "github.com/zkd-project/zkd/wire"
)

// opTimeout is how long a client waits for a reply before it gives the connection up: longer
// than an election, so that it is a fault that ends waiting and not impatience.
const opTimeout = 4 * time.Second

// notDone are the codes by which a server says that a request was not done, and took no zxid:
// a system error answers writes while the disk has no room.
var notDone = []int32{int32(proto.SessionExpired), int32(proto.ThrottledOp), int32(proto.SystemError)}

// NotDone says whether a code is one of those.
func NotDone(code int32) bool { return slices.Contains(notDone, code) }

var world = []proto.ACL{{Perms: proto.PermAll, ID: proto.ID{Scheme: "world", ID: "anyone"}}}

// A Proc is a client that records what it does. It belongs to one goroutine.
type Proc struct {
	ID   int
	Rand *rand.Rand
	e    *Env
	c    *wire.Client
	note string // of its reads and events: tells checkers what to make of them
	last int64  // number of its newest connection
	// holds counts how often it has held the lock of the workload of that name.
	holds int
	// onEvent is told of events, by the goroutine that reads them; may be nil.
	onEvent func(wire.Event)
}

// afterFrames is the place, among the frames of a connection, of what was noticed when the
// connection was gone.
const afterFrames = 1 << 62

// procOption changes how a Proc is connected.
type procOption func(*wire.Options)

// NewProc makes a client; timeoutMs 0 is that of the Env.
func (e *Env) NewProc(timeoutMs int32, options ...procOption) *Proc {
	id := e.NextProc()
	if timeoutMs == 0 {
		timeoutMs = e.TimeoutMs
	}
	p := &Proc{ID: id, Rand: e.rand(id), e: e}
	o := wire.Options{
		Nodes: e.Servers, TimeoutMs: timeoutMs, Dial: e.Dial, Rand: rand.New(rand.NewPCG(e.Seed, uint64(id)<<32)),
		OnEvent: p.event, OnBroken: p.broken, OnSession: p.session, Tapes: e.Tapes,
	}
	for _, f := range options {
		f(&o)
	}
	p.c = wire.NewClient(o)
	return p
}

// Close ends the client; its session is left to expire.
func (p *Proc) Close() { p.c.Close() }

func (p *Proc) event(c *wire.Conn, ev wire.Event) {
	now := p.e.Rec.Now()
	p.e.Rec.Add(history.Op{
		Begin: now, End: now, Kind: history.Event, F: "event", Proc: p.ID, Session: c.Session.ID, Conn: c.Number, Node: c.Node,
		Frame: ev.Frame, Zxid: ev.Zxid, Key: ev.Path, Arg: int64(ev.Type), Note: p.note,
	})
	if p.onEvent != nil {
		p.onEvent(ev)
	}
}

func (p *Proc) broken(c *wire.Conn, what string) {
	p.e.Rec.Add(history.Op{
		Begin: p.e.Rec.Now(), Kind: history.Info, F: "broken", Proc: p.ID, Session: c.Session.ID, Conn: c.Number, Node: c.Node, Note: what,
	})
}

func (p *Proc) session(what string, c *wire.Conn, s wire.Session, alive time.Time) {
	o := history.Op{Begin: p.e.Rec.At(alive), Kind: history.Info, F: what, Proc: p.ID, Session: s.ID, Arg: int64(s.TimeoutMs) * int64(time.Millisecond)}
	if c != nil {
		o.Conn, o.Node = c.Number, c.Node
		p.last = c.Number
	} else {
		o.Conn, o.Frame = p.last, afterFrames
	}
	p.e.Rec.Add(o)
}

// result makes the line of a call that has ended.
func (p *Proc) result(c *wire.Conn, call *wire.Call, o history.Op) history.Op {
	o.Begin, o.End = p.e.Rec.At(call.Sent), p.e.Rec.At(call.Ended)
	o.Proc, o.Session, o.Conn, o.Node, o.Xid = p.ID, c.Session.ID, c.Number, c.Node, call.Xid
	switch {
	case call.Err == nil:
		o.Kind, o.Frame, o.Zxid, o.Code = history.OK, call.Reply.Frame, call.Reply.Zxid, int32(call.Reply.Err)
		if NotDone(o.Code) {
			o.Kind = history.Fail
		}
	case errors.Is(call.Err, wire.ErrNotSent):
		o.Kind = history.Fail
	default:
		o.Kind = history.Unknown
	}
	return o
}

// do sends one request, waits for its reply and returns the line without recording it, with
// the body of the reply. ok is false if no server could be reached: then there is no line.
func (p *Proc) do(ctx context.Context, o history.Op, op proto.OpCode, body []byte) (line history.Op, d proto.Decoder, ok bool) {
	c, err := p.c.Conn(ctx, 0)
	if err != nil {
		return o, d, false
	}
	call := c.Send(op, body)
	wire.Wait(c, call, opTimeout)
	o = p.result(c, call, o)
	if o.Kind == history.OK && o.Code == 0 {
		d = proto.NewDecoder(call.Reply.Body)
	}
	return o, d, true
}

// record adds the line, with a note if the reply had not the form it must have.
func (p *Proc) record(o history.Op, d *proto.Decoder, ok bool) history.Op {
	if !ok {
		o.Kind = history.Fail
		return o
	}
	if err := d.Err(); err != nil && o.Kind == history.OK && o.Code == 0 {
		p.e.Rec.Add(history.Op{Begin: o.Begin, Kind: history.Info, F: "broken", Proc: p.ID, Note: "the reply to " + o.F + ": " + err.Error()})
	}
	p.e.Rec.Add(o)
	return o
}

func stat(d *proto.Decoder) *history.Stat {
	s := d.Stat()
	return &history.Stat{Czxid: s.Czxid, Mzxid: s.Mzxid, Pzxid: s.Pzxid, Version: s.Version, Owner: s.EphemeralOwner}
}

// Set writes data; version -1 fits any.
func (p *Proc) Set(ctx context.Context, key, value string, version int32) history.Op {
	r := proto.SetDataRequest{Path: key, Data: []byte(value), Version: version}
	o, d, ok := p.do(ctx, history.Op{F: "set", Key: key, Value: value, Arg: int64(version)}, proto.OpSetData, r.Append(nil))
	if o.Kind == history.OK && o.Code == 0 {
		o.Stat = stat(&d)
	}
	return p.record(o, &d, ok)
}

// Create makes a node. The path that was made is the Note of a sequential one, and the Key of
// the others.
func (p *Proc) Create(ctx context.Context, key, value string, flags int32) history.Op {
	r := proto.CreateRequest{Path: key, Data: []byte(value), ACL: world, Flags: flags}
	o, d, ok := p.do(ctx, history.Op{F: "create", Key: key, Value: value, Arg: int64(flags)}, proto.OpCreate, r.Append(nil))
	if o.Kind == history.OK && o.Code == 0 {
		if made := d.String(); made != key {
			o.Note = made
		}
	}
	return p.record(o, &d, ok)
}

// Delete removes a node; version -1 fits any.
func (p *Proc) Delete(ctx context.Context, key string, version int32) history.Op {
	r := proto.DeleteRequest{Path: key, Version: version}
	o, d, ok := p.do(ctx, history.Op{F: "delete", Key: key, Arg: int64(version)}, proto.OpDelete, r.Append(nil))
	return p.record(o, &d, ok)
}

// Get reads a node from the server that the client is connected to.
func (p *Proc) Get(ctx context.Context, key string, watch bool) history.Op {
	r := proto.PathWatchRequest{Path: key, Watch: watch}
	line := history.Op{F: "get", Key: key, Arg: flag(watch), Note: p.note}
	o, d, ok := p.do(ctx, line, proto.OpGetData, r.Append(nil))
	if o.Kind == history.OK && o.Code == 0 {
		o.Value = string(d.Buffer())
		o.Stat = stat(&d)
	}
	return p.record(o, &d, ok)
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// Exists looks at a node, on the server that the client is connected to.
func (p *Proc) Exists(ctx context.Context, key string, watch bool) history.Op {
	r := proto.PathWatchRequest{Path: key, Watch: watch}
	o, d, ok := p.do(ctx, history.Op{F: "exists", Key: key, Arg: flag(watch), Note: p.note}, proto.OpExists, r.Append(nil))
	if o.Kind == history.OK && o.Code == 0 {
		o.Stat = stat(&d)
	}
	return p.record(o, &d, ok)
}

// SyncGet reads what is newest: a sync and a read on one connection, sent together.
func (p *Proc) SyncGet(ctx context.Context, key string) history.Op {
	return p.synced(ctx, history.Op{F: "sync-get", Key: key, Note: p.note}, proto.OpGetData, func(o *history.Op, d *proto.Decoder) {
		o.Value = string(d.Buffer())
		o.Stat = stat(d)
	})
}

// synced sends a sync and a read of o.Key together, and counts them as one operation; read takes the
// read's record.
func (p *Proc) synced(ctx context.Context, o history.Op, op proto.OpCode, read func(o *history.Op, d *proto.Decoder)) history.Op {
	c, err := p.c.Conn(ctx, 0)
	if err != nil {
		o.Kind = history.Fail
		return o
	}
	sync := c.Send(proto.OpSync, (&proto.PathRequest{Path: o.Key}).Append(nil))
	call := c.Send(op, (&proto.PathWatchRequest{Path: o.Key}).Append(nil))
	wire.Wait(c, call, opTimeout)
	<-sync.Done
	o = p.result(c, call, o)
	o.Begin = p.e.Rec.At(sync.Sent)
	if sync.Err != nil || sync.Reply.Err != 0 {
		o.Kind = history.Unknown
	}
	d := proto.NewDecoder(call.Reply.Body)
	if o.Kind == history.OK && o.Code == 0 {
		read(&o, &d)
	}
	return p.record(o, &d, true)
}

// Children lists the names of the children, as Parts.
func (p *Proc) Children(ctx context.Context, key string, watch bool) history.Op {
	r := proto.PathWatchRequest{Path: key, Watch: watch}
	line := history.Op{F: "children", Key: key, Arg: flag(watch), Note: p.note}
	o, d, ok := p.do(ctx, line, proto.OpGetChildren2, r.Append(nil))
	if o.Kind == history.OK && o.Code == 0 {
		p.readNames(&o, &d)
	}
	return p.record(o, &d, ok)
}

// SyncChildren lists the names of the children after a sync that travels with the request.
func (p *Proc) SyncChildren(ctx context.Context, key string) history.Op {
	return p.listSynced(ctx, key, "synced")
}

func (p *Proc) listSynced(ctx context.Context, key, note string) history.Op {
	return p.synced(ctx, history.Op{F: "children", Key: key, Note: note}, proto.OpGetChildren2, p.readNames)
}

// readNames reads the reply to getChildren2.
func (p *Proc) readNames(o *history.Op, d *proto.Decoder) {
	for _, name := range d.Strings() {
		o.Parts = append(o.Parts, history.Part{Key: name})
	}
	o.Stat = stat(d)
}

// Make creates a persistent node unless it is there, without a line in the history.
func (p *Proc) Make(ctx context.Context, key string) error {
	r := proto.CreateRequest{Path: key, ACL: world}
	o, _, ok := p.do(ctx, history.Op{}, proto.OpCreate, r.Append(nil))
	switch {
	case !ok || o.Kind != history.OK:
		return errors.New("no answer to the creation of " + key)
	case o.Code != 0 && o.Code != int32(proto.NodeExists):
		return proto.Code(o.Code)
	}
	return nil
}

// CloseSession ends the session in order.
func (p *Proc) CloseSession(ctx context.Context) history.Op {
	o, d, ok := p.do(ctx, history.Op{F: "close"}, proto.OpCloseSession, nil)
	return p.record(o, &d, ok)
}

// Ping shows a sign of life and waits for the answer. It leaves no line: what counts is when
// the newest answered request was sent, and Alive records that.
func (p *Proc) Ping(ctx context.Context) {
	if c, err := p.c.Conn(ctx, 0); err == nil {
		wire.Wait(c, c.Send(proto.OpPing, nil), opTimeout)
	}
}

// Alive records when the newest answered request of the session was sent.
func (p *Proc) Alive() {
	s := p.c.Session()
	p.e.Rec.Add(history.Op{
		Begin: p.e.Rec.At(p.c.Alive()), Kind: history.Info, F: "alive", Proc: p.ID, Session: s.ID,
		Conn: p.last, Frame: afterFrames, Arg: int64(s.TimeoutMs) * int64(time.Millisecond),
	})
}

// Move takes the session to another server: 0 is any.
func (p *Proc) Move(ctx context.Context, node int) (*wire.Conn, error) { return p.c.Conn(ctx, node) }
