package server

import (
	"fmt"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/wire"
)

func TestFailedReadsLeaveNoWatchButExistsDoes(t *testing.T) {
	srv := startServer(t)
	c := open(t, srv.addr, 10_000)
	c.call(wire.OpGetData, readBody("/n", true), wire.NoNode)
	c.call(wire.OpGetChildren, readBody("/n", true), wire.NoNode)
	if n := srv.watches.Counts().Watches; n != 0 {
		t.Errorf("%d watches", n)
	}
	c.call(wire.OpExists, readBody("/n", true), wire.NoNode)
	xid := c.send(wire.OpCreate, createBody("/n", nil, persistent))
	c.expectEvent(wire.EventNodeCreated, "/n")
	c.expect(xid, wire.OK)
	c.call(wire.OpSetData, setBody("/n", "x"), wire.OK) // one-shot: no event
}

func TestSetWatchesFiresWhatWasMissedBeforeItsReply(t *testing.T) {
	srv := startServer(t)
	c := open(t, srv.addr, 10_000)
	for _, p := range []string{"/changed", "/same", "/parent", "/calm"} {
		c.call(wire.OpCreate, createBody(p, nil, persistent), wire.OK)
	}
	seen := c.lastZxid
	c.call(wire.OpSetData, setBody("/changed", "x"), wire.OK)
	c.call(wire.OpCreate, createBody("/parent/n", nil, persistent), wire.OK)
	c.call(wire.OpCreate, createBody("/born", nil, persistent), wire.OK)
	r := wire.SetWatches2{
		RelativeZxid:               seen,
		DataWatches:                []string{"/changed", "/same", "/gone"},
		ExistWatches:               []string{"/born", "/unborn"},
		ChildWatches:               []string{"/parent", "/calm", "/gone"},
		PersistentWatches:          []string{"/same"},
		PersistentRecursiveWatches: []string{"/calm"},
	}
	for _, tc := range []struct {
		op   wire.OpCode
		xid  int32
		body []byte
	}{
		{wire.OpSetWatches, wire.XidSetWatches, r.AppendSetWatches(nil)},
		{wire.OpSetWatches2, 5, r.Append(nil)},
	} {
		back := attach(t, srv.addr, c)
		back.write(request(tc.xid, tc.op, tc.body))
		for _, e := range []struct {
			typ  wire.EventType
			path string
		}{
			{wire.EventNodeDataChanged, "/changed"},
			{wire.EventNodeDeleted, "/gone"},
			{wire.EventNodeCreated, "/born"},
			{wire.EventNodeChildrenChanged, "/parent"},
			{wire.EventNodeDeleted, "/gone"},
		} {
			if got := back.expectEvent(e.typ, e.path); got.Zxid != -1 {
				t.Errorf("event with zxid 0x%x", got.Zxid)
			}
		}
		back.expect(tc.xid, wire.OK)
		c = back
	}
	// The others are registered.
	xid := c.send(wire.OpCreate, createBody("/unborn", nil, persistent))
	c.expectEvent(wire.EventNodeCreated, "/unborn")
	c.expect(xid, wire.OK)
	for range 2 {
		xid = c.send(wire.OpSetData, setBody("/same", "x"))
		c.expectEvent(wire.EventNodeDataChanged, "/same")
		c.expect(xid, wire.OK)
	}
	xid = c.send(wire.OpCreate, createBody("/calm/n", nil, persistent))
	c.expectEvent(wire.EventNodeCreated, "/calm/n")
	c.expectEvent(wire.EventNodeChildrenChanged, "/calm")
	c.expect(xid, wire.OK)
}

func TestRemoveAndCheckWatches(t *testing.T) {
	c := open(t, startServer(t).addr, 10_000)
	body := func(typ wire.WatcherType) []byte {
		r := wire.WatchesRequest{Path: "/", Type: typ}
		return r.Append(nil)
	}
	c.call(wire.OpGetData, readBody("/", true), wire.OK)
	c.call(wire.OpCheckWatches, body(wire.WatcherData), wire.OK)
	c.call(wire.OpCheckWatches, body(wire.WatcherChildren), wire.NoWatcher)
	c.call(wire.OpRemoveWatches, body(wire.WatcherChildren), wire.NoWatcher)
	c.call(wire.OpRemoveWatches, body(wire.WatcherAny), wire.OK)
	c.call(wire.OpRemoveWatches, body(wire.WatcherAny), wire.NoWatcher)
	c.call(wire.OpSetData, setBody("/", "x"), wire.OK)
}

func TestAddWatchAnswersWithAZero(t *testing.T) {
	c := open(t, startServer(t).addr, 10_000)
	r := wire.AddWatchRequest{Path: "/", Mode: wire.AddWatchPersistent}
	if got := c.call(wire.OpAddWatch, r.Append(nil), wire.OK); string(got.body) != "\x00\x00\x00\x00" {
		t.Errorf("body %x", got.body)
	}
}

