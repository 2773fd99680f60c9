package fourletter

import (
	"slices"
	"time"
)

// connections is cons.
func (c *Commands) connections(t *text) {
	c.eachConnection(t, false)
}

// eachConnection writes a line for each connection, and an empty one.
func (c *Commands) eachConnection(t *text, brief bool) {
	for conn := range c.Source.Connections() {
		connection(t, &conn, brief)
		if t.err != nil {
			return
		}
	}
	t.line()
}

func connection(t *text, c *Connection, brief bool) {
	s := &c.Stats
	t.str(" ", javaAddr(c.Remote), "[", hex(int64(c.InterestOps))[2:], "](queued=", dec(s.Queued),
		",recved=", dec(s.Received), ",sent=", dec(s.Sent))
	if !brief && c.SessionID != 0 {
		t.str(",sid=", hex(c.SessionID), ",lop=", s.LastOp, ",est=", dec(s.EstablishedMs), ",to=", dec(c.TimeoutMs))
		if s.LastCxid >= 0 {
			t.str(",lcxid=", hex(s.LastCxid))
		}
		t.str(",lzxid=", hex(s.LastZxid), ",lresp=", dec(s.LastReplyMs), ",llat=", dec(s.LastLatencyMs),
			",minlat=", dec(s.MinLatencyMs), ",avglat=", dec(s.AvgLatencyMs), ",maxlat=", dec(s.MaxLatencyMs))
	}
	t.line(")")
}

// dump lists sessions, ephemeral nodes and connections.
func (c *Commands) dump(t *text) {
	t.line("SessionTracker dump:")
	s := c.Source.Sessions()
	if s.Local != nil {
		t.str("Local ")
		c.sessionSets(t, s.Local)
		if !s.Learner {
			t.str("Global ")
		}
	}
	if s.Learner {
		t.line("Global Sessions(", dec(len(s.Known)), "):")
		for _, k := range s.Known {
			t.line(hex(k.ID), "\t", dec(k.TimeoutMs), "ms")
		}
	} else {
		c.sessionSets(t, s.Expiring)
	}

	t.line("ephemeral nodes dump:")
	e := c.Source.Ephemerals()
	t.line("Sessions with Ephemerals (", dec(e.Sessions), "):")
	if e.Each != nil {
		for id, paths := range e.Each {
			t.line(hex(id), ":")
			if listPaths(t, paths) != nil {
				return
			}
		}
	}

	t.line("Connections dump:")
	c.connectionSets(t)
}

func (c *Commands) sessionSets(t *text, buckets []SessionBucket) {
	n := 0
	for _, b := range buckets {
		n += len(b.IDs)
	}
	t.line("Session Sets (", dec(len(buckets)), ")/(", dec(n), "):")
	for _, b := range buckets {
		c.setHeader(t, len(b.IDs), b.Expires)
		for _, id := range b.IDs {
			t.line("\t", hex(id))
		}
	}
}

// An expiringConn is what dump shows of a connection: about 100 bytes each instead of the
// whole Connection, since they have to be counted and sorted before the first is written.
type expiringConn struct {
	expiresMs int64
	line      string
}

// connectionSets groups the connections by when they are closed if nothing comes.
func (c *Commands) connectionSets(t *text) {
	var all []expiringConn
	for conn := range c.Source.Connections() {
		all = append(all, expiringConn{
			conn.Expires.UnixMilli(), "\tip: " + javaAddr(conn.Remote) + " sessionId: " + hex(conn.SessionID),
		})
	}
	slices.SortStableFunc(all, func(a, b expiringConn) int { return int(min(max(a.expiresMs-b.expiresMs, -1), 1)) })

	sets := 0
	for i := range all {
		if i == 0 || all[i].expiresMs != all[i-1].expiresMs {
			sets++
		}
	}
	t.line("Connections Sets (", dec(sets), ")/(", dec(len(all)), "):")
	for len(all) > 0 && t.err == nil {
		n := 1
		for n < len(all) && all[n].expiresMs == all[0].expiresMs {
			n++
		}
		c.setHeader(t, n, time.UnixMilli(all[0].expiresMs))
		for _, conn := range all[:n] {
			t.line(conn.line)
		}
		all = all[n:]
	}
}

// setHeader is the line above things that expire at the same time, with Java's Date.
func (c *Commands) setHeader(t *text, n int, expires time.Time) {
	loc := c.Location
	if loc == nil {
		loc = time.Local
	}
	t.line(dec(n), " expire at ", expires.In(loc).Format("Mon Jan 02 15:04:05 MST 2006"), ":")
}

func (c *Commands) watchSummary(t *text) {
	s := c.Source.WatchSummary()
	t.line(dec(s.Connections), " connections watching ", dec(s.Paths), " paths")
	t.line("Total watches:", dec(s.Watches))
}

func (c *Commands) watchesBySession(t *text) {
	for id, paths := range c.Source.WatchesBySession() {
		t.line(hex(id))
		if listPaths(t, paths) != nil {
			return
		}
	}
	t.line()
}

func (c *Commands) watchesByPath(t *text) {
	for path, ids := range c.Source.WatchesByPath() {
		t.line(path)
		for _, id := range ids {
			t.line("\t", hex(id))
		}
		if t.err != nil {
			return
		}
	}
	t.line()
}

func listPaths(t *text, paths []string) error {
	for _, p := range paths {
		t.line("\t", p)
	}
	return t.err
}
