package check

import "github.com/zkd-project/zkd/jepsen/history"

// SessionOrder checks what each client saw of the node that it alone writes, over all its
// connections: requests take effect in the order of sending, each at most once, those that
// were answered exactly once; reads show all writes sent before them on the connection; and no
// write of an old connection takes effect after the client has been answered on a new one.
//
// The version of the node counts the writes. Between two answers it must have risen by the
// answered ones and by at most those whose answers were lost.
func SessionOrder(ops []history.Op) Result {
	r := Result{Checker: "session-order"}
	owners := map[string]*owner{}
	for i := range ops {
		o := &ops[i]
		if (o.F != opSet && o.F != opGet && o.F != opSyncGet) || o.Note != "own" || o.Kind == history.Fail {
			continue
		}
		w := owners[o.Key]
		if w == nil {
			w = &owner{}
			owners[o.Key] = w
		}
		switch {
		case o.Kind == history.Unknown && o.F == opSet:
			w.unknown = append(w.unknown, o)
		case o.Kind == history.Unknown:
		case o.Code != codeOK || o.Stat == nil:
			r.add([]history.Op{*o}, "the node that only this client writes answers with code %d", o.Code)
		default:
			r.Checked++
			r.own(w, o)
		}
	}
	return r
}

// owner is what is known of a node after the newest answer.
type owner struct {
	version int32
	value   string
	last    *history.Op
	unknown []*history.Op // writes since then whose answers were lost, in the order of sending
}

// own judges an answer and moves on to it.
func (r *Result) own(w *owner, o *history.Op) {
	before := o.Stat.Version
	if o.F == opSet {
		before--
	}
	applied := int(before - w.version)
	var seen []history.Op
	if w.last != nil {
		seen = append(seen, *w.last)
	}
	for _, u := range w.unknown {
		seen = append(seen, *u)
	}
	seen = append(seen, *o)
	switch {
	case applied < 0:
		r.add(seen, "version %d after version %d: a write was lost, or a read went back", o.Stat.Version, w.version)
	case applied > len(w.unknown):
		r.add(seen, "version %d after version %d and %d unanswered writes: something was done twice", o.Stat.Version, w.version, len(w.unknown))
	case o.F != opSet && !w.mayBe(applied, o.Value):
		r.add(seen, "version %d has the value %q: writes were done out of order", o.Stat.Version, o.Value)
	}
	w.version, w.value, w.last, w.unknown = o.Stat.Version, o.Value, o, nil
}

// mayBe says whether the value is that of the applied-th of the writes without an answer. Of
// those of one connection, the first ones were done; of several, any in order.
func (w *owner) mayBe(applied int, value string) bool {
	if applied == 0 {
		return value == w.value || w.last == nil
	}
	conns := map[int64]bool{}
	for _, u := range w.unknown {
		conns[u.Conn] = true
	}
	if len(conns) == 1 {
		return w.unknown[applied-1].Value == value
	}
	for _, u := range w.unknown[applied-1:] {
		if u.Value == value {
			return true
		}
	}
	return false
}
