package interop

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestRawHandshake plays the connect request in all its forms (protocol: connection
// handshake, session timeouts, reconnect, close).
func TestRawHandshake(t *testing.T) {
	forEachServer(t, settings{byRequest: true}, func(t *testing.T, s *server) {
		playTalks(t, s, "handshake", handshakeCases)
	})
}

var handshakeCases = []rawCase{
	{"new-session-forms", func(k *talk) {
		zeros := make([]byte, 16)
		for _, v := range []struct {
			label string
			r     connectRequest
		}{
			{"as Java does", connectRequest{timeoutMs: 10000, password: zeros}},
			{"without the read-only byte", connectRequest{timeoutMs: 10000, password: zeros, noFlag: true}},
			{"read-only allowed", connectRequest{timeoutMs: 10000, password: zeros, readOnly: true}},
			{"protocol version 7", connectRequest{protocol: 7, timeoutMs: 10000, password: zeros}},
			{"null password", connectRequest{timeoutMs: 10000}},
			{"empty password", connectRequest{timeoutMs: 10000, password: []byte{}}},
			{"5-byte password", connectRequest{timeoutMs: 10000, password: zeros[:5]}},
			{"40-byte password", connectRequest{timeoutMs: 10000, password: make([]byte, 40)}},
			{"100 bytes too many", connectRequest{timeoutMs: 10000, password: zeros, extra: make([]byte, 100)}},
		} {
			k.connect("", v.label, v.r).end()
		}
	}},
	{"timeout-negotiation", func(k *talk) {
		for _, ms := range []int32{0, -5, 1, 499, 500, 12345, 599999, 600001, 99999999} {
			k.connect("", fmt.Sprintf("timeout %d", ms), connectRequest{timeoutMs: ms, password: make([]byte, 16)}).endAtOnce()
		}
	}},
	{"client-ahead-of-server", func(k *talk) {
		c := k.open("")
		zxid := k.zxid
		k.connect("", "last zxid far ahead", connectRequest{timeoutMs: 10000, lastZxid: zxid + 1000000, password: make([]byte, 16)})
		k.connect("", "last zxid equal", connectRequest{timeoutMs: 10000, lastZxid: zxid, password: make([]byte, 16)}).end()
		k.connect("", "last zxid -1", connectRequest{timeoutMs: 10000, lastZxid: -1, password: make([]byte, 16)}).end()
		k.connect("", "resume, last zxid far ahead", connectRequest{
			timeoutMs: 10000, lastZxid: zxid + 1000000, session: c.info.session, password: c.info.password,
		})
		d := k.connect("", "resume", connectRequest{timeoutMs: 10000, session: c.info.session, password: c.info.password})
		d.ask(k.exists("~", false))
		d.end()
	}},
	{"resume", func(k *talk) {
		c := k.connect("", "new", connectRequest{timeoutMs: 10000, password: make([]byte, 16)})
		k.zxid = c.ping()
		c.ask(k.create("~/e", []byte("x"), 1))
		_ = c.conn.Close()
		id, password := c.info.session, c.info.password
		again := func(label string, r connectRequest) *talker {
			r.session = id
			return k.connect("", label, r)
		}
		d := again("right password, other timeout", connectRequest{timeoutMs: 30000, password: password})
		d.ask(k.get("~/e", false))
		_ = d.conn.Close()
		wrong := append([]byte{}, password...)
		wrong[15] ^= 1
		again("wrong password", connectRequest{timeoutMs: 10000, password: wrong}).closed()
		again("no flag, wrong password", connectRequest{timeoutMs: 10000, password: wrong, noFlag: true}).closed()
		again("password cut short", connectRequest{timeoutMs: 10000, password: password[:15]}).closed()
		again("password with a byte more", connectRequest{timeoutMs: 10000, password: append(append([]byte{}, password...), 0)}).closed()
		again("zero password", connectRequest{timeoutMs: 10000, password: make([]byte, 16)}).closed()
		again("empty password", connectRequest{timeoutMs: 10000, password: []byte{}}).closed()
		again("null password", connectRequest{timeoutMs: 10000}).closed()
		d = again("right password, no flag", connectRequest{timeoutMs: 10000, password: password, noFlag: true})
		d.ask(k.get("~/e", false))
		d.end()
		again("after close", connectRequest{timeoutMs: 10000, password: password}).closed()
		c = k.open("")
		c.ask(k.exists("~/e", false))
		c.end()
	}},
	{"unknown-session", func(k *talk) {
		for _, id := range []int64{1, -1, 0x0123456789abcdef, -0x8000000000000000} {
			k.connect("", fmt.Sprintf("session %#x", uint64(id)), connectRequest{timeoutMs: 10000, session: id, password: make([]byte, 16)}).closed()
		}
	}},
	{"second-connection-cuts-the-first", func(k *talk) {
		a := k.open("a")
		a.ask(k.create("~/e", nil, 1))
		b := k.connect("b", "same session", connectRequest{timeoutMs: 600000, session: a.info.session, password: a.info.password})
		a.closed()
		b.ask(k.get("~/e", false))
		b.end()
	}},
	{"requests-behind-the-connect-request", func(k *talk) {
		c := &talker{dialRaw(k.t, k.addr), k, ""}
		out := body{}.buf(connectRequest{timeoutMs: 10000, password: make([]byte, 16)}.encode())
		out = out.buf(append(body{}.i32(1).i32(opExists), readBody("/", false)...))
		out = out.buf(body{}.i32(xidPing).i32(opPing))
		if err := c.sendBytes(out); err != nil {
			k.t.Fatal(err)
		}
		c.logHandshake(c.readHandshake())
		for range 2 {
			r, err := c.readReply()
			c.logf("  xid=%d err=%d bytes=%d failed=%t", r.xid, r.err, len(r.rest), err != nil)
		}
		c.end()
	}},
	{"close-session", func(k *talk) {
		c := k.open("")
		c.ask(k.create("~/e", nil, 1), k.bytes("closeSession", opClose, nil))
		c.closed()
		c = k.open("")
		c.ask(k.exists("~/e", false))
		c.burst(k.bytes("closeSession with a body", opClose, body{}.str("unread")), k.get("/", false), k.set("~", []byte("late"), -1))
		// What comes behind is not done. ZooKeeper may still find the time to say why not.
		k.lines = slices.DeleteFunc(k.lines, func(line string) bool { return strings.HasSuffix(line, " err=-112") })
		if closed := "  closed without a reply"; k.lines[len(k.lines)-1] != closed { // it has found it for all of them
			k.lines = append(k.lines, closed)
		}
		c = k.open("")
		c.codes("nothing was written: set at version 0", k.set("~", nil, 0))
		c.end()
	}},
	{"bad-connect-requests", func(k *talk) {
		full := connectRequest{timeoutMs: 10000, password: make([]byte, 16)}.encode()
		for _, n := range []int{0, 1, 8, 27, 28, 43} {
			c := k.dial("")
			c.logf("connect request cut to %d bytes", n)
			_ = c.sendFrame(full[:n])
			c.logHandshake(c.readHandshake())
		}
		for _, v := range []struct {
			label string
			b     []byte
		}{
			{"length -1", body{}.i32(-1)},
			{"length -2^31", body{}.i32(-0x80000000)},
			{"length 0x100000", body{}.i32(0x100000)},
			{"password length -2", body{}.buf(body{}.i32(0).i64(0).i32(10000).i64(0).i32(-2).boolean(false))},
			{"password length beyond the frame", body{}.buf(body{}.i32(0).i64(0).i32(10000).i64(0).i32(1000).boolean(false))},
			{"random bytes", []byte("\x00\x00\x00\x20random bytes of a foreign kind!!!")},
		} {
			c := k.dial("")
			c.logf("connect: %s", v.label)
			_ = c.sendBytes(v.b)
			c.logHandshake(c.readHandshake())
		}
	}},
	{"connect-request-twice", func(k *talk) {
		c := k.open("")
		_ = c.sendFrame(connectRequest{timeoutMs: 10000, password: make([]byte, 16)}.encode())
		r, err := c.readReply()
		c.logf("xid=%d zxid=%d err=%d failed=%t", r.xid, r.zxid, r.err, err != nil)
		c.closed()
	}},
	{"four-letter-word-after-the-handshake", func(k *talk) {
		c := k.open("")
		_ = c.sendBytes([]byte("srvr"))
		c.closed()
	}},
}

// dial connects and says nothing.
func (k *talk) dial(name string) *talker {
	k.t.Helper()
	return &talker{dialRaw(k.t, k.addr), k, name}
}