// A watcher who may not read the node is not told, and its watch is used up all the same.
func TestEventsReachOnlyThoseWhoMayRead(t *testing.T) {
	srv := startServer(t)
	owner, stranger := open(t, srv.addr, 10_000), open(t, srv.addr, 10_000)
	owner.call(wire.OpAuth, authBody("digest", "bob:pw"), wire.OK)
	stranger.call(wire.OpExists, readBody("/secret", true), wire.NoNode)
	owner.call(wire.OpExists, readBody("/secret", true), wire.NoNode)
	r := wire.CreateRequest{Path: "/secret", ACL: []wire.ACL{{Perms: wire.PermAll, ID: wire.ID{Scheme: "auth"}}}}
	xid := owner.send(wire.OpCreate, r.Append(nil))
	owner.expectEvent(wire.EventNodeCreated, "/secret")
	owner.expect(xid, wire.OK)
	stranger.call(wire.OpExists, readBody("/", false), wire.OK) // no event came before
	if n := srv.watches.Counts().Watches; n != 0 {
		t.Errorf("%d watches are left", n)
	}
}

// Watch ids are used again: a new connection must not get events for the one before, and
// nothing is left behind.
func TestWatchesGoWithTheirConnection(t *testing.T) {
	srv := startServer(t)
	writer := open(t, srv.addr, 10_000)
	writer.call(wire.OpCreate, createBody("/n", nil, persistent), wire.OK)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				writer.call(wire.OpSetData, setBody("/n", ""), wire.OK)
			}
		}
	})
	for range 200 {
		c := open(t, srv.addr, 10_000)
		for i := range 10 {
			c.call(wire.OpExists, readBody(fmt.Sprintf("/missing%d", i), true), wire.NoNode)
		}
		c.send(wire.OpGetData, readBody("/n", true)) // fires at once
		_ = c.nc.Close()
		other := open(t, srv.addr, 10_000)
		other.ping()
		other.ping()
		_ = other.nc.Close()
	}
	close(stop)
	wg.Wait()
	eventually(t, "no watch is left", func() bool { return srv.watches.Counts().Watches == 0 })
	if n := len(srv.byWatch); n > 50 {
		t.Errorf("%d watch ids for at most a few connections at a time", n)
	}
}

// A transaction can change a node with a long list many thousand times, and its watcher can have
// many identities: the list is judged once for it, not for each event, which took the log minutes.
func TestLongListIsJudgedOnceForAWatcherAndACommand(t *testing.T) {
	srv := startServer(t)
	c := open(t, srv.addr, 60_000)
	list := make([]wire.ACL, shortList+1)
	for i := range list {
		list[i] = wire.ACL{Perms: wire.PermRead, ID: wire.ID{Scheme: "digest", ID: fmt.Sprint("u", i, ":hash")}}
	}
	ids := []wire.ID{list[shortList].ID}
	srv.node.RLock() // the apply loop is out of the way
	if !srv.mayHear(list, &ids) || len(srv.heard) != 1 {
		t.Errorf("who may read is not told, or that is not remembered: %v", srv.heard)
	}
	srv.heard[hearing{&list[0], &ids}] = false
	if srv.mayHear(list, &ids) {
		t.Error("the list is judged again")
	}
	stranger := []wire.ID{{Scheme: "digest", ID: "u:hash"}}
	if srv.mayHear(list, &stranger) {
		t.Error("somebody else is told")
	}
	if short := list[:shortList]; srv.mayHear(short, &ids) || len(srv.heard) != 2 {
		t.Errorf("a short list is taken for a long one: %v", srv.heard)
	}
	srv.node.RUnlock()
	c.call(wire.OpSetData, setBody("/", "x"), wire.OK)
	srv.node.RLock()
	defer srv.node.RUnlock()
	if len(srv.heard) != 0 {
		t.Error("what was found is remembered for the next command, which may have other settings")
	}
}

func TestWatchersOfALongListAreToldIfTheyMayRead(t *testing.T) {
	srv := startServer(t)
	writer, reader, stranger := open(t, srv.addr, 60_000), open(t, srv.addr, 60_000), open(t, srv.addr, 60_000)
	reader.call(wire.OpAuth, authBody("digest", "bob:pw"), wire.OK)
	list := []wire.ACL{
		{Perms: wire.PermWrite, ID: wire.ID{Scheme: "world", ID: "anyone"}},
		{Perms: wire.PermRead, ID: wire.ID{Scheme: "digest", ID: "bob:ikIaKsbtGweaHnb/jKn7OHqbunM="}},
	}
	for i := range 2 * shortList {
		list = append(list, wire.ACL{Perms: wire.PermRead, ID: wire.ID{Scheme: "digest", ID: fmt.Sprint("u", i, ":hash")}})
	}
	create := wire.CreateRequest{Path: "/n", ACL: list}
	writer.call(wire.OpCreate, create.Append(nil), wire.OK)
	r := wire.AddWatchRequest{Path: "/n", Mode: wire.AddWatchPersistent}
	reader.call(wire.OpAddWatch, r.Append(nil), wire.OK)
	stranger.call(wire.OpAddWatch, r.Append(nil), wire.OK)
	const n = 50
	ops := make([]wire.MultiOp, n)
	for i := range ops {
		ops[i] = wire.MultiOp{Op: wire.OpSetData, SetData: wire.SetDataRequest{Path: "/n", Version: -1}}
	}
	writer.call(wire.OpMulti, wire.AppendMulti(nil, ops), wire.OK)
	for range n {
		reader.expectEvent(wire.EventNodeDataChanged, "/n")
	}
	stranger.call(wire.OpSync, pathBody("/"), wire.OK) // the next frame, so there was no event
}
