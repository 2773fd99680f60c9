package acl

import (
	"strings"

	"github.com/zkd-project/zkd/wire"
)

// open is never written to.
var open = []wire.ACL{{Perms: wire.PermAll, ID: wire.ID{Scheme: SchemeWorld, ID: anyone}}}

// Open is the list that lets everyone do everything (OPEN_ACL_UNSAFE). Do not change it.
func Open() []wire.ACL { return open }

// IsOpen says whether the list is Open.
func IsOpen(list []wire.ACL) bool {
	return len(list) == 1 && list[0].Perms == wire.PermAll && isWorld(&list[0].ID)
}

func isWorld(id *wire.ID) bool { return id.Scheme == SchemeWorld && id.ID == anyone }

// Allowed says whether a caller with the identities ids may do what perm says to a node
// with the list; with several bits in perm one of them suffices. An empty list allows
// everything.
func Allowed(s *Settings, list []wire.ACL, perm int32, ids []wire.ID) bool {
	if s.SkipACL || len(list) == 0 {
		return true
	}
	if len(list) > fewEntries && len(ids) > fewEntries {
		return s.allowedAmongMany(list, perm, ids)
	}
	for i := range list {
		if e := &list[i]; e.Perms&perm != 0 && (isWorld(&e.ID) || s.anyMatches(&e.ID, ids)) {
			return true
		}
	}
	return HasSuper(ids)
}

func (s *Settings) anyMatches(entry *wire.ID, ids []wire.ID) bool {
	if !s.registered(entry.Scheme) {
		return false
	}
	for i := range ids {
		if id := &ids[i]; id.Scheme == entry.Scheme && s.matches(id.Scheme, id.ID, entry.ID) {
			return true
		}
	}
	return false
}

// allowedAmongMany is Allowed without comparing every entry with every identity: a client can
// have some hundreds, a list tens of thousands of entries, and half a second for each of its
// requests would be everybody's, since the log waits for it.
func (s *Settings) allowedAmongMany(list []wire.ACL, perm int32, ids []wire.ID) bool {
	equal := make(map[wire.ID]struct{}, len(ids))
	var other []wire.ID // match more than themselves
	for _, id := range ids {
		switch {
		case id.Scheme == SchemeIP || id.Scheme == SchemeSASL:
			other = append(other, id)
		case s.registered(id.Scheme):
			equal[id] = struct{}{}
		}
	}
	for i := range list {
		e := &list[i]
		if e.Perms&perm == 0 {
			continue
		}
		if _, same := equal[e.ID]; same || isWorld(&e.ID) || s.anyMatches(&e.ID, other) {
			return true
		}
	}
	return HasSuper(ids)
}

// HasSuper says whether the super user is among the identities.
func HasSuper(ids []wire.ID) bool {
	for i := range ids {
		if ids[i].Scheme == SchemeSuper {
			return true
		}
	}
	return false
}

// Redact is the list as it is shown to those who may read but not administer the node: the
// hash in every digest entry is replaced by x. The list itself is not changed.
func Redact(list []wire.ACL) []wire.ACL {
	var out []wire.ACL
	for i := range list {
		colon := strings.IndexByte(list[i].ID.ID, ':')
		if list[i].ID.Scheme != SchemeDigest || colon < 0 {
			continue
		}
		if out == nil {
			out = append(out, list...)
		}
		out[i].ID.ID = list[i].ID.ID[:colon] + ":x"
	}
	if out == nil {
		return list
	}
	return out
}
