package interop

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"time"
)

// A bystander is a well-behaved client that works while others misbehave. It has a bound
// on how long it may have to wait.
type bystander struct {
	t       *testing.T
	conn    *rawConn
	stop    chan struct{}
	done    chan struct{}
	waits   []time.Duration
	failure error
}

// standBy starts a bystander; its end comes with calm.
func standBy(t *testing.T, s *server) *bystander {
	t.Helper()
	b := &bystander{t: t, conn: openSession(t, s.addr, 20000), stop: make(chan struct{}), done: make(chan struct{})}
	b.conn.call(opCreate, createBody("/bystander", nil, 0))
	go func() {
		defer close(b.done)
		for i := 0; ; i++ {
			select {
			case <-b.stop:
				return
			default:
			}
			op, body := opGetData, readBody("/bystander", false)
			if i%2 == 0 {
				op, body = opSetData, setBody("/bystander", []byte("x"), -1)
			}
			start := time.Now()
			if r, err := b.conn.try(op, body); err != nil || r.err != 0 {
				b.failure = fmt.Errorf("request %d: error %d, %w", i, r.err, err)
				return
			}
			b.waits = append(b.waits, time.Since(start))
			time.Sleep(2 * time.Millisecond) // a pace, not a wait for something
		}
	}()
	return b
}

// calm ends the bystander and says whether it was served all the time.
func (b *bystander) calm() {
	b.t.Helper()
	close(b.stop)
	<-b.done
	if b.failure != nil {
		b.t.Errorf("a client that did nothing wrong: %v", b.failure)
		return
	}
	if slow := tooSlow(b.waits); slow != "" {
		b.t.Errorf("a client that did nothing wrong %s", slow)
	}
}

// tooSlow says what is wrong with how long requests took; empty: nothing. The bounds are wide:
// the machine is shared by the servers, the attackers and other tests, and it may stand still,
// or its disk, for a second or two, which is all that the slowest of a few dozen requests shows.
// Whom an attack keeps from being served waits with most requests, or until the attack ends.
func tooSlow(waits []time.Duration) string {
	if len(waits) == 0 {
		return ""
	}
	slices.Sort(waits)
	median, p99 := waits[len(waits)/2], waits[len(waits)*99/100]
	if median > time.Second || p99 > 10*time.Second {
		return fmt.Sprintf("waited %v at the median and %v at the 99th percentile of %d requests", median, p99, len(waits))
	}
	return ""
}

// TestAbuseGarbage sends what is no ZooKeeper frame at all: closed at once.
func TestAbuseGarbage(t *testing.T) {
	forEachServer(t, settings{byRequest: true}, func(t *testing.T, s *server) {
		b := standBy(t, s)
		random := rand.New(rand.NewPCG(1, 2))
		garbage := map[string][]byte{
			"http":          []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
			"tls":           {0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03},
			"negative":      {0xff, 0xff, 0xff, 0xff},
			"huge":          {0x7f, 0xff, 0xff, 0xff},
			"over-limit":    {0x00, 0x10, 0x00, 0x00},
			"ssh":           []byte("SSH-2.0-OpenSSH_9.2\r\n"),
			"handshake-bad": body{}.buf(make([]byte, 10)),
		}
		for i := range 20 {
			p := make([]byte, 64)
			for k := range p {
				p[k] = byte(random.Uint32())
			}
			p[0] |= 0x40 // a length over the limit
			garbage[fmt.Sprint("random-", i)] = p
		}
		for name, p := range garbage {
			c := dialRaw(t, s.addr)
			_ = c.sendBytes(p)
			if !c.closedWithin(patience) {
				t.Errorf("%s: the connection stays open", name)
			}
		}
		b.calm()
	})
}

// TestAbuseLengths announces large frames and sends nothing of them: memory follows what
// has come, not what was announced.
func TestAbuseLengths(t *testing.T) {
	want := settings{byRequest: true, zkdOnly: "ZooKeeper sets aside what a length announces"}
	forEachServer(t, want, func(t *testing.T, s *server) {
		b := standBy(t, s)
		before := s.rss()
		var conns []*rawConn
		for i := range 300 {
			c := dialRaw(t, s.addr)
			if i%2 == 0 { // half of them behind a handshake
				c = openSession(t, s.addr, 60000)
			}
			_ = c.sendBytes(body{}.i32(maxFrame))
			conns = append(conns, c)
		}
		openSession(t, s.addr, 60000).must(opPing, nil)
		if grown := s.rss() - before; grown > 64<<20 {
			t.Errorf("300 announced frames of 1 MiB cost %d MiB", grown>>20)
		}
		for _, c := range conns {
			_ = c.conn.Close()
		}
		b.calm()
	})
}

