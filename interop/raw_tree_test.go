package interop

import (
	"testing"
)

// TestRawTree plays the operations on nodes: create in all modes, delete, setData, ACLs,
// reads, sequence numbers, the reserved tree.
func TestRawTree(t *testing.T) {
	forEachServer(t, settings{byRequest: true}, func(t *testing.T, s *server) { playTalks(t, s, "tree", treeCases) })
}

var treeCases = []rawCase{
	{"create-modes", func(k *talk) {
		c := k.open("")
		c.ask(k.create("~/p", []byte("x"), 0), k.create("~/e", []byte("x"), 1), k.create("~/s", nil, 2), k.create("~/es", nil, 3))
		c.ask(k.create2("~/p2", []byte("x"), 0), k.create2("~/e2", []byte("x"), 1), k.create2("~/s2", nil, 2), k.create2("~/es2", nil, 3))
		c.ask(k.container("~/c", 4), k.container("~/c0", 0), k.container("~/c1", 1), k.create("~/c4", nil, 4), k.create2("~/c5", nil, 4))
		c.ask(k.createTTL("~/t", 5, 600000), k.createTTL("~/ts", 6, 600000), k.get("~/e", false), k.get("~/c", false), k.get("~/t", false))
		c.ask(k.children2("~", false), k.ephemerals("~"), k.allChildren("~"))
		for _, p := range []string{"~/p", "~/e", "~/c", "~/c1", "~/c4", "~/t"} {
			c.ask(k.create(p+"/child", nil, 0))
		}
		c.end()
		c = k.open("")
		c.ask(k.children("~", false))
		c.end()
	}},
	{"create-with-bad-flags", func(k *talk) {
		c := k.open("")
		for _, f := range []int32{-1, 7, 8, 100, -0x80000000, 0x7fffffff, 5, 6} {
			c.ask(k.create("~/x", nil, f), k.create2("~/x", nil, f))
		}
		for _, f := range []int32{-1, 7, 5} {
			c.ask(k.container("~/x", f))
		}
		c.ask(k.children("~", false))
		c.end()
	}},
	{"create-ttl-bounds", func(k *talk) {
		c := k.open("")
		for _, ttl := range []int64{0, -1, -2, 1, 0xffffffffff, 0x10000000000, -0x8000000000000000, 0x7fffffffffffffff} {
			c.ask(k.createTTL("~/t-", 6, ttl), k.createTTL("~/t", 5, ttl), k.del("~/t", -1))
		}
		c.ask(k.createTTL("~/f", 7, 1000), k.createTTL("~/f", 1, 1000), k.createTTL("~/f", 0, 1000))
		c.end()
	}},
	{"order-of-create-checks", func(k *talk) {
		c := k.open("")
		c.ask(k.create("~/e", nil, 1), k.create("~/n", nil, 0), k.createACL("~/locked", 0, ace{1, "world", "anyone"}))
		c.ask(
			k.create("~/no/x", nil, 77),                       // flags before the parent
			k.createACL("~/no/x", 0, ace{31, "nonsense", ""}), // ACL before the parent
			k.createACL("~/n", 0),                             // ACL before existence
			k.createACL("~/locked/x", 0),                      // ACL before permission
			k.create("~/locked/\x01", nil, 0),                 // permission before the path's rules
			k.create("~/locked/x", nil, 0),
			k.create("~/e/x", nil, 0),
			k.create("~/e/\x01", nil, 0),     // path's rules before the ephemeral parent
			k.create("~/no/\x01", nil, 0),    // parent before the path's rules
			k.create("~/n", []byte("y"), 1),  // existence
			k.create("~/n/x/y/z", nil, 0),    // grandparent missing
			k.create("/zookeeper/x", nil, 1), // the reserved node takes children
			k.create("/zookeeper", nil, 0),
		)
		c.end()
	}},
	{"delete", func(k *talk) {
		c := k.open("")
		c.ask(k.create("~/a", nil, 0), k.create("~/a/b", nil, 0), k.set("~/a", nil, -1))
		c.ask(
			k.del("~/a", 0),  // version before children
			k.del("~/a", 1),  // not empty
			k.del("~/a", -1), // not empty
			k.del("~/a", -2),
			k.del("~/no", 5),
			k.del("~/no/x", 5),
			k.del("~/a/b", 1),
			k.del("~/a/b", 0),
			k.exists("~/a", false),
			k.del("~/a", 1),
			k.del("~/a", 1),
		)
		c.end()
	}},
	{"delete-permission-is-the-parents", func(k *talk) {
		c := k.open("")
		c.ask(k.createACL("~/p", 0, ace{1 | 4, "world", "anyone"}), k.create("~/p/c", nil, 0), k.del("~/p/c", -1), k.del("~/p/c", 7), k.del("~/p/no", -1))
		c.ask(k.createACL("~/q", 0, openACL...), k.createACL("~/q/c", 0, ace{1, "world", "anyone"}), k.del("~/q/c", -1))
		c.end()
	}},
	{"set-data", func(k *talk) {
		c := k.open("")
		c.ask(k.create("~/a", []byte("0"), 0))
		for _, v := range []int32{0, 0, 1, -1, -2, 3, 4} {
			c.ask(k.set("~/a", []byte("same"), v))
		}
		c.ask(k.get("~/a", false), k.set("~/no", nil, -1))
		c.ask(k.createACL("~/r", 0, ace{1, "world", "anyone"}), k.set("~/r", nil, 55), k.createACL("~/w", 0, ace{2, "world", "anyone"}), k.set("~/w", []byte("blind"), 0), k.get("~/w", false), k.exists("~/w", false))
		c.end()
	}},
	{"acl", func(k *talk) {
		c := k.open("")
		c.ask(k.create("~/a", nil, 0), k.getACL("~/a"))
		c.ask(k.setACL("~/a", 0, ace{31, "world", "anyone"}, ace{31, "world", "anyone"}, ace{1, "ip", "127.0.0.1"}, ace{31, "world", "anyone"}), k.getACL("~/a"))
		c.ask(k.setACL("~/a", 0, openACL...), k.setACL("~/a", 1, openACL...), k.setACL("~/a", 55), k.setACL("~/no", 55, openACL...), k.setACL("~/no", 55))
		c.ask(k.exists("~/a", false))
		for _, e := range []ace{
			{31, "world", "everyone"},
			{31, "world", ""},
			{31, "auth", ""},
			{31, "digest", "bob"},
			{31, "digest", "bob:x"},
			{31, "digest", "bob:x:y"},
			{31, "digest", ""},
			{31, "digest", ":"},
			{31, "ip", "1.2.3.4"},
			{31, "ip", "1.2.3.4/8"},
			{31, "ip", "1.2.3.4/33"},
			{31, "ip", "1.2.3.4/-1"},
			{31, "ip", "1.2.3"},
			{31, "ip", "a.b.c.d"},
			{31, "ip", "1.2.3.256"},
			{31, "ip", ""},
			{31, "super", ""},
			{31, "nonsense", "x"},
			{31, "", ""},
			{0, "world", "anyone"},
			{64, "world", "anyone"},
			{-1, "world", "anyone"},
			{31, "World", "anyone"},
		} {
			c.ask(k.createACL("~/x-", 2, e))
		}
		c.end()
	}},
	{"acl-order-of-checks", func(k *talk) {
		c := k.open("")
		c.ask(k.createACL("~/noadmin", 0, ace{15, "world", "anyone"}), k.setACL("~/noadmin", 55, openACL...), k.setACL("~/noadmin", 0), k.getACL("~/noadmin"))
		c.ask(k.createACL("~/admin", 0, ace{16, "world", "anyone"}), k.getACL("~/admin"), k.get("~/admin", false), k.children("~/admin", false), k.setACL("~/admin", 0, openACL...))
		c.ask(k.createACL("~/none", 0, ace{14, "world", "anyone"}), k.getACL("~/none"), k.get("~/none", false), k.children2("~/none", false), k.allChildren("~/none"), k.multi(k.check("~/none", -1)))
		c.end()
	}},
	{"reads-of-missing-and-forbidden", func(k *talk) {
		c := k.open("")
		c.ask(k.createACL("~/hidden", 0, ace{30, "world", "anyone"}), k.create("~/hidden/child", nil, 0))
		for _, p := range []string{"~/no", "~/hidden", "~/hidden/child"} {
			c.ask(k.exists(p, false), k.get(p, false), k.getACL(p), k.children(p, false), k.children2(p, false), k.allChildren(p))
		}
		c.end()
	}},
	{"children", func(k *talk) {
		c := k.open("")
		c.ask(k.create("~/b", nil, 0), k.create("~/a", nil, 0), k.create("~/a/c", nil, 0), k.create("~/a/c/d", nil, 0), k.create("~/ab", nil, 0))
		c.ask(k.children("~", false), k.children2("~", false), k.children("~/b", false), k.allChildren("~"), k.allChildren("~/a"), k.allChildren("~/b"))
		c.ask(k.del("~/b", -1), k.children2("~", false), k.exists("~", false))
		c.end()
	}},
	{"ephemerals-of-the-session", func(k *talk) {
		a, b := k.open("a"), k.open("b")
		a.ask(k.create("~/ge", nil, 1), k.create("~/ge2", nil, 1), k.create("~/x", nil, 3))
		b.ask(k.create("~/other", nil, 1))
		for _, p := range []string{"~", "~/ge", "~/ge2", "~/x", "~/no", "/", "", " "} {
			a.ask(k.ephemerals(p))
		}
		b.ask(k.ephemerals("~"))
		a.end()
		b.ask(k.children("~", false))
		b.end()
	}},
	{"sequence-numbers", func(k *talk) {
		c := k.open("")
		c.ask(k.create("~/a-", nil, 2), k.create("~/b-", nil, 2), k.create("~/plain", nil, 0), k.create("~/c-", nil, 3), k.del("~/a-0000000000", -1), k.create("~/a-", nil, 2))
		c.ask(k.create("~/", nil, 2), k.set("~", nil, -1), k.setACL("~", -1, openACL...), k.create("~/d", nil, 2))
		c.ask(k.createACL("~/bad", 2), k.create("~/no/x", nil, 2), k.multi(k.create("~/m-", nil, 2), k.check("~/no", -1)), k.multi(k.create("~/m-", nil, 2), k.create("~/m-", nil, 3)))
		c.ask(k.exists("~", false))
		c.ask(k.create("~/re", nil, 0), k.create("~/re/x", nil, 2), k.del("~/re/x0000000000", -1), k.del("~/re", -1), k.create("~/re", nil, 0), k.create("~/re/x", nil, 2))
		c.end()
	}},
	{"cversion-and-pzxid", func(k *talk) {
		c := k.open("")
		c.ask(k.exists("~", false), k.create("~/a", nil, 0), k.exists("~", false), k.create("~/a/b", nil, 0), k.exists("~", false), k.exists("~/a", false))
		c.ask(k.del("~/a/b", -1), k.exists("~/a", false), k.exists("~", false), k.set("~", nil, -1), k.exists("~", false), k.setACL("~", -1, openACL...), k.exists("~", false))
		c.end()
	}},
	{"sync", func(k *talk) {
		c := k.open("")
		c.ask(k.sync("~"), k.sync("/no/such"), k.sync(""), k.set("~", nil, -1), k.sync("/"))
		c.end()
	}},
	{"session-close-deletes-ephemerals-at-one-zxid", func(k *talk) {
		a, b := k.open("a"), k.open("b")
		a.ask(k.create("~/1", nil, 1), k.create("~/2", nil, 1), k.create("~/3", nil, 0), k.create("~/4", nil, 3))
		b.ask(k.exists("~", false))
		a.ask(k.bytes("closeSession", opClose, nil))
		b.ask(k.children2("~", false))
		b.end()
	}},
}

