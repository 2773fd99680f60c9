package interop

import "testing"

// TestRawMulti plays multi and multiRead: results, failures, malformed lists.
func TestRawMulti(t *testing.T) {
	forEachServer(t, settings{}, func(t *testing.T, s *server) { playTalks(t, s, "multi", multiCases) })
}

var multiCases = []rawCase{
	{"each-kind-of-operation", func(k *talk) {
		c := k.open("")
		c.ask(k.multi(k.create("~/p", []byte("x"), 0), k.create2("~/p2", nil, 0), k.create("~/s", nil, 2), k.create2("~/s", nil, 3), k.container("~/c", 4), k.createTTL("~/t", 5, 600000), k.set("~/p", []byte("yy"), 0), k.check("~/p", 1), k.del("~/p2", 0)))
		c.ask(k.children2("~", false), k.get("~/p", false), k.ephemerals("~"))
		c.end()
	}},
	{"operations-see-the-ones-before", func(k *talk) {
		c := k.open("")
		c.ask(k.multi(k.create("~/a", nil, 0), k.create("~/a/b", nil, 0), k.set("~/a/b", []byte("1"), 0), k.set("~/a/b", []byte("2"), 1), k.check("~/a/b", 2), k.del("~/a/b", 2), k.create("~/a/b", nil, 1), k.del("~/a/b", 0), k.del("~/a", 0), k.create("~/a", nil, 0)))
		c.ask(k.exists("~/a", false), k.exists("~", false))
		c.ask(k.multi(k.set("~/a", nil, 0), k.set("~/a", nil, 0)), k.exists("~/a", false))
		c.end()
	}},
	{"failures-undo-everything", func(k *talk) {
		c := k.open("")
		c.ask(k.create("~/a", []byte("old"), 0), k.create("~/e", nil, 1))
		for _, bad := range []request{
			k.create("~/no/x", nil, 0), k.create("~/a", nil, 0), k.create("~/e/x", nil, 0), k.create("~/\x01", nil, 0), k.create("a", nil, 0), k.createACL("~/z", 0),
			k.create2("~/no/x", nil, 0), k.container("~/no/x", 4), k.createTTL("~/z", 5, -1), k.createTTL("~/no/x", 5, 1000),
			k.del("~/no", -1), k.del("~/a", 7), k.del("~", -1), k.del("/zookeeper", -1), k.set("~/a", nil, 7), k.set("~/no", nil, -1), k.set("a", nil, -1), k.check("~/a", 7), k.check("~/no", -1), k.check("a", -1),
		} {
			c.ask(k.multi(k.set("~/a", []byte("new"), -1), k.create("~/s-", nil, 2), k.del("~/e", -1), bad, k.create("~/after", nil, 0), k.check("~/no", -1)))
		}
		c.ask(k.get("~/a", false), k.children2("~", false), k.create("~/s-", nil, 2), k.ephemerals("~"))
		c.end()
	}},
	{"unknown-flags", func(k *talk) {
		c := k.open("")
		c.ask(k.multi(k.create("~/a", nil, 0), k.create("~/b", nil, 77)), k.multi(k.create2("~/b", nil, 77)), k.multi(k.container("~/b", 77)), k.multi(k.createTTL("~/b", 77, 1000)))
		c.ask(k.children("~", false))
		c.end()
	}},
	{"empty", func(k *talk) {
		c := k.open("")
		c.ask(k.multi(), k.exists("~", false), k.multi(k.check("~", -1)), k.multiRead(), k.exists("~", false))
		c.end()
	}},
	{"malformed", func(k *talk) {
		c := k.open("")
		c.ask(k.create("~/a", nil, 0))
		good := k.set("~/a", []byte("x"), -1)
		for _, r := range []request{
			k.multi(good, k.get("~/a", false)),
			k.multi(k.get("~/a", false)),
			k.multi(good, k.exists("~/a", false)),
			k.multi(good, k.getACL("~/a")),
			k.multi(good, k.setACL("~/a", -1, openACL...)),
			k.multi(good, k.sync("~/a")),
			k.multi(good, request{"ping", opPing, nil}),
			k.multi(good, k.multi(good)),
			k.multi(good, request{"deleteContainer", opDelContainer, body{}.str(k.path("~/a"))}),
			k.multi(good, request{"opcode 99", 99, nil}),
			k.multi(good, request{"error", -1, body{}.i32(0)}),
			{"multi without an end", opMulti, body{}.i32(opCheck).boolean(false).i32(-1).str(k.path("~/a")).i32(-1)},
			{"multi with a header cut short", opMulti, body{}.i32(opCheck).boolean(false)},
			{"multi with done and another type", opMulti, body{}.i32(5).boolean(true).i32(0)},
			{"multi with done at once and more behind", opMulti, append(body{}.i32(-1).boolean(true).i32(-1), good.body...)},
		} {
			c.ask(r)
		}
		c.codes("nothing was written: set at version 0", k.set("~/a", nil, 0))
		c.ask(k.create("~/b", nil, 0))
		odd := append(body{}.i32(opSetData).boolean(false).i32(77), k.set("~/b", []byte("x"), -1).body...)
		c.ask(k.bytes("multi with odd err fields", opMulti, odd.i32(-1).boolean(true).i32(5)), k.get("~/b", false))
		c.end()
	}},
	{"multi-read", func(k *talk) {
		c := k.open("")
		c.ask(k.create("~/a", []byte("x"), 0), k.createACL("~/hidden", 0, ace{30, "world", "anyone"}), k.create("~/a/b", nil, 0))
		c.ask(k.multiRead(k.get("~/a", false), k.children("~/a", false), k.get("~/no", false), k.children("~/no", false), k.get("~/hidden", false), k.children("~/hidden", false), k.get("~/a/b", false)))
		c.ask(k.multiRead(k.get("~/a", true), k.children("~/a", true)), k.checkWatches("~/a", 3), k.set("~/a", nil, -1))
		c.ask(k.multiRead(k.get("", false), k.get("a", false), k.get("~/\x00", false)))
		for _, r := range []request{k.exists("~/a", false), k.children2("~/a", false), k.getACL("~/a"), {"opcode 99", 99, nil}} {
			c.ask(k.multiRead(k.get("~/a", false), r))
		}
		c.end()
	}},
	{"permission-inside", func(k *talk) {
		c := k.open("")
		c.ask(k.createACL("~/ro", 0, ace{1, "world", "anyone"}), k.createACL("~/wo", 0, ace{2, "world", "anyone"}))
		c.ask(k.multi(k.check("~/ro", 0)), k.multi(k.check("~/wo", 0)), k.multi(k.set("~/ro", nil, -1)), k.multi(k.set("~/wo", nil, -1)), k.multi(k.create("~/ro/x", nil, 0)), k.multi(k.del("~/ro", -1)))
		c.end()
	}},
	{"many-operations", func(k *talk) {
		c := k.open("")
		var list []request
		for range 1000 {
			list = append(list, k.create("~/n", nil, 2))
		}
		big := k.multi(list...)
		big.label = "multi of 1000 creates"
		r := c.must(opMulti, big.body)
		in := cursor{b: r.rest}
		results := 0
		for in.err == nil {
			if op := in.i32(); in.boolean() {
				in.i32()
				break
			} else if code := in.i32(); op == opCreate && code == 0 && len(in.str()) == len(k.path("~/n0000000000")) {
				results++
			}
		}
		c.logf("%s: %d results, %d bytes left", big.label, results, len(in.b))
		c.ask(k.allChildren("~"))
		c.end()
	}},
}

