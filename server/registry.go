package server

import (
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/zkd-project/zkd/server/watch"
)

// A registry knows the connections of this server by all their names.
//
// Invariants: a connection is in byNumber, and at its watch id in byWatch, from register to
// forget; bySession holds a connection only while it is in byNumber. A watch id is freed
// under the node's read lock, after the watches of its connection are gone, so no event can
// reach the next owner of the id.
type registry struct {
	mu        sync.Mutex
	byNumber  map[uint64]*conn
	byWatch   []*conn // index is the watch id
	freeIDs   []watch.ID
	sessions  map[int64]*conn
	opening   map[*conn]int64 // the connections whose create or attach is under way, and its session
	perAddr   map[netip.Addr]int
	numbers   uint64 // the last connection number given
	gen       uint64 // of the node's proposals
	listeners []net.Listener
	accepting bool // false once the server is closing
}

func newRegistry() registry {
	return registry{
		byNumber: map[uint64]*conn{}, sessions: map[int64]*conn{}, opening: map[*conn]int64{},
		perAddr: map[netip.Addr]int{}, accepting: true,
	}
}

// register takes a new connection in, or says why not.
func (s *Server) register(nc net.Conn, secure bool) (*conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	addr := remoteAddr(nc).Addr()
	switch {
	case !s.accepting:
		return nil, net.ErrClosed
	case s.maxPerAddress > 0 && s.perAddr[addr] >= s.maxPerAddress:
		return nil, fmt.Errorf("too many connections from %s: maxClientCnxns is %d", addr, s.maxPerAddress)
	case s.maxConnections > 0 && len(s.byNumber) >= s.maxConnections:
		return nil, fmt.Errorf("too many connections: the limit is %d (maxCnxns, or the open files allowed)", s.maxConnections)
	}
	var id watch.ID
	if n := len(s.freeIDs); n > 0 {
		id, s.freeIDs = s.freeIDs[n-1], s.freeIDs[:n-1]
	} else {
		id = watch.ID(len(s.byWatch))
		s.byWatch = append(s.byWatch, nil)
	}
	s.numbers++
	c := newConn(s, nc, s.numbers, id, secure)
	c.gen = s.gen
	s.byNumber[c.number] = c
	s.byWatch[id] = c
	s.perAddr[addr]++
	s.connsDone.Add(1)
	return c, nil
}

// forget removes a connection that is dead, and its watches.
func (s *Server) forget(c *conn) {
	// Nobody adds watches for a dead connection. There may be a million: the lock must not
	// be held meanwhile.
	s.watches.RemoveAll(c.id)
	if n := s.currentNode(); n != nil {
		n.RLock()
		defer n.RUnlock()
	}
	c.mu.Lock()
	s.pendingBytes.Add(-int64(c.pending.bytes))
	s.pendingRequests.Add(-int64(c.pending.len()))
	s.pendingSyncs.Add(-c.pending.syncs())
	c.pending = pendingQueue{}
	session := c.session
	c.mu.Unlock()
	if session != 0 {
		s.expiry.parted(session, c.signNs())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byNumber, c.number)
	s.byWatch[c.id] = nil
	s.freeIDs = append(s.freeIDs, c.id)
	if s.sessions[session] == c {
		delete(s.sessions, session)
	}
	addr := c.remote.Addr()
	if s.perAddr[addr]--; s.perAddr[addr] <= 0 {
		delete(s.perAddr, addr)
	}
}

// connOf returns the connection that holds a session here, or nil.
func (s *Server) connOf(id int64) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[id]
}

func (s *Server) connByNumber(n uint64) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byNumber[n]
}

func (s *Server) connByWatch(id watch.ID) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if int(id) >= len(s.byWatch) {
		return nil
	}
	return s.byWatch[id]
}

// bindSession gives a session to c, or to nobody here if c is nil, and returns who had it.
func (s *Server) bindSession(id int64, c *conn) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.sessions[id]
	if c == nil {
		delete(s.sessions, id)
	} else {
		s.sessions[id] = c
	}
	return old
}

// boundSessions appends the sessions that have a connection here, with it.
func (s *Server) boundSessions(list []sign) []sign {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, c := range s.sessions {
		list = append(list, sign{id, c, false})
	}
	return list
}

// signsOfLife appends where to look for signs of life: the sessions that are about to get a connection
// here, and then those that have one, so that none is missed that gets it in between.
func (s *Server) signsOfLife(list []sign) []sign {
	s.mu.Lock()
	for c, id := range s.opening {
		list = append(list, sign{id, c, true})
	}
	s.mu.Unlock()
	return s.boundSessions(list)
}

// opens notes that the create or attach of a connection is under way, until over is called.
func (s *Server) opens(c *conn, session int64) (over func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opening[c] = session
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.opening, c)
	}
}

// connections returns all connections, in no order.
func (s *Server) connections() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*conn, 0, len(s.byNumber))
	for _, c := range s.byNumber {
		all = append(all, c)
	}
	return all
}

// remoteAddr is the client's address, the zero one if the transport has none.
func remoteAddr(nc net.Conn) netip.AddrPort {
	a, ok := nc.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := a.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
