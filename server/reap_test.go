package server

import (
	"testing"

	"github.com/zkd-project/zkd/wire"
)

func TestContainersAndTTLNodesAreDeletedWhenTheyAreDue(t *testing.T) {
	srv := startServer(t, set("znode.container.checkIntervalMs", "10"))
	c := open(t, srv.addr, 30_000)
	c.call(wire.OpCreateContainer, createBody("/unused", nil, 4), wire.OK)
	c.call(wire.OpCreateContainer, createBody("/used", nil, 4), wire.OK)
	c.call(wire.OpCreate, createBody("/used/n", nil, persistent), wire.OK)
	ttl := wire.CreateTTLRequest{Path: "/ttl", ACL: openACL, Flags: 5, TTLMs: 1}
	parent := wire.CreateTTLRequest{Path: "/parent", ACL: openACL, Flags: 5, TTLMs: 100}

	w := wire.AddWatchRequest{Path: "/ttl", Mode: wire.AddWatchPersistent}
	c.call(wire.OpAddWatch, w.Append(nil), wire.OK)
	xid := c.send(wire.OpCreateTTL, ttl.Append(nil))
	c.expectEvent(wire.EventNodeCreated, "/ttl")
	c.expect(xid, wire.OK)
	c.expectEvent(wire.EventNodeDeleted, "/ttl")

	withChild := []wire.MultiOp{ // together: else its time could be over before the child comes
		{Op: wire.OpCreateTTL, CreateTTL: parent},
		{Op: wire.OpCreate, Create: wire.CreateRequest{Path: "/parent/n", ACL: openACL}},
	}
	c.call(wire.OpMulti, wire.AppendMulti(nil, withChild), wire.OK)
	c.call(wire.OpExists, readBody("/used", true), wire.OK)
	xid = c.send(wire.OpDelete, deleteBody("/used/n"))
	c.expect(xid, wire.OK)
	c.expectEvent(wire.EventNodeDeleted, "/used")
	c.call(wire.OpExists, readBody("/unused", false), wire.OK)
	c.call(wire.OpExists, readBody("/parent", false), wire.OK)
}

// More nodes are due than one look deletes.
func TestManyDueNodesAreDeletedLookByLook(t *testing.T) {
	srv := startServer(t, set("znode.container.checkIntervalMs", "5"), set("znode.container.maxPerMinute", "60000"))
	c := open(t, srv.addr, 30_000)
	r := wire.AddWatchRequest{Path: "/", Mode: wire.AddWatchPersistentRecursive}
	c.call(wire.OpAddWatch, r.Append(nil), wire.OK)
	const n = 50
	var frames []byte
	for range n {
		ttl := wire.CreateTTLRequest{Path: "/ttl-", ACL: openACL, Flags: 6, TTLMs: 1}
		frames = append(frames, request(1, wire.OpCreateTTL, ttl.Append(nil))...)
	}
	c.write(frames)
	deleted := 0
	for deleted < n {
		r := c.next()
		if r.Xid != wire.XidNotification {
			continue
		}
		var e wire.WatcherEvent
		d := wire.NewDecoder(r.body)
		if e.Decode(&d); e.Type == wire.EventNodeDeleted {
			deleted++
		}
	}
}
