package acl

import "github.com/zkd-project/zkd/wire"

// maxExpandedBytes bounds a list on the wire after its auth entries were replaced by the
// caller's identities, of which there may be many. It is the largest reply that a default
// Java client accepts: a longer list could be stored but not read back.
const maxExpandedBytes = 0xfffff

// fewEntries is the length up to which every pair is compared, for duplicates and for
// permissions. A hostile list has tens of thousands of entries, so longer ones use a map.
const fewEntries = 16

// Expand turns the list of a create or setACL request into the one that is stored:
// duplicates are dropped, every entry must be well formed, and auth entries become one
// entry per proved identity of the caller. The result may share memory with list.
//
// The code is InvalidACL if nothing is left, an entry is malformed or of an unknown
// scheme, or an auth entry finds no identity.
func Expand(s *Settings, list []wire.ACL, ids []wire.ID) ([]wire.ACL, wire.Code) {
	if IsOpen(list) {
		return open, wire.OK
	}
	list = unique(list)
	if len(list) == 0 {
		return nil, wire.InvalidACL
	}
	hasAuth := false
	for i := range list {
		id := &list[i].ID
		switch {
		case isWorld(id):
		case id.Scheme == SchemeAuth:
			hasAuth = true
		case !s.valid(id.Scheme, id.ID):
			return nil, wire.InvalidACL
		}
	}
	if hasAuth {
		return s.replaceAuth(list, ids)
	}
	return list, wire.OK
}

// replaceAuth puts the caller's proved identities in the place of each auth entry.
func (s *Settings) replaceAuth(list []wire.ACL, ids []wire.ID) ([]wire.ACL, wire.Code) {
	var proved []wire.ID
	for _, id := range ids {
		if s.authenticates(id.Scheme) {
			proved = append(proved, id)
		}
	}
	if len(proved) == 0 {
		return nil, wire.InvalidACL
	}
	out := make([]wire.ACL, 0, len(list)-1+len(proved))
	size := 0
	for _, e := range list {
		if e.ID.Scheme != SchemeAuth {
			out = append(out, e)
			size += encodedBytes(&e.ID)
			continue
		}
		for _, id := range proved {
			out = append(out, wire.ACL{Perms: e.Perms, ID: id})
			if size += encodedBytes(&id); size > maxExpandedBytes {
				return nil, wire.InvalidACL
			}
		}
	}
	return out, wire.OK
}

// encodedBytes is the size of an entry on the wire: three int32 and two strings.
func encodedBytes(id *wire.ID) int { return 12 + len(id.Scheme) + len(id.ID) }

// unique drops repeated entries and keeps the order of first occurrence. A list without
// duplicates is returned as it is.
func unique(list []wire.ACL) []wire.ACL {
	if len(list) > fewEntries {
		return uniqueOfMany(list)
	}
	for i := range list {
		if !contains(list[:i], &list[i]) {
			continue
		}
		out := append([]wire.ACL(nil), list[:i]...)
		for j := i + 1; j < len(list); j++ {
			if !contains(out, &list[j]) {
				out = append(out, list[j])
			}
		}
		return out
	}
	return list
}

func contains(list []wire.ACL, e *wire.ACL) bool {
	for i := range list {
		if list[i] == *e {
			return true
		}
	}
	return false
}

func uniqueOfMany(list []wire.ACL) []wire.ACL {
	seen := make(map[wire.ACL]struct{}, len(list))
	out := make([]wire.ACL, 0, len(list))
	for _, e := range list {
		if _, dup := seen[e]; !dup {
			seen[e] = struct{}{}
			out = append(out, e)
		}
	}
	return out
}
