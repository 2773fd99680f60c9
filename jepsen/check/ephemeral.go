package check

import (
	"strings"

	"github.com/zkd-project/zkd/jepsen/history"
)

// life is what a client can say of a session.
type life struct {
	alive   int64 // when the newest request that was answered had been sent
	timeout int64
	closing int64       // when its end was asked for; 0: never
	closed  *history.Op // the answer to that
}

// lives collects them. Lines that say something of a session (new, attached, expired, alive)
// have in Begin when its newest answered request was sent, and in Arg the timeout.
func lives(ops []history.Op) map[int64]*life {
	all := map[int64]*life{}
	at := func(o *history.Op) *life {
		l := all[o.Session]
		if l == nil {
			l = &life{}
			all[o.Session] = l
		}
		return l
	}
	for i := range ops {
		o := &ops[i]
		switch {
		case o.Kind == history.Info && (o.F == "new" || o.F == "attached" || o.F == "expired" || o.F == "alive"):
			l := at(o)
			l.alive = max(l.alive, o.Begin)
			l.timeout = max(l.timeout, o.Arg)
		case o.F == "close" && o.Kind != history.Fail:
			l := at(o)
			l.closing = o.Begin
			if o.Kind == history.OK && o.Code == codeOK {
				l.closed = o
			}
		case o.Kind == history.OK && o.Session != 0:
			// The last request of a session is that which closed it.
			at(o).alive = max(at(o).alive, o.Begin)
		}
	}
	return all
}

// Ephemeral checks that an ephemeral node is there as long as its session, as observers on all
// servers see it: not gone before the session can be over, that is a timeout after the newest
// request of it that was answered; and gone in every state that has the end of the session
// which its client asked for. The workload itself waits for those of clients that died.
func Ephemeral(ops []history.Op) Result {
	r := Result{Checker: "ephemeral"}
	sessions := lives(ops)
	var lists []*history.Op
	for i := range ops {
		o := &ops[i]
		if o.F == opChildren && o.Kind == history.OK && o.Code == codeOK {
			lists = append(lists, o)
		}
		r.owned(o, sessions)
	}
	names := make([]map[string]bool, len(lists))
	for i, l := range lists {
		names[i] = map[string]bool{}
		for _, p := range l.Parts {
			names[i][l.Key+"/"+p.Key] = true
		}
	}
	late := int64(0)
	for i := range ops {
		o := &ops[i]
		if o.F != opCreate || o.Kind != history.OK || o.Code != codeOK || o.Arg&ephemeral == 0 {
			continue
		}
		r.Checked++
		l := sessions[o.Session]
		if l == nil {
			continue
		}
		path := o.Key
		if o.Note != "" {
			path = o.Note
		}
		late = max(late, r.observed(o, path, l, lists, names))
	}
	r.figure("longest life beyond the timeout, s", float64(late)/1e9)
	return r
}

// owned judges a look at a session's own ephemeral node, and that a session that was closed has
// written nothing since.
func (r *Result) owned(o *history.Op, sessions map[int64]*life) {
	if o.Kind != history.OK || o.Code != codeOK {
		return
	}
	if o.F == opGet && o.Note == "ephemeral" && o.Stat.Owner != o.Session {
		r.add([]history.Op{*o}, "a session's ephemeral node has the owner 0x%x", uint64(o.Stat.Owner))
	}
	if l := sessions[o.Session]; l != nil && l.closed != nil && isWrite(o.F) && o.Zxid > l.closed.Zxid {
		r.add([]history.Op{*l.closed, *o}, "a session that was closed has written")
	}
}

// observed judges all lists that a node should or should not be in; it returns how long after
// its session's timeout it was still seen.
func (r *Result) observed(o *history.Op, path string, l *life, lists []*history.Op, names []map[string]bool) (late int64) {
	for i, list := range lists {
		if !strings.HasPrefix(path, list.Key+"/") || list.Zxid < o.Zxid {
			continue
		}
		there := names[i][path]
		switch {
		case there && l.closed != nil && list.Zxid >= l.closed.Zxid:
			r.add([]history.Op{*o, *l.closed, *list}, "%s is there although its session was closed", path)
			return late
		case there:
			late = max(late, list.End-l.alive-l.timeout)
		case l.closing != 0 && l.closing < list.End:
		case list.End < l.alive+l.timeout:
			r.add([]history.Op{*o, short(list)}, "%s is gone %.3f s before its session can be over", path, float64(l.alive+l.timeout-list.End)/1e9)
			return late
		}
	}
	return late
}

// short is a list without its names.
func short(o *history.Op) history.Op {
	c := *o
	c.Parts = nil
	return c
}