// TestAbuseSilence connects and says nothing, or half of a frame: closed when the time for
// a handshake is over.
func TestAbuseSilence(t *testing.T) {
	t.Parallel()
	forEachServer(t, settings{parallel: true, byRequest: true}, func(t *testing.T, s *server) {
		b := standBy(t, s)
		silent, half := dialRaw(t, s.addr), dialRaw(t, s.addr)
		_ = half.sendBytes(body{}.i32(45))
		awaitHangUp(t, map[string]net.Conn{"silent": silent.conn, "half a frame": half.conn})
		b.calm()
	})
}

// TestAbuseSlowHandshake keeps a connection busy without ever coming to a session, on the
// plain port and inside TLS.
func TestAbuseSlowHandshake(t *testing.T) {
	t.Parallel()
	leaveOutOfShort(t)
	k, err := pemKeys()
	if err != nil {
		t.Fatal(err)
	}
	want := secureSettings(k, nil)
	want.zkdOnly = "with TLS (Netty), ZooKeeper never asks how long a handshake takes"
	want.parallel = true
	forEachServer(t, want, func(t *testing.T, s *server) {
		b := standBy(t, s)
		slow := dialRaw(t, s.addr)
		go func() {
			for range 45 {
				if slow.sendBytes([]byte{0}) != nil {
					return
				}
				time.Sleep(time.Second) // the attack
			}
		}()
		unfinished := dialRaw(t, s.secureAddr)
		_ = unfinished.sendBytes([]byte{0x16, 0x03, 0x01})
		quiet, err := tls.Dial("tcp", s.secureAddr, &tls.Config{RootCAs: k.roots, Certificates: []tls.Certificate{k.clientCert}})
		if err != nil {
			t.Fatal(err)
		}
		defer quiet.Close()
		awaitHangUp(t, map[string]net.Conn{"a byte now and then": slow.conn, "an unfinished TLS handshake": unfinished.conn, "silent inside TLS": quiet})
		b.calm()
	})
}

// awaitHangUp waits until the server has closed each connection: not so soon that it would
// hit an honest slow client, and not later than after a minute, though its limit is ten seconds.
func awaitHangUp(t *testing.T, conns map[string]net.Conn) {
	t.Helper()
	start := time.Now()
	type end struct {
		name string
		took time.Duration
	}
	ends := make(chan end, len(conns))
	for name, c := range conns {
		_ = c.SetReadDeadline(start.Add(patience))
		go func() {
			_, _ = io.Copy(io.Discard, c)
			ends <- end{name, time.Since(start)}
		}()
	}
	for range conns {
		e := <-ends
		if e.took < 2*time.Second || e.took > time.Minute {
			t.Errorf("%s: closed after %v", e.name, e.took)
		}
	}
}

// TestAbuseFlood opens more connections from one address than are allowed.
func TestAbuseFlood(t *testing.T) {
	const limit = 20
	want := settings{byRequest: true, config: map[string]string{"maxClientCnxns": fmt.Sprint(limit)}}
	forEachServer(t, want, func(t *testing.T, s *server) {
		b := standBy(t, s)
		refused := 0
		var conns []*rawConn
		for range 5 * limit {
			if c, err := tryOpen(t, s.addr); err != nil {
				refused++
			} else {
				conns = append(conns, c)
			}
		}
		if len(conns) != limit-1 || refused != 5*limit-len(conns) {
			t.Errorf("%d connections beside the first, %d refused; want %d", len(conns), refused, limit-1)
		}
		for _, c := range conns {
			c.closeSession()
		}
		waitFor(t, patience, "there is room again", func() bool {
			_, err := tryOpen(t, s.addr)
			return err == nil
		})
		b.calm()
	})
}