// TestRawReservedTree looks at a fresh server, and plays quotas with enforcement on.
func TestRawReservedTree(t *testing.T) {
	want := settings{byRequest: true, config: map[string]string{"enforceQuota": "true"}}
	forEachServer(t, want, func(t *testing.T, s *server) { playTalks(t, s, "reserved", reservedCases) })
}

var reservedCases = []rawCase{
	{"fresh-server", func(k *talk) {
		c := k.open("")
		for _, p := range []string{"/zookeeper", "/zookeeper/quota", "/zookeeper/config"} {
			c.ask(k.get(p, false), k.getACL(p), k.children(p, false), k.del(p, -1))
		}
		c.ask(k.getACL("/"), k.get("/", false), k.children("/", false), k.allChildren("/zookeeper"))
		c.ask(k.set("/zookeeper", []byte("x"), -1), k.set("/zookeeper/config", []byte("x"), -1), k.set("/", []byte("root"), 0), k.setACL("/zookeeper/config", -1, openACL...))
		c.ask(k.bytes("reconfig", opReconfig, body{}.null().null().null().i64(-1)))
		c.end()
	}},
	{"quota-counts", func(k *talk) {
		c := k.open("")
		limits, stats := "/zookeeper/quota~/zookeeper_limits", "/zookeeper/quota~/zookeeper_stats"
		limits, stats = "/zookeeper/quota"+k.base+limits[len("/zookeeper/quota~"):], "/zookeeper/quota"+k.base+stats[len("/zookeeper/quota~"):]
		c.ask(k.create("~/a", []byte("12345"), 0), k.create("/zookeeper/quota"+k.base, nil, 0))
		c.ask(k.create(limits, []byte("count=3,bytes=100"), 0), k.create(stats, []byte("count=0,bytes=0"), 0), k.get(stats, false))
		c.ask(k.create("~/b", []byte("123"), 0), k.get(stats, false), k.set("~/b", []byte("1234567890"), -1), k.get(stats, false), k.create("~/b/c", nil, 0), k.get(stats, false))
		c.ask(k.create("~/c", nil, 0), k.del("~/b/c", -1), k.del("~/a", -1), k.get(stats, false)) // over a soft limit
		c.ask(k.set(limits, []byte("count=3,bytes=100=;byteHardLimit=30;countHardLimit=4"), -1), k.create("~/d", nil, 0), k.create("~/e", nil, 0), k.get(stats, false))
		c.ask(k.set("~/b", make([]byte, 31), -1), k.set("~/b", make([]byte, 30), -1), k.set("~/c", []byte("x"), -1), k.set("~/b", nil, -1), k.get(stats, false))
		c.ask(k.multi(k.del("~/d", -1), k.create("~/e", nil, 0)), k.multi(k.del("~/e", -1), k.create("~/e", make([]byte, 40), 0)), k.get(stats, false))
		c.ask(k.del(limits, -1), k.create("~/f", nil, 0), k.get(stats, false))
		c.end()
	}},
	{"quota-fires-no-watch", func(k *talk) {
		c := k.open("")
		dir := "/zookeeper/quota" + k.base
		c.ask(k.create(dir, nil, 0), k.create(dir+"/zookeeper_limits", []byte("count=9,bytes=-1"), 0), k.create(dir+"/zookeeper_stats", nil, 0))
		c.ask(k.get(dir+"/zookeeper_stats", true), k.create("~/x", nil, 0))
		c.drained()
		c.ask(k.get(dir+"/zookeeper_stats", false))
		c.end()
	}},
}

