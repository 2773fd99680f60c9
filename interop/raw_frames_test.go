package interop

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// maxFrame is the largest frame that a server takes by default (jute.maxbuffer).
const maxFrame = 0xfffff

// TestRawFrames plays frames with good, odd and malformed bodies: frame lengths, short and
// overlong records, xids, unknown opcodes, paths.
func TestRawFrames(t *testing.T) {
	forEachServer(t, settings{byRequest: true}, func(t *testing.T, s *server) { playTalks(t, s, "frames", frameCases) })
}

// everyOp has one good request for each opcode with a record.
func everyOp(k *talk) []request {
	return []request{
		k.create("~/n", nil, 0), k.create2("~/n", nil, 0), k.container("~/n", 4), k.createTTL("~/n", 5, 1000), k.del("~/n", -1),
		k.exists("~/n", false), k.get("~/n", false), k.set("~/n", []byte("d"), -1), k.getACL("~/n"), k.setACL("~/n", -1, openACL...),
		k.children("~/n", false), k.children2("~/n", false), k.sync("~/n"), k.multi(k.check("~", -1)), k.multiRead(k.get("~", false)),
		k.checkWatches("~/n", 1), k.removeWatches("~/n", 1), k.addWatch("~/n", 0), k.setWatches(0, []string{"~/n"}, nil, nil),
		k.setWatches2(0, nil, nil, nil, []string{"~/n"}, nil), k.ephemerals("~/n"), k.allChildren("~/n"),
	}
}