// tryOpen is openSession for a server that may refuse, already while dialling.
func tryOpen(t *testing.T, addr string) (*rawConn, error) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = conn.Close() })
	c := &rawConn{t: t, conn: conn}
	return c, c.handshake(connectRequest{timeoutMs: 60000, password: make([]byte, 16)})
}

// TestAbuseManySessions holds a thousand sessions open and breaks them all at once.
func TestAbuseManySessions(t *testing.T) {
	forEachServer(t, settings{byRequest: true}, func(t *testing.T, s *server) {
		b := standBy(t, s)
		for range 1000 {
			c := openSession(t, s.addr, 5000)
			c.must(opCreate, createBody("/many-", nil, 3))
			_ = c.conn.Close()
		}
		observer := openSession(t, s.addr, 20000)
		s.waitInPeace(t, "a thousand sessions expire", func() bool {
			r := observer.must(opGetChildren, readBody("/", false))
			return len((&cursor{b: r.rest}).strs()) == 2 // zookeeper and bystander
		})
		b.calm()
	})
}

// TestAbusePipelining sends requests without end and without reading; when it reads at
// last, every reply that it gets is in order.
func TestAbusePipelining(t *testing.T) {
	forEachServer(t, settings{byRequest: true}, func(t *testing.T, s *server) {
		b := standBy(t, s)
		before := s.rss()
		c := openSession(t, s.addr, 60000)
		c.must(opCreate, createBody("/pipelined", make([]byte, 1000), 0))
		sent := int32(0)
		_ = c.conn.SetWriteDeadline(time.Now().Add(3 * time.Second)) // the server may stop reading
		for ; sent < 30000; sent++ {
			if _, err := c.conn.Write(body{}.buf(append(body{}.i32(sent).i32(opGetData), readBody("/pipelined", false)...))); err != nil {
				break
			}
		}
		if grown := s.rss() - before; s.kind == zkd && grown > 128<<20 {
			t.Errorf("%d requests whose replies nobody reads cost %d MiB", sent, grown>>20)
		}
		for want := range sent {
			r, err := c.readReply()
			if err != nil {
				if s.kind == zkd {
					t.Logf("cut after %d of %d replies", want, sent) // allowed
				}
				break
			}
			if r.xid != want || r.err != 0 {
				t.Fatalf("reply %d, error %d to request %d", r.xid, r.err, want)
			}
		}
		b.calm()
	})
}

// TestAbuseUnreadEvents watches everything and reads nothing while others write.
func TestAbuseUnreadEvents(t *testing.T) {
	want := settings{
		byRequest: true,
		zkdOnly:   "ZooKeeper keeps every event in memory, until it has none left",
		config:    map[string]string{"zkd.maxTotalBufferBytes": fmt.Sprint(64 << 20)},
	}
	forEachServer(t, want, func(t *testing.T, s *server) {
		b := standBy(t, s)
		before := s.rss()
		for range 50 {
			openSession(t, s.addr, 60000).must(opAddWatch, body{}.str("/").i32(1))
		}
		writer := openSession(t, s.addr, 60000)
		path := "/" + string(make([]byte, 0, 1000))
		for len(path) < 1000 {
			path += "long-path-"
		}
		writer.must(opCreate, createBody(path, nil, 0))
		var out body
		for xid := range int32(100) {
			out = out.buf(append(body{}.i32(xid).i32(opSetData), setBody(path, nil, -1)...))
		}
		var most int64
		for range 100 { // 10,000 writes: half a gigabyte of events
			if err := writer.sendBytes(out); err != nil {
				t.Fatal(err)
			}
			for range 100 {
				if r, err := writer.readReply(); err != nil || r.err != 0 {
					t.Fatalf("write: %+v, %v", r, err)
				}
			}
			most = max(most, s.rss()-before)
		}
		if most > 256<<20 {
			t.Errorf("events that nobody reads cost %d MiB", most>>20)
		}
		b.calm()
	})
}