// TestRawAuth plays authentication and ACLs that name identities.
func TestRawAuth(t *testing.T) {
	want := settings{byRequest: true, jvm: map[string]string{
		// The password of super is "secret".
		"zookeeper.DigestAuthenticationProvider.superDigest": "super:lK75jTNcA+U9vtVEw5vB51mj/w4=",
	}}
	forEachServer(t, want, func(t *testing.T, s *server) { playTalks(t, s, "auth", authCases) })
}

var authCases = []rawCase{
	{"digest", func(k *talk) {
		a, b := k.open("bob"), k.open("eve")
		a.ask(k.whoAmI(), k.auth("digest", "bob:pw"), k.whoAmI())
		a.ask(k.createACL("~/mine", 0, ace{31, "auth", ""}), k.set("~/mine", []byte("x"), -1), k.getACL("~/mine"))
		b.ask(k.get("~/mine", false), k.set("~/mine", nil, -1), k.getACL("~/mine"), k.auth("digest", "bob:other"), k.get("~/mine", false), k.auth("digest", "bob:pw"), k.get("~/mine", false), k.whoAmI())
		a.end()
		b.end()
	}},
	{"several-identities", func(k *talk) {
		c := k.open("")
		c.ask(k.auth("digest", "bob:pw"), k.auth("digest", "ann:pw"), k.auth("digest", "bob:pw"), k.auth("ip", "10.0.0.1"), k.whoAmI())
		c.ask(k.createACL("~/both", 0, ace{31, "auth", "ignored"}, ace{1, "world", "anyone"}), k.getACL("~/both"))
		c.ask(k.auth("digest", "nocolon"), k.auth("digest", ""), k.auth("digest", ":"), k.whoAmI())
		c.end()
	}},
	{"failures-close", func(k *talk) {
		for _, r := range []request{
			k.auth("nonsense", "x"), k.auth("", "x"), k.auth("world", "anyone"), k.auth("sasl", "x"), k.auth("auth", ""), k.auth("super", "x"),
			k.bytes("auth of null scheme", opAuth, body{}.i32(0).null().buf([]byte("x"))),
			k.bytes("auth digest of null", opAuth, body{}.i32(0).str("digest").null()),
		} {
			c := k.open("")
			c.pipeline(numbered{xidAuth, r})
			c.closed()
		}
	}},
	{"identities-go-with-the-connection", func(k *talk) {
		a := k.open("a")
		a.ask(k.auth("digest", "bob:pw"), k.createACL("~/mine", 0, ace{31, "auth", ""}))
		info := a.info
		_ = a.conn.Close()
		b := k.connect("b", "same session", connectRequest{timeoutMs: 600000, session: info.session, password: info.password})
		b.ask(k.whoAmI(), k.get("~/mine", false), k.auth("digest", "bob:pw"), k.get("~/mine", false))
		b.end()
	}},
	{"ip", func(k *talk) {
		c := k.open("")
		c.ask(k.createACL("~/here", 0, ace{31, "ip", "127.0.0.1"}), k.createACL("~/net", 0, ace{31, "ip", "127.0.0.0/8"}), k.createACL("~/far", 0, ace{31, "ip", "10.0.0.0/8"}), k.createACL("~/all", 0, ace{31, "ip", "10.0.0.0/0"}))
		c.ask(k.get("~/here", false), k.get("~/net", false), k.get("~/far", false), k.get("~/all", false))
		c.end()
	}},
	{"redaction", func(k *talk) {
		c := k.open("")
		c.ask(k.createACL("~/a", 0, ace{31, "digest", "bob:ikIaKsbtGweaHnb/jKn7OHqbunM="}, ace{1, "world", "anyone"}, ace{1, "digest", "ann:hash"}, ace{3, "ip", "10.1.2.3"}))
		c.ask(k.getACL("~/a"), k.auth("digest", "bob:pw"), k.getACL("~/a"))
		c.end()
	}},
	{"super", func(k *talk) {
		c := k.open("")
		c.ask(k.createACL("~/closed", 0, ace{0, "world", "anyone"}), k.get("~/closed", false), k.auth("digest", "super:wrong"), k.get("~/closed", false), k.whoAmI())
		c.end()
		c = k.open("")
		c.ask(k.auth("digest", "super:secret"), k.whoAmI(), k.get("~/closed", false), k.set("~/closed", nil, -1), k.getACL("~/closed"), k.setACL("~/closed", -1, openACL...))
		c.ask(k.getACL("/zookeeper/config"), k.createACL("~/as-super", 0, ace{31, "auth", ""}), k.getACL("~/as-super"))
		c.end()
	}},
	{"identity-counts-when-the-request-came", func(k *talk) {
		c := k.open("")
		c.ask(k.createACL("~/bobs", 0, ace{31, "digest", "bob:ikIaKsbtGweaHnb/jKn7OHqbunM="}))
		c.burst(k.auth("digest", "bob:pw"), k.get("~/bobs", false), k.create("~/bobs/x", nil, 0))
		c.end()
	}},
	{"sasl-when-off", func(k *talk) {
		c := k.open("")
		c.ask(k.bytes("sasl empty token", opSASL, body{}.buf([]byte{})), k.exists("~", false))
		c.end()
	}},
}
