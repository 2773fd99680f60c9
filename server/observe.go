package server

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"time"
	"unsafe"

	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/server/fourletter"
	"github.com/zkd-project/zkd/server/stats"
	"github.com/zkd-project/zkd/wire"
)

// maxObservers look at the requests at a time: each makes every request dearer.
const maxObservers = 4

// ErrManyObservers is returned by Face.Top when enough people look already.
var ErrManyObservers = errors.New("several people look at the requests already; ask again in a moment")

// An observer counts the requests while somebody looks.
type observer struct {
	top   stats.Top
	depth int // names of a path that count
}

// Top counts the requests that this server gets until the time is over, or ctx ends, by session,
// user, address, path cut behind depth names, and operation. While nobody calls it nothing is
// counted: a request costs one look at a pointer.
func (f Face) Top(ctx context.Context, d time.Duration, depth, limit int) (stats.TopReport, error) {
	o := &observer{depth: depth}
	if !f.s.observe(o) {
		return stats.TopReport{}, ErrManyObservers
	}
	defer f.s.unobserve(o)
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-f.s.startup.Done():
	}
	return o.top.Report(limit), nil
}

// observe adds an observer, unless there are enough.
func (s *Server) observe(o *observer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*observer
	if now := s.observers.Load(); now != nil {
		all = slices.Clone(*now)
	}
	if len(all) == maxObservers {
		return false
	}
	all = append(all, o)
	s.observers.Store(&all)
	return true
}

func (s *Server) unobserve(o *observer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(*s.observers.Load()), func(x *observer) bool { return x == o })
	if len(all) == 0 {
		s.observers.Store(nil)
		return
	}
	s.observers.Store(&all)
}

// observed tells the observers of a request. Called by the reader.
func (c *conn) observed(all []*observer, op wire.OpCode, frame []byte) {
	ids := *c.ids.Load()
	a := stats.Ask{Session: c.sessionID(), User: users(ids), Op: op, Bytes: 4 + len(frame)}
	if ids[0].Scheme == acl.SchemeIP {
		a.Address = ids[0].ID
	} else {
		a.Address = c.remote.Addr().String()
	}
	path := pathOf(op, frame)
	for _, o := range all {
		cut := stats.PathPrefix(path, o.depth)
		a.Path = unsafe.String(unsafe.SliceData(cut), len(cut)) // Record copies what it keeps
		o.top.Record(c.number, &a)
	}
}

// users are the names that a client has proved, "" if there is none.
func users(ids []wire.ID) string {
	name := ""
	for _, id := range ids {
		switch n := acl.UserName(id); {
		case id.Scheme == acl.SchemeIP || n == "":
		case name == "":
			name = n
		default:
			name += "," + n
		}
	}
	return name
}

// pathOf is the path that a request is about, the first one of a transaction; nil if there is
// none. Of requests that may hold a secret it looks at nothing.
func pathOf(op wire.OpCode, frame []byte) []byte {
	const header, multiHeader = 8, 9
	if len(frame) < header {
		return nil
	}
	body := frame[header:]
	switch op {
	case wire.OpMulti, wire.OpMultiRead:
		if len(body) < multiHeader {
			return nil
		}
		body = body[multiHeader:]
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL, wire.OpDelete, wire.OpExists,
		wire.OpGetData, wire.OpSetData, wire.OpGetACL, wire.OpSetACL, wire.OpGetChildren, wire.OpGetChildren2,
		wire.OpSync, wire.OpAddWatch, wire.OpRemoveWatches, wire.OpCheckWatches, wire.OpGetEphemerals, wire.OpGetAllChildrenNumber:
	default:
		return nil
	}
	if len(body) < 4 {
		return nil
	}
	n := int64(int32(binary.BigEndian.Uint32(body)))
	if n < 0 || n > int64(len(body)-4) || n > 0 && body[4] != '/' {
		return nil
	}
	return body[4 : 4+n]
}

// SessionList are all sessions of the ensemble, by id.
func (f Face) SessionList() []fourletter.KnownSession {
	if n := f.s.currentNode(); n != nil {
		return knownSessions(n)
	}
	return nil
}

// KillSession ends a session as if its client had been silent for too long, and returns when its
// ephemeral nodes are gone; known is false if there is no such session.
func (f Face) KillSession(ctx context.Context, id int64) (known bool, err error) {
	n := f.s.currentNode()
	if n == nil || !f.s.serving() {
		return false, errNotServing
	}
	n.RLock()
	known = n.Machine().Session(id) != nil
	n.RUnlock()
	if !known {
		return false, nil
	}
	f.s.log.Info("a session is ended on demand", "session", sessionText(id))
	return true, f.s.ExpireSession(ctx, id)
}
