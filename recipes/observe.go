package recipes

import (
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/zkd-project/zkd/client"
)

// Observe yields the present leader, and then every other one in turn; a Participant without a
// Node means that there is none. No change is left out while the connection holds, however short
// a leadership is; of one that was over before it could be read, Data and Token are not known.
// After a reconnect, or when the loop was too slow, the present leader is yielded if it is another
// one than before.
//
// Observers are no candidates. They do not cost the candidates anything, but each is told of all
// that come and go.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Participant, error] {
	return func(yield func(Participant, error) bool) {
		o := &observer{e: e, ctx: ctx, yield: yield}
		for ev, err := range e.c.Watch(ctx, e.path, client.Recursive) {
			lagged := errors.Is(err, client.ErrLagged)
			if err != nil && !lagged {
				yield(Participant{}, err)
				return
			}
			if !o.take(ev, lagged) {
				return
			}
		}
	}
}

// An observer follows an election by its events.
type observer struct {
	e     *Election
	ctx   context.Context
	yield func(Participant, error) bool

	q     []contender // the queue, in order; in the unfair form the leader alone
	upTo  int64       // the listing that q comes from shows all changes up to this zxid
	told  bool        // something was yielded
	shown string      // the node of the leader that was yielded last; "" for none
}

// take takes one event; false ends the loop.
func (o *observer) take(ev client.Event, lagged bool) bool {
	// An event that the listing has taken in already must not be applied again: it could show a
	// leader of the past. Old servers do not say when an event happened, so there we list again.
	if !lagged && ev.Zxid != 0 && ev.Zxid <= o.upTo {
		return true
	}
	if lagged || ev.Type == client.EventReset || ev.Zxid == 0 {
		if err := o.reload(); err != nil {
			o.yield(Participant{}, err)
			return false
		}
		return o.show()
	}
	name, below := strings.CutPrefix(ev.Path, o.e.path+"/")
	if o.e.path == "/" {
		name, below = ev.Path[1:], true
	}
	if !below || strings.Contains(name, "/") {
		return true
	}
	switch ev.Type {
	case client.EventCreated:
		o.add(name)
	case client.EventDeleted:
		o.drop(name)
	default:
		return true
	}
	return o.show()
}

// reload reads the queue.
func (o *observer) reload() error {
	names, stat, err := o.e.c.Children(o.ctx, o.e.path)
	if err != nil && !errors.Is(err, client.ErrNoNode) {
		return err
	}
	o.q, o.upTo = nil, stat.Pzxid
	for _, name := range names {
		o.add(name)
	}
	return nil
}

func (o *observer) read(name string) (contender, bool) {
	if o.e.line == nil {
		return contender{name: name}, strings.HasPrefix(name, "_c_") && strings.HasSuffix(name, heldMark)
	}
	c, ok := o.e.line.names.read(name)
	return c, ok && !c.foreign
}

func (o *observer) add(name string) {
	o.drop(name)
	if c, ok := o.read(name); ok {
		o.q = append(o.q, c)
		order(o.q)
	}
}

func (o *observer) drop(name string) {
	for i, c := range o.q {
		if c.name == name {
			o.q = append(o.q[:i], o.q[i+1:]...)
			return
		}
	}
}

// show yields the leader if it is another one.
func (o *observer) show() bool {
	node := ""
	if len(o.q) > 0 {
		node = o.q[0].name
	}
	if o.told && node == o.shown {
		return true
	}
	o.told, o.shown = true, node
	if node == "" {
		return o.yield(Participant{}, nil)
	}
	path := join(o.e.path, node)
	p := Participant{Node: node, Path: path}
	data, stat, err := o.e.c.Get(o.ctx, path)
	switch {
	case err == nil:
		p.Data, p.Session, p.Token = data, stat.EphemeralOwner, stat.Czxid
	case !errors.Is(err, client.ErrNoNode):
		o.yield(Participant{}, err)
		return false
	}
	return o.yield(p, nil)
}
