package state

import (
	"testing"

	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/znode"
	"github.com/zkd-project/zkd/wire"
)

func TestImportedMachineGoesOn(t *testing.T) {
	m := New()
	if err := m.ImportSession(alice, session.LegacyPassword(alice), 30000); err != nil {
		t.Fatal(err)
	}
	for _, id := range []int64{alice, 0} {
		if m.ImportSession(id, session.LegacyPassword(id), 30000) == nil {
			t.Errorf("session %#x was taken", id)
		}
	}
	node := func(path string, list []wire.ACL, p znode.Persisted) bool {
		t.Helper()
		ok, err := m.ImportNode(path, []byte("data"), list, p)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	node("/", acl.Open(), znode.Persisted{Cversion: 5})
	node("/zookeeper/config", bobsOwn, znode.Persisted{Aversion: 3})
	node("/n", bobsOwn, znode.Persisted{Czxid: 7, Mzxid: 8, Pzxid: 9, Version: 2, Cversion: 40})
	node("/n", worldRead, znode.Persisted{Czxid: 7, Mzxid: 8, Pzxid: 9, Version: 3, Cversion: 41})
	if !node("/mine", acl.Open(), znode.Persisted{Owner: znode.SessionOwner(alice)}) {
		t.Error("an ephemeral of a living session was left out")
	}
	if node("/orphan", acl.Open(), znode.Persisted{Owner: znode.SessionOwner(bob)}) {
		t.Error("an ephemeral without a session was imported")
	}
	if _, err := m.ImportNode("/no/parent", nil, bobsOwn, znode.Persisted{}); err == nil {
		t.Error("a node without a parent was imported")
	}
	m.FinishImport(0x500000007, 9000)
	m = restored(t, written(t, m))
	g := bareRig(t, m)
	g.reqs[alice] = 0
	if r := g.must(alice, wire.OpCreate, create("/n-", wire.FlagPersistentSequential)); r.Path != "/n-0000000005" || r.Zxid <= 0x500000007 {
		t.Errorf("%+v", r)
	}
	if n := g.stat("/n"); n.Version != 3 || n.Cversion != 82 {
		t.Errorf("%+v", n)
	}
	r := g.apply(&Command{Kind: KindExpire, Session: alice, Epoch: 1})
	if r.Closed != alice || len(r.Events) != 1 {
		t.Errorf("%+v", r)
	}
	if err := m.Check(); err != nil {
		t.Error(err)
	}
}
