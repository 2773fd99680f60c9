package interop

import "testing"

// TestRawWatches plays every kind of watch: what fires it, in which order, how often, and
// what setWatches makes of the changes that a connection missed.
func TestRawWatches(t *testing.T) {
	forEachServer(t, settings{}, func(t *testing.T, s *server) { playTalks(t, s, "watches", watchCases) })
}

// changes does one of each change to ~/n from another connection.
func (k *talk) changes(c *talker) {
	c.ask(k.create("~/n", nil, 0), k.set("~/n", nil, -1), k.create("~/n/c", nil, 0), k.set("~/n/c", nil, -1), k.setACL("~/n", -1, openACL...), k.del("~/n/c", -1), k.del("~/n", -1))
}

var watchCases = []rawCase{
	{"exist-watch-fires-once", func(k *talk) {
		w, c := k.open("watcher"), k.open("writer")
		w.ask(k.exists("~/n", true))
		k.changes(c)
		w.drained()
		w.ask(k.exists("~/n", true), k.get("~/n", true)) // a failed getData leaves no watch
		c.ask(k.create("~/n", nil, 0))
		w.drained()
		w.ask(k.exists("~/n", true))
		c.ask(k.set("~/n", nil, -1))
		w.drained()
		w.ask(k.exists("~/n", true))
		c.ask(k.del("~/n", -1))
		w.drained()
		w.end()
		c.end()
	}},
	{"data-watch", func(k *talk) {
		w, c := k.open("watcher"), k.open("writer")
		c.ask(k.create("~/n", nil, 0))
		w.ask(k.get("~/n", true))
		c.ask(k.setACL("~/n", -1, openACL...), k.create("~/n/c", nil, 0), k.del("~/n/c", -1), k.set("~/n", []byte("1"), 9))
		w.drained() // none of these touches the data
		c.ask(k.set("~/n", []byte("1"), 0), k.set("~/n", []byte("2"), 1))
		w.drained()
		w.ask(k.get("~/n", true))
		c.ask(k.del("~/n", -1))
		w.drained()
		w.ask(k.get("~/n", true), k.children("~/n", true))
		c.ask(k.create("~/n", nil, 0))
		w.drained()
		w.end()
		c.end()
	}},
	{"child-watch", func(k *talk) {
		w, c := k.open("watcher"), k.open("writer")
		c.ask(k.create("~/n", nil, 0))
		w.ask(k.children("~/n", true))
		c.ask(k.set("~/n", nil, -1), k.create("~/n/c", nil, 0), k.create("~/n/d", nil, 0))
		w.drained()
		w.ask(k.children2("~/n", true))
		c.ask(k.set("~/n/c", nil, -1), k.create("~/n/c/deep", nil, 0), k.del("~/n/c/deep", -1))
		w.drained()
		c.ask(k.del("~/n/c", -1), k.del("~/n/d", -1))
		w.drained()
		w.ask(k.children("~/n", true))
		c.ask(k.del("~/n", -1))
		w.drained()
		w.end()
		c.end()
	}},
	{"all-kinds-on-one-node", func(k *talk) {
		w, c := k.open("watcher"), k.open("writer")
		c.ask(k.create("~/n", nil, 0))
		w.ask(k.get("~/n", true), k.exists("~/n", true), k.children("~/n", true), k.children("~", true))
		c.ask(k.del("~/n", -1))
		w.drained()
		w.ask(k.exists("~/n", true), k.exists("~/n", true), k.addWatch("~/n", 0), k.addWatch("~/n", 1), k.addWatch("~", 1))
		c.ask(k.create("~/n", nil, 0))
		w.drained()
		w.end()
		c.end()
	}},
	{"own-change-comes-before-the-reply", func(k *talk) {
		c := k.open("")
		c.ask(k.exists("~/n", true), k.children("~", true), k.create("~/n", nil, 0))
		c.ask(k.get("~/n", true), k.set("~/n", nil, -1))
		c.ask(k.get("~/n", true), k.children("~/n", true), k.children("~", true), k.del("~/n", -1))
		c.ask(k.get("~", true), k.burstSet("~"))
		c.end()
	}},
	{"persistent-watch", func(k *talk) {
		w, c := k.open("watcher"), k.open("writer")
		w.ask(k.addWatch("~/n", 0))
		k.changes(c)
		w.drained()
		k.changes(c)
		w.drained()
		w.ask(k.addWatch("~/n", 0), k.removeWatches("~/n", 3))
		k.changes(c)
		w.drained()
		w.end()
		c.end()
	}},
	{"recursive-watch", func(k *talk) {
		w, c := k.open("watcher"), k.open("writer")
		w.ask(k.addWatch("~/n", 1))
		k.changes(c)
		c.ask(k.create("~/n2", nil, 0), k.create("~/n", nil, 0), k.create("~/n/a", nil, 2), k.multi(k.create("~/n/x", nil, 0), k.create("~/n/x/y", nil, 1), k.set("~/n/x", nil, -1)))
		w.drained()
		w.ask(k.removeWatches("~/n", 3), k.removeWatches("~/n", 3))
		c.ask(k.set("~/n", nil, -1))
		w.drained()
		w.end()
		c.end()
	}},
	{"recursive-watch-on-the-root", func(k *talk) {
		w, c := k.open("watcher"), k.open("writer")
		w.ask(k.addWatch("/", 1))
		c.ask(k.create("~/n", nil, 0), k.set("~/n", nil, -1), k.del("~/n", -1))
		w.drained()
		w.ask(k.addWatch("/", 0), k.removeWatches("/", 3))
		w.end()
		c.end()
	}},
	{"persistent-beside-one-shot", func(k *talk) {
		w, c := k.open("watcher"), k.open("writer")
		c.ask(k.create("~/n", nil, 0))
		w.ask(k.get("~/n", true), k.addWatch("~/n", 0))
		c.ask(k.set("~/n", nil, -1), k.set("~/n", nil, -1))
		w.drained()
		w.ask(k.addWatch("~/n", 1))
		c.ask(k.set("~/n", nil, -1), k.create("~/n/c", nil, 0))
		w.drained()
		w.end()
		c.end()
	}},
	{"add-watch-with-odd-modes", func(k *talk) {
		c := k.open("")
		for _, m := range []int32{2, -1, 100} {
			c.ask(k.addWatch("~", m))
		}
		c.end()
	}},
	{"check-and-remove", func(k *talk) {
		c := k.open("")
		c.ask(k.create("~/n", nil, 0), k.get("~/n", true), k.children("~/n", true))
		for _, kind := range []int32{1, 2, 3, 0, 6, -1} {
			c.ask(k.checkWatches("~/n", kind), k.checkWatches("~", kind))
		}
		c.ask(k.removeWatches("~/n", 1), k.checkWatches("~/n", 1), k.checkWatches("~/n", 2), k.removeWatches("~/n", 1), k.removeWatches("~/n", 2), k.checkWatches("~/n", 3))
		c.ask(k.get("~/n", true), k.children("~/n", true), k.removeWatches("~/n", 3), k.set("~/n", nil, -1), k.removeWatches("~/n", 3))
		c.ask(k.exists("~/no", true), k.checkWatches("~/no", 2), k.removeWatches("~/no", 2), k.create("~/no", nil, 0))
		for _, kind := range []int32{0, 6, -1} {
			c.ask(k.removeWatches("~/n", kind))
		}
		c.end()
	}},
	{"types-of-persistent-watches", func(k *talk) {
		c := k.open("")
		for _, kind := range []int32{1, 2, 3, 4, 5} {
			c.ask(k.addWatch("~/p", 0), k.addWatch("~/r", 1))
			c.codes("check p, r; remove p, r", k.checkWatches("~/p", kind), k.checkWatches("~/r", kind), k.removeWatches("~/p", kind), k.removeWatches("~/r", kind))
			c.codes("clear", k.removeWatches("~/p", 3), k.removeWatches("~/r", 3))
		}
		c.end()
	}},
	{"watches-go-with-the-connection", func(k *talk) {
		a, c := k.open("a"), k.open("writer")
		a.ask(k.get("~", true), k.addWatch("~", 1))
		info := a.info
		_ = a.conn.Close()
		b := k.connect("b", "same session", connectRequest{timeoutMs: 600000, session: info.session, password: info.password})
		c.ask(k.set("~", nil, -1))
		b.drained()
		b.ask(k.checkWatches("~", 3))
		b.end()
		c.end()
	}},
	{"a-multi-fires-per-operation", func(k *talk) {
		w, c := k.open("watcher"), k.open("writer")
		c.ask(k.create("~/n", nil, 0))
		w.ask(k.get("~/n", true), k.children("~", true), k.exists("~/m", true))
		c.ask(k.multi(k.set("~/n", nil, -1), k.create("~/m", nil, 0), k.del("~/n", -1), k.check("~/m", 5)))
		w.drained() // the multi failed
		c.ask(k.multi(k.set("~/n", nil, -1), k.create("~/m", nil, 0), k.del("~/n", -1)))
		w.drained()
		w.end()
		c.end()
	}},
	{"session-close-fires", func(k *talk) {
		w, c := k.open("watcher"), k.open("owner")
		c.ask(k.create("~/e", nil, 1))
		w.ask(k.get("~/e", true), k.children("~", true))
		c.ask(k.bytes("closeSession", opClose, nil))
		w.drained()
		w.end()
	}},
	{"two-watchers", func(k *talk) {
		a, b, c := k.open("a"), k.open("b"), k.open("writer")
		c.ask(k.create("~/n", nil, 0))
		a.ask(k.get("~/n", true))
		b.ask(k.get("~/n", true), k.removeWatches("~/n", 3))
		c.ask(k.set("~/n", nil, -1))
		a.drained()
		b.drained()
		a.end()
		b.end()
		c.end()
	}},
	{"set-watches-nothing-missed", func(k *talk) {
		c := k.open("")
		c.ask(k.create("~/n", nil, 0), k.setWatches(0, []string{"~/n"}, []string{"~/x"}, []string{"~/n"}))
		c.drained()
		c.ask(k.set("~/n", nil, -1), k.create("~/x", nil, 0), k.create("~/n/c", nil, 0))
		c.end()
	}},
	{"set-watches-fires-what-was-missed", func(k *talk) {
		c := k.open("")
		c.ask(k.create("~/n", nil, 0), k.set("~/n", nil, -1), k.create("~/n/c", nil, 0)) // ages 2, 1, 0
		c.ask(k.setWatches(0, []string{"~/n"}, nil, []string{"~/n"}))
		c.ask(k.removeWatches("~/n", 3), k.setWatches(1, []string{"~/n"}, nil, []string{"~/n"}))
		c.ask(k.removeWatches("~/n", 3), k.setWatches(2, []string{"~/n"}, nil, []string{"~/n"}))
		c.ask(k.checkWatches("~/n", 3), k.setWatches(9, []string{"~/n"}, []string{"~/n", "~/x"}, []string{"~/n", "~/x"}))
		c.ask(k.setWatches(9, []string{"~/gone"}, []string{"~/gone"}, []string{"~/gone"}))
		c.ask(k.create("~/x", nil, 0), k.create("~/gone", nil, 0), k.set("~/n", nil, -1), k.del("~/n/c", -1))
		c.end()
	}},
	{"set-watches-for-a-recreated-node", func(k *talk) {
		c := k.open("")
		c.ask(k.create("~/n", nil, 0), k.del("~/n", -1), k.create("~/n", nil, 0))
		c.ask(k.setWatches(1, []string{"~/n"}, nil, []string{"~/n"}), k.setWatches(0, []string{"~/n"}, nil, []string{"~/n"}))
		c.ask(k.set("~/n", nil, -1))
		c.end()
	}},
	{"set-watches2", func(k *talk) {
		c := k.open("")
		c.ask(k.create("~/n", nil, 0), k.create("~/n/c", nil, 0), k.set("~/n", nil, -1))
		c.ask(k.setWatches2(9, []string{"~/n"}, []string{"~/x"}, []string{"~/n"}, []string{"~/n"}, []string{"~/n/c"}))
		c.ask(k.set("~/n", nil, -1), k.set("~/n/c", nil, -1), k.create("~/n/c/d", nil, 0), k.create("~/x", nil, 0), k.create("~/n/e", nil, 0))
		c.end()
	}},
	{"set-watches-from-the-future", func(k *talk) {
		c := k.open("")
		c.ask(k.setWatches(-1000, []string{"~"}, nil, []string{"~"}), k.set("~", nil, -1))
		c.ask(k.bytes("setWatches relative to -1", opSetWatches, body{}.i64(-1).strs(k.base).strs().strs()))
		c.end()
	}},
	{"watch-under-an-acl", func(k *talk) {
		w, c := k.open("watcher"), k.open("writer")
		c.ask(k.auth("digest", "bob:pw"))
		c.ask(k.create("~/open", nil, 0), k.createACL("~/bobs", 0, ace{31, "auth", ""}))
		w.ask(k.exists("~/open", true), k.addWatch("~/bobs", 0), k.addWatch("~", 1))
		c.ask(k.setACL("~/open", -1, ace{31, "auth", ""}), k.set("~/open", nil, -1), k.set("~/bobs", nil, -1), k.create("~/bobs/x", nil, 0), k.create("~/visible", nil, 0))
		w.drained()
		w.end()
		c.end()
	}},
}

// burstSet is a multi that changes one node twice.
func (k *talk) burstSet(path string) request {
	return k.multi(k.set(path, []byte("1"), -1), k.set(path, []byte("2"), -1))
}