var frameCases = []rawCase{
	{"frame-lengths", func(k *talk) {
		for _, n := range []int32{0, -1, -2, -0x80000000, maxFrame + 1, 0x7fffffff} {
			c := k.open("")
			c.logf("length %d", n)
			_ = c.sendBytes(body{}.i32(n))
			c.closed()
		}
		for n := 1; n < 8; n++ {
			c := k.open("")
			c.logf("frame of %d bytes", n)
			_ = c.sendFrame(make([]byte, n))
			c.closed()
		}
	}},
	{"largest-frame", func(k *talk) {
		c := k.open("")
		empty := len(createBody(k.path("~/big"), []byte{}, 0)) + 8
		c.ask(k.create("~/big", make([]byte, maxFrame-empty), 0), k.get("~/big", false), k.set("~/big", make([]byte, maxFrame-empty), -1))
		c.ask(k.create("~/bigger", make([]byte, maxFrame-empty-3), 0))
		_ = c.sendFrame(append(body{}.i32(99).i32(opPing), make([]byte, maxFrame-8)...))
		c.drained()
		c.end()
	}},
	{"empty-records", func(k *talk) {
		c := k.open("")
		for _, r := range everyOp(k) {
			name, _, _ := strings.Cut(r.label, " ")
			c.ask(k.bytes(name+" without a record", r.op, nil))
		}
		c.drained()
		c.end()
		for _, b := range []body{nil, body{}.i32(0), body{}.i32(0).str("digest"), body{}.i32(0).str("digest").i32(-2)} {
			c = k.open("")
			c.ask(k.bytes(fmt.Sprintf("auth cut to %d bytes", len(b)), opAuth, b))
			c.closed()
		}
		c = k.open("")
		c.ask(k.bytes("sasl without a record", opSASL, nil))
	}},
	{"records-cut-short", func(k *talk) {
		c := k.open("")
		for _, r := range everyOp(k) {
			c.ask(k.bytes(r.label+" less a byte", r.op, r.body[:len(r.body)-1]))
		}
		c.end()
	}},
	{"bytes-behind-the-record", func(k *talk) {
		c := k.open("")
		for _, r := range everyOp(k) {
			r.body = append(r.body, "more than the record"...)
			r.label += " and more"
			c.ask(r)
		}
		c.end()
	}},
	{"bad-lengths-inside", func(k *talk) {
		c := k.open("")
		for _, n := range []int32{-2, -0x80000000, 0x7fffffff, 2*maxFrame + 1, 1000} {
			for _, op := range []int32{opCreate, opSetData, opGetData, opSync, opAddWatch} {
				c.ask(k.bytes(fmt.Sprintf("opcode %d with a path of length %d", op, n), op, append(body{}.i32(n), "/abc\x00\x00\x00\x00\x00"...)))
			}
			c.ask(k.bytes(fmt.Sprintf("setData with data of length %d", n), opSetData, body{}.str(k.path("~")).i32(n).i32(-1)))
			if n > 0 { // a negative count other than -1 reads as empty in ZooKeeper: see the next case
				c.ask(k.bytes(fmt.Sprintf("create with an ACL of length %d", n), opCreate, body{}.str(k.path("~/x")).null().i32(n).i32(0)))
				c.ask(k.bytes(fmt.Sprintf("setWatches with %d paths", n), opSetWatches, body{}.i64(0).i32(n).i32(0).i32(0)))
			}
		}
		c.drained()
		c.end()
	}},
	{"negative-vector-counts", func(k *talk) {
		c := k.open("")
		for _, n := range []int32{-1, -2, -100} {
			c.ask(k.bytes(fmt.Sprintf("create with an ACL of length %d", n), opCreate, body{}.str(k.path("~/x")).null().i32(n).i32(0)))
			c.ask(k.bytes(fmt.Sprintf("setWatches with %d paths", n), opSetWatches, body{}.i64(0).i32(n).i32(n).i32(n)))
		}
		c.end()
	}},
	{"null-paths", func(k *talk) {
		c := k.open("")
		null := body{}.null()
		for _, r := range []request{
			k.bytes("create", opCreate, append(null, createBody("", nil, 0)[4:]...)),
			k.bytes("create2", opCreate2, append(null, createBody("", nil, 0)[4:]...)),
			k.bytes("delete", opDelete, null.i32(-1)),
			k.bytes("exists", opExists, null.boolean(false)),
			k.bytes("getData", opGetData, null.boolean(false)),
			k.bytes("setData", opSetData, null.null().i32(-1)),
			k.bytes("setACL", opSetACL, null.acl(openACL).i32(-1)),
			k.bytes("sync", opSync, null),
			k.bytes("getEphemerals", opEphemerals, null),
			k.bytes("getACL", opGetACL, null),
			k.bytes("getChildren", opGetChildren, null.boolean(false)),
			k.bytes("getChildren2", opGetChildren2, null.boolean(false)),
			k.bytes("getAllChildrenNumber", opAllChildrenNum, null),
			k.bytes("multi check", opMulti, append(body{}.i32(opCheck).boolean(false).i32(-1), null.i32(-1).i32(-1).boolean(true).i32(-1)...)),
		} {
			r.label += " of a null path"
			c.ask(r)
		}
		c.end()
	}},
	{"null-and-empty-data", func(k *talk) {
		c := k.open("")
		c.ask(k.create("~/null", nil, 0), k.create("~/empty", []byte{}, 0), k.get("~/null", false), k.get("~/empty", false))
		c.ask(k.set("~/null", []byte{}, 0), k.set("~/empty", nil, 0), k.get("~/null", false), k.get("~/empty", false))
		c.ask(k.multiRead(k.get("~/null", false), k.get("~/empty", false)))
		c.end()
	}},
	{"booleans", func(k *talk) {
		c := k.open("")
		for _, v := range []byte{2, 0x7f, 0xff} {
			c.ask(k.bytes(fmt.Sprintf("getData with the watch byte %d", v), opGetData, append(body{}.str(k.path("~")), v)))
			c.ask(k.set("~", nil, -1))
		}
		c.end()
	}},
	{"xids", func(k *talk) {
		c := k.open("")
		for _, xid := range []int32{0, 7, 7, 3, -3, -5, -8, -77, 0x7fffffff, -0x80000000} {
			c.logf("xid %d", xid)
			c.pipeline(numbered{xid, k.exists("~", false)})
			c.pipeline(numbered{xid, k.set("~", nil, -1)})
			c.pipeline(numbered{xid, request{"ping", opPing, nil}})
		}
		c.pipeline(numbered{xidAuth, k.exists("~", false)}, numbered{xidPing, k.exists("~", false)})
		c.pipeline(numbered{5, k.auth("digest", "a:b")})
		c.end()
	}},
	{"unknown-opcodes", func(k *talk) {
		for _, op := range []int32{0, -1, -2, -12, 10, 23, 24, 99, 108, 1000, 0x7fffffff, -0x80000000} {
			c := k.open("")
			c.burst(k.bytes(fmt.Sprintf("opcode %d", op), op, nil))
			c.closed()
		}
	}},
	{"ping-with-a-body", func(k *talk) {
		c := k.open("")
		c.ask(k.bytes("ping and bytes", opPing, []byte("ignored")), k.bytes("whoAmI and bytes", opWhoAmI, []byte("ignored")))
		c.end()
	}},
	{"replies-in-order", func(k *talk) {
		c := k.open("")
		c.burst(
			k.create("~/a", nil, 0), k.get("~/a", false), k.set("~/a", []byte("1"), 0), k.exists("~/a", true), k.set("~/a", []byte("2"), 0),
			k.set("~/a", []byte("3"), 1), k.multi(k.create("~/a/b", nil, 0), k.del("~/a/b", -1)), k.children2("~/a", false),
			k.sync("~/a"), k.del("~/a", -1), k.get("~/a", false), k.create("~/a", nil, 1), k.ephemerals("~"),
		)
		c.end()
	}},
	{"many-small-frames-in-one-segment", func(k *talk) {
		c := k.open("")
		var out []byte
		for i := range 500 {
			out = body(out).buf(append(body{}.i32(int32(i+1)).i32(opGetData), readBody(k.base, false)...))
		}
		_ = c.sendBytes(out)
		inOrder := true
		for i := range 500 {
			r, err := c.readReply()
			inOrder = inOrder && err == nil && r.xid == int32(i+1)
		}
		c.logf("500 replies in order: %t", inOrder)
		c.end()
	}},
	{"a-frame-in-single-bytes", func(k *talk) {
		c := k.open("")
		frame := body{}.buf(append(body{}.i32(1).i32(opGetData), readBody(k.base, false)...))
		for _, b := range frame {
			_ = c.sendBytes([]byte{b})
		}
		r, err := c.readReply()
		c.logf("xid=%d err=%d failed=%t", r.xid, r.err, err != nil)
		c.end()
	}},
}