// TestRawGoldenBytes replays the handbook conversation on a fresh server: every byte that
// does not hold a time, a session id or a password has to be the recorded one.
func TestRawGoldenBytes(t *testing.T) {
	want := settings{alone: "compares zxids byte by byte, and every new leader begins a new epoch"}
	forEachServer(t, want, func(t *testing.T, s *server) {
		c := openSession(t, s.addr, 10000)
		k := &talk{t: t, addr: s.addr, base: "/golden-bytes"}
		var lines []string
		epoch := c.ping() &^ 0xffffffff
		for _, r := range goldenRequests(k) {
			c.xid++
			xid := c.xid
			if r.op == opPing {
				xid = xidPing
			}
			if r.op == opAuth {
				xid = xidAuth
			}
			if err := c.sendFrame(append(body{}.i32(xid).i32(r.op), r.body...)); err != nil {
				t.Fatal(err)
			}
			lines = append(lines, r.label)
			for {
				f, err := c.readFrame(patience)
				if err != nil {
					t.Fatalf("%s: %v", r.label, err)
				}
				lines = append(lines, "  "+maskBytes(withoutEpoch(r.op, f, epoch), c.info.session))
				if (&cursor{b: f}).i32() != xidEvent {
					break
				}
			}
		}
		compareRecording(t, s, "golden", "bytes", lines)
	})
}

