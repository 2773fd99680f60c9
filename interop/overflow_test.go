package interop

import (
	"fmt"
	"hash/adler32"
	"os"
	"path/filepath"
	"testing"

	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/server/replication"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/znode"
)

// TestBetterSequenceOverflow makes sequential nodes where the parent's counter ends. From
// there on ZooKeeper gives the last number again and again, so that the names collide;
// zkd says that there are no more. Nobody can make two billion nodes in a test: both start
// from a snapshot in which the counter stands near its end.
func TestBetterSequenceOverflow(t *testing.T) {
	leaveOutOfShort(t)
	for _, kind := range serversUnderTest(t) {
		t.Run(kind, func(t *testing.T) {
			if kind == zkdCluster {
				t.Skip("starts from files of one server; how a cluster numbers is the same code")
			}
			s := newServer(t, kind, settings{})
			nodes := []snapNode{{"/seq", 1<<31 - 3}}
			if kind == zkd {
				startNearTheEnd(t, s, nodes)
			} else {
				writeSnapshot(t, filepath.Join(s.dir, "data"), nodes)
			}
			s.start()
			c := openSession(t, s.addr, 20000)
			var got []string
			for range 5 {
				r := c.call(opCreate, createBody("/seq/n-", nil, 2))
				got = append(got, fmt.Sprintf("%d %s", r.err, (&cursor{b: r.rest}).str()))
			}
			t.Logf("%q", got)
			for i, name := range []string{"/seq/n-2147483645", "/seq/n-2147483646", "/seq/n-2147483647"} {
				if got[i] != "0 "+name {
					t.Errorf("node %d: %s, want %s", i, got[i], name)
				}
			}
			other := c.call(opCreate, createBody("/seq/m-", nil, 2))
			switch collides := (&cursor{b: other.rest}).str() == "/seq/m-2147483647"; {
			case kind == zookeeper && !collides:
				t.Error("ZooKeeper does not give its last number again: this test is out of date")
			case kind == zkd && (other.err == 0 || got[3] != got[4] || got[3] == "-110 "):
				t.Errorf("beyond the last number: %q, and %d for another name; want one error that is not NodeExists", got[3:], other.err)
			}
			if kind == zkd { // names that carry no number are none of it
				c.must(opCreate, createBody("/seq/plain", nil, 0))
			}
		})
	}
}

// startNearTheEnd makes zkd's data directory of a machine whose counters stand near the end.
func startNearTheEnd(t *testing.T, s *server, nodes []snapNode) {
	t.Helper()
	m := state.New()
	for _, n := range nodes {
		if _, err := m.ImportNode(n.path, nil, acl.Open(), znode.Persisted{Cversion: n.created}); err != nil {
			t.Fatal(err)
		}
	}
	m.FinishImport(0x100, 0)
	if err := replication.Create(replication.Options{Dir: filepath.Join(s.dir, "data")}, m); err != nil {
		t.Fatal(err)
	}
}

// snapNode is a node of a snapshot with the number of children that it ever had.
type snapNode struct {
	path    string
	created int32
}

// writeSnapshot writes a snapshot of ZooKeeper with its reserved nodes and these.
func writeSnapshot(t *testing.T, dataDir string, nodes []snapNode) {
	t.Helper()
	const zxid = 0x100
	b := body("ZKSN").i32(2).i64(-1).i32(0)                // magic, version, database, no sessions
	b = b.i32(1).i64(1).acl([]ace{{1, "world", "anyone"}}) // the ACL table; key -1 is open to all
	node := func(path string, acl int64, created, aversion int32, at int64) {
		b = b.str(path).buf([]byte{}).i64(acl).i64(at).i64(at).i64(0).i64(0).i32(0).i32(created).i32(aversion).i64(0).i64(at)
	}
	node("", -1, 0, 0, 0)
	node("/zookeeper", -1, 0, 0, 0)
	node("/zookeeper/config", 1, 0, -1, 0)
	node("/zookeeper/quota", -1, 0, 0, 0)
	for _, n := range nodes {
		node(n.path, -1, n.created, 0, zxid)
	}
	b = b.str("/")
	b = b.i64(int64(adler32.Checksum(b))).str("/")
	dir := filepath.Join(dataDir, "version-2")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("snapshot.%x", zxid)), b, 0o600); err != nil {
		t.Fatal(err)
	}
}
