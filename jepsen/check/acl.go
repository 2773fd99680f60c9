package check

import (
	"slices"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/jepsen/history"
)

// Permissions, as on the wire.
const (
	permRead = 1 << iota
	permWrite
	permCreate
	permDelete
	permAdmin
)

// asks are the permissions of which a probe needs one; none: it is allowed to everybody.
var asks = map[string]int{
	"get": permRead, "watch": permRead, "children": permRead, "multi-get": permRead, "multi-children": permRead,
	"multi-check": permRead, "getacl": permRead | permAdmin, "set": permWrite, "multi-set": permWrite, "create": permCreate,
	"delete": permDelete, "setacl": permAdmin, "exists": permRead,
}

// probeReads are those that are answered from the state at the zxid of their reply; the others
// take that zxid themselves.
var probeReads = []string{"get", "watch", "children", "multi-get", "multi-children", "getacl", "exists"}

// ACL checks what clients of several identities may do, against what the list of the node says at
// that moment: lines "acl-create" and "acl-set" have the list as "WHO:PERMISSIONS,…" in Value;
// a "probe" has the operation in Value and the identity in Note. Events reach only who may read.
//
// Lines "seen" are words that were planted in data and names and have turned up in the bytes that
// a client received, wherever in them: its identity must have been allowed to read the node at
// some time. A probe "getacl" with Arg 1 has shown a hash of a password.
func ACL(ops []history.Op) Result {
	r := Result{Checker: "acl"}
	lists := map[string]*listed{}
	at := func(key string) *listed {
		if lists[key] == nil {
			lists[key] = &listed{}
		}
		return lists[key]
	}
	for i := range ops {
		o := &ops[i]
		set := o.F == "acl-create" || o.F == "acl-set" || o.F == "probe" && o.Value == "setacl"
		switch {
		case !set || o.Kind == history.Fail:
		case o.Kind == history.Unknown:
			l := at(o.Key)
			l.maybe = append(l.maybe, listIn(o))
			if l.retired == 0 {
				l.retired = o.Begin
			}
		case o.Code == codeOK:
			at(o.Key).spans = append(at(o.Key).spans, span{o.Zxid, listIn(o)})
		}
	}
	for _, l := range lists {
		slices.SortFunc(l.spans, func(a, b span) int { return int(a.zxid - b.zxid) })
	}
	for i := range ops {
		o := &ops[i]
		switch {
		case o.F == "probe" && o.Kind == history.OK:
			r.probe(o, lists[o.Key])
		case o.Kind == history.Event && lists[o.Key] != nil:
			r.eventFor(o, lists[o.Key])
		case o.F == "seen":
			r.Checked++
			if l := lists[o.Key]; l == nil || !l.everLets(o.Note) {
				r.add([]history.Op{*o}, "%s has received %q, which it may never read", o.Note, o.Value)
			}
		}
	}
	return r
}

// listed is the access control list of a node over time.
type listed struct {
	spans   []span
	retired int64    // from when on it is not known; 0: never
	maybe   []string // those that may have come into force: their answers were lost
}

// listIn is the list that an operation sets.
func listIn(o *history.Op) string {
	if o.F == "probe" {
		return o.Parts[0].Value
	}
	return o.Value
}

// everLets says whether somebody could read the node at some time.
func (l *listed) everLets(who string) bool {
	lets := func(list string) bool { return permits(list, who, permRead) }
	return slices.ContainsFunc(l.maybe, lets) || slices.ContainsFunc(l.spans, func(s span) bool { return lets(s.list) })
}

type span struct {
	zxid int64
	list string
}

// as is the list at a zxid; false if it is not known.
func (l *listed) as(zxid, end int64) (string, bool) {
	if l == nil || l.retired != 0 && end > l.retired {
		return "", false
	}
	i, _ := slices.BinarySearchFunc(l.spans, zxid+1, func(s span, z int64) int { return int(s.zxid - z) })
	if i == 0 {
		return "", false
	}
	return l.spans[i-1].list, true
}

// permits says whether a list gives somebody one of the permissions.
func permits(list, who string, perms int) bool {
	for entry := range strings.SplitSeq(list, ",") {
		name, text, _ := strings.Cut(entry, ":")
		has, _ := strconv.Atoi(text)
		if has&perms != 0 && (name == "world" || name == who) {
			return true
		}
	}
	return false
}

func (r *Result) probe(o *history.Op, l *listed) {
	zxid := o.Zxid
	if !slices.Contains(probeReads, o.Value) {
		zxid--
	}
	list, known := l.as(zxid, o.End)
	if !known {
		return
	}
	r.Checked++
	perms, ok := asks[o.Value]
	allowed := perms == 0 || permits(list, o.Note, perms)
	switch {
	case !ok:
		r.add([]history.Op{*o}, "a probe that the model does not know")
	case allowed && o.Code == codeNoAuth:
		r.add([]history.Op{*o}, "%s was refused %s, which the list %s permits", o.Note, o.Value, list)
	case !allowed && o.Code != codeNoAuth:
		r.add([]history.Op{*o}, "%s was permitted %s, which the list %s refuses", o.Note, o.Value, list)
	case o.Value == "getacl" && o.Arg == 1 && !permits(list, o.Note, permAdmin):
		r.add([]history.Op{*o}, "%s was shown the hash of a password", o.Note)
	}
}

func (r *Result) eventFor(o *history.Op, l *listed) {
	list, known := l.as(o.Zxid-1, o.End)
	if !known {
		return
	}
	r.Checked++
	if !permits(list, o.Note, permRead) {
		r.add([]history.Op{*o}, "%s got an event of a node that it may not read: %s", o.Note, list)
	}
}