// withoutEpoch takes the epoch out of the zxids of a frame, which it changes: that of a
// standalone ZooKeeper is 0. They stand in the header and in a stat at the end of the body.
func withoutEpoch(op int32, f []byte, epoch int64) []byte {
	clear := func(at int) {
		if v := (&cursor{b: f[at:]}).i64(); v > epoch {
			copy(f[at:], body{}.i64(v-epoch))
		}
	}
	if len(f) < 16 {
		return f
	}
	clear(4)
	end := len(f)
	switch in := (cursor{b: f}); {
	case in.i32() == xidEvent:
		return f
	case op == opMulti && end == 16+9+9+68+9: // a check and a set
		end -= 9
	case op != opCreate2 && op != opContainer && op != opCreateTTL && op != opSetData && op != opGetData && op != opGetChildren2 && op != opGetACL && op != opSetACL:
		return f
	}
	if end >= 16+68 {
		clear(end - 68)
		clear(end - 60)
		clear(end - 8)
	}
	return f
}

// goldenRequests are one of each kind, in an order that makes each succeed or fail alike.
func goldenRequests(k *talk) []request {
	return []request{
		{"ping", opPing, nil},
		k.create("/a", []byte("x"), 1), k.create2("/b", nil, 0), k.create2("/b/n-", []byte{}, 2), k.container("/c", 4), k.createTTL("/t", 5, 600000),
		k.exists("/nope", true), k.get("/a", true), k.set("/a", []byte("yy"), 0), k.children("/b", true), k.children2("/b", false), k.getACL("/a"), k.setACL("/b", 0, openACL...),
		k.multi(k.check("/a", 1), k.set("/a", []byte("z"), -1)), k.multi(k.del("/b", -1), k.check("/a", 9)), k.multi(k.create("/m", nil, 0), k.del("/m", 0)),
		k.addWatch("/b", 1), k.create("/b/w", nil, 0), k.removeWatches("/b", 3), k.auth("digest", "bob:pw"), k.bytes("setWatches", opSetWatches, body{}.i64(0).strs("/a").strs().strs()),
		k.sync("/"), k.ephemerals("/"), k.allChildren("/"), k.del("/b/w", -1), k.del("/nope", -1),
		{"closeSession", opClose, nil},
	}
}