// oddPaths are paths that break a rule, or seem to.
var oddPaths = []string{
	"", "/", "a", "~/", "~//a", "~/.", "~/..", "~/./a", "~/../a", "~/...", "~/.a", "~/a.", "~/a/", "~/a//b", "//", "~/\x00", "~/a\x00b",
	"~/\x01", "~/\x1f", "~/\x7f", "~/\u009f", "~/\u00a0", "~/ ", "~/\ud7ff", "~/\ue000", "~/\uf8ff", "~/\uf900", "~/\uffef", "~/\ufff0", "~/\uffff",
	"~/\U00010000", "~/\xff", "~/a\xc3", "~/\u00e4\u4e16", "~/" + strings.Repeat("long", 1000),
}

// TestRawPaths asks every operation about odd paths.
func TestRawPaths(t *testing.T) {
	forEachServer(t, settings{byRequest: true}, func(t *testing.T, s *server) { playTalks(t, s, "paths", pathCases) })
}

var pathCases = []rawCase{
	{"create", func(k *talk) {
		c := k.open("")
		for _, p := range oddPaths {
			c.ask(k.create(p, nil, 0))
		}
		c.ask(k.children("~", false))
		c.end()
	}},
	{"create-sequential", func(k *talk) {
		c := k.open("")
		for _, p := range oddPaths[3:] {
			c.ask(k.create(p, nil, 2))
		}
		c.ask(k.children("~", false))
		c.end()
	}},
	{"create-without-a-parent", func(k *talk) {
		c := k.open("")
		for _, p := range []string{"~/no/a", "~/no/a//", "~/no//a", "~/no/.", "~/no/\x01", "~/no/\x00"} {
			c.ask(k.create(p, nil, 0), k.createACL(p, 0))
		}
		c.end()
	}},
	{"delete", func(k *talk) {
		c := k.open("")
		for _, p := range append([]string{"/zookeeper", "/zookeeper/quota", "/zookeeper/config", "/zookeeper/"}, oddPaths...) {
			c.ask(k.del(p, -1))
		}
		c.end()
	}},
	{"write", func(k *talk) {
		c := k.open("")
		for _, p := range oddPaths[2:] { // not the root: other cases look at it
			c.codes("setData setACL "+quoted(p), k.set(p, nil, 77), k.setACL(p, 77, openACL...))
			c.ask(k.multi(k.check(p, -1)))
		}
		c.end()
	}},
	{"read", func(k *talk) {
		c := k.open("")
		for _, p := range oddPaths[2:] {
			c.codes("exists getData getACL getChildren getAllChildrenNumber "+quoted(p),
				k.exists(p, false), k.get(p, false), k.getACL(p), k.children(p, false), k.allChildren(p))
		}
		c.end()
	}},
	{"empty-path-is-the-root", func(k *talk) {
		c := k.open("")
		for _, op := range []int32{opExists, opGetData, opGetACL, opGetChildren, opAllChildrenNum} {
			r := c.call(op, body{}.str("").boolean(false))
			c.logf("opcode %d on the empty path: err=%d, body: %t", op, r.err, len(r.rest) > 0)
		}
		root, empty := c.must(opGetChildren2, readBody("/", false)), c.must(opGetChildren2, readBody("", false))
		c.logf("the same as the root: %t", bytes.Equal(root.rest, empty.rest))
		c.end()
	}},
	{"watch", func(k *talk) {
		c := k.open("")
		for _, p := range append(oddPaths, "r/", "~/a/") {
			c.ask(k.sync(p))
			c.codes("removeWatches checkWatches "+quoted(p), k.removeWatches(p, 3), k.checkWatches(p, 3))
		}
		c.ask(k.setWatches(0, oddPaths[2:], nil, nil))
		c.drained()
		c.ask(k.setWatches(0, nil, oddPaths[2:], oddPaths[2:]))
		c.drained()
		c.end()
	}},
	{"trailing-slash-is-no-alias", func(k *talk) {
		c := k.open("")
		c.ask(k.create("~/a", []byte("x"), 0), k.get("~/a/", false), k.exists("~/a/", false), k.children("~/a/", false), k.create("~/a//b", nil, 0))
		c.ask(k.create("~/a/", nil, 2), k.children("~/a", false))
		c.end()
	}},
}