// TestAbuseLargeDirectory lists a directory whose names fill more than a frame.
func TestAbuseLargeDirectory(t *testing.T) {
	forEachServer(t, settings{byRequest: true}, func(t *testing.T, s *server) {
		b := standBy(t, s)
		c := openSession(t, s.addr, 60000)
		c.must(opCreate, createBody("/large", nil, 0))
		k := &talk{t: t}
		var list []request
		for range 2000 {
			list = append(list, k.create("/large/a-name-of-some-length-", nil, 2))
		}
		multi := k.multi(list...)
		for range 20 {
			c.must(opMulti, multi.body)
		}
		r, err := c.try(opGetChildren, readBody("/large", false))
		if names := (&cursor{b: r.rest}).strs(); err != nil || r.err != 0 || len(names) != 40000 {
			t.Errorf("%d names, error %d, %v", len(names), r.err, err)
		}
		if r := c.must(opExists, readBody("/large", false)); (&cursor{b: r.rest}).stat().numChildren != 40000 {
			t.Error("the stat counts others")
		}
		b.calm()
	})
}

// TestAbuseMutatedFrames sends requests with bytes changed, cut and put in, by seed.
func TestAbuseMutatedFrames(t *testing.T) {
	forEachServer(t, settings{byRequest: true}, func(t *testing.T, s *server) {
		b := standBy(t, s)
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		k := &talk{t: t, base: "/mutated"}
		good := append(everyOp(k), k.auth("digest", "bob:pw"), k.whoAmI(), request{"ping", opPing, nil}, k.bytes("sasl", opSASL, body{}.buf(nil)), k.bytes("reconfig", opReconfig, body{}.null().null().null().i64(-1)))
		conns := 300
		for range conns {
			c := dialRaw(t, s.addr)
			if err := c.handshake(connectRequest{timeoutMs: 5000, password: make([]byte, 16)}); err != nil {
				t.Fatal(err)
			}
			var out body
			for range 20 {
				r := good[random.IntN(len(good))]
				frame := mutate(random, append(body{}.i32(random.Int32()).i32(r.op), r.body...))
				if s.kind == zookeeper && len(frame) >= 8 { // some requests of its own would kill it: see TestBetter
					switch op := (&cursor{b: frame[4:]}).i32(); op {
					case opCheck, opCreateTTL, opCreateSession:
						continue
					}
				}
				out = out.buf(frame)
			}
			_ = c.sendBytes(out)
			_ = c.conn.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, c.conn)
			_ = c.conn.Close()
		}
		if !s.running() {
			t.Fatalf("the server has ended (seed %d)", seed)
		}
		b.calm()
	})
}

// mutate changes a few bytes, or the length, of a frame's body.
func mutate(random *rand.Rand, p body) body {
	for range random.IntN(4) {
		if len(p) == 0 {
			break
		}
		i := random.IntN(len(p))
		switch random.IntN(6) {
		case 0:
			p[i] = byte(random.Uint32())
		case 1:
			p[i] ^= 1 << random.IntN(8)
		case 2:
			p = p[:i]
		case 3:
			p = slices.Insert(p, i, byte(random.Uint32()))
		case 4:
			p = slices.Delete(p, i, i+1)
		case 5:
			if i+4 <= len(p) {
				copy(p[i:], body{}.i32([]int32{-1, -2, 0, 0x7fffffff, 0x10000}[random.IntN(5)]))
			}
		}
	}
	return p
}

// TestAbuseHalfOpen leaves connections without closing them, as a client does whose cable
// is cut: their sessions end in time, and so do the connections.
func TestAbuseHalfOpen(t *testing.T) {
	forEachServer(t, settings{byRequest: true}, func(t *testing.T, s *server) {
		p := startProxy(t, s.addr)
		var conns []*rawConn
		for range 100 {
			conns = append(conns, openSession(t, p.addr, 1500))
		}
		p.order("mute")
		for _, c := range conns {
			_ = c.sendFrame(body{}.i32(xidPing).i32(opPing)) // never arrives
		}
		observer := openSession(t, s.addr, 20000)
		k := &talk{t: t, addr: s.addr}
		s.waitInPeace(t, "the connections of the dead are closed", func() bool {
			observer.must(opPing, nil)
			return number(t, k.mntr()["zk_num_alive_connections"]) <= 2
		})
		p.order("pass")
		if _, err := resume(t, s.addr, 1500, conns[0].info); !errors.Is(err, errRefused) {
			t.Errorf("resuming a session that ended: %v", err)
		}
	})
}
