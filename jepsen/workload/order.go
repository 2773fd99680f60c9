package workload

import (
	"context"
	"fmt"
	"time"

	"github.com/zkd-project/zkd/jepsen/check"
	"github.com/zkd-project/zkd/jepsen/history"
	"github.com/zkd-project/zkd/jepsen/wire"
	proto "github.com/zkd-project/zkd/wire"
)

const (
	orderClients = 4
	burst        = 40 // requests that a client has under way at most
)

// orderWorkload has clients that send many requests without waiting and move between servers
// while answers are on their way.
func orderWorkload() Workload {
	return Workload{
		Name:  "session-order",
		Doc:   "pipelined requests of clients that move between servers: in order, exactly once, never back in time",
		Setup: func(ctx context.Context, e *Env) error { return e.Root(ctx, "/order") },
		Run: func(ctx context.Context, e *Env) {
			e.every(ctx, orderClients, func(ctx context.Context, p *Proc) { p.keepOrder(ctx) })
		},
		Final:    func(context.Context, *Env) error { return nil },
		Checkers: []check.Checker{check.SessionOrder},
	}
}

// sent is a request under way.
type sent struct {
	line history.Op
	call *wire.Call
}

// keepOrder writes a node of its own, forever.
func (p *Proc) keepOrder(ctx context.Context) {
	key := fmt.Sprintf("/order/%d", p.ID)
	for ctx.Err() == nil && p.Make(ctx, key) != nil {
		Pause(ctx, 10*time.Millisecond)
	}
	for n := 0; ctx.Err() == nil; {
		c, err := p.c.Conn(ctx, 1+p.Rand.IntN(p.e.Servers))
		if err != nil {
			return
		}
		leave := time.Now().Add(time.Duration(50+p.Rand.IntN(1000)) * time.Millisecond)
		// What was sent on other connections is settled by a read of the node itself.
		under := []sent{p.sendOwn(c, key, "")}
		for time.Now().Before(leave) && ctx.Err() == nil {
			for range 1 + p.Rand.IntN(burst) {
				n++
				value := ""
				if p.Rand.IntN(4) > 0 {
					value = fmt.Sprintf("%d.%d", p.ID, n)
				}
				under = append(under, p.sendOwn(c, key, value))
			}
			if p.Rand.IntN(12) == 0 { // away in the middle
				break
			}
			wire.Wait(c, under[len(under)-1].call, opTimeout)
			p.recordAll(c, under)
			under = under[:0]
			if p.Rand.IntN(4) == 0 {
				Pause(ctx, time.Duration(p.Rand.IntN(100))*time.Millisecond)
			}
		}
		if len(under) > 0 && p.Rand.IntN(2) == 0 {
			Pause(ctx, time.Duration(p.Rand.IntN(3000))*time.Microsecond)
		}
		p.c.Leave()
		p.recordAll(c, under)
	}
}

// sendOwn writes the client's node, or reads it where value is "".
func (p *Proc) sendOwn(c *wire.Conn, key, value string) sent {
	if value == "" {
		r := proto.PathWatchRequest{Path: key}
		return sent{history.Op{F: "get", Key: key, Note: "own"}, c.Send(proto.OpGetData, r.Append(nil))}
	}
	r := proto.SetDataRequest{Path: key, Data: []byte(value), Version: -1}
	return sent{history.Op{F: "set", Key: key, Value: value, Arg: -1, Note: "own"}, c.Send(proto.OpSetData, r.Append(nil))}
}

// recordAll records calls, in the order of sending.
func (p *Proc) recordAll(c *wire.Conn, all []sent) {
	for _, s := range all {
		<-s.call.Done
		o := p.result(c, s.call, s.line)
		d := proto.NewDecoder(s.call.Reply.Body)
		if o.Kind == history.OK && o.Code == 0 {
			if o.F == "get" {
				o.Value = string(d.Buffer())
			}
			o.Stat = stat(&d)
		}
		p.record(o, &d, true)
	}
}
