package client

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/zkd-project/zkd/wire"
)

// When the server of FuzzServer says its piece.
const (
	insteadOfHello = iota
	afterHello     // in answer to every kind of request
	insteadOfAuth
	insteadOfWatches // that are set again after a reconnect
	stages
)

// FuzzServer lets a server say anything, at any stage of a connection, to a client that is in
// use. Whatever it says, calls end with an error of ours or none, nothing panics, memory is bounded
// by what was said, and all goroutines go.
func FuzzServer(f *testing.F) {
	reply := func(xid int32, code wire.Code, body ...byte) []byte {
		b, mark := wire.AppendFrame(nil)
		b = append(wire.AppendReply(b, xid, 5, code), body...)
		wire.FinishFrame(b, mark)
		return b
	}
	hello, mark := wire.AppendFrame(nil)
	hello = (&wire.ConnectResponse{TimeoutMs: 10_000, SessionID: 0x77, Password: make([]byte, 16)}).Append(hello)
	wire.FinishFrame(hello, mark)
	for stage := range byte(stages) {
		f.Add(stage, []byte{})
		f.Add(stage, hello)
		f.Add(stage, append(hello, reply(-4, wire.OK)...))
		f.Add(stage, []byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
		f.Add(stage, wire.AppendEvent(reply(1, wire.OK, 0, 0, 0, 1, 'x'), 7, wire.EventNodeDeleted, "/a"))
		f.Add(stage, append(reply(1, wire.NoNode), reply(2, wire.OK, make([]byte, 72)...)...))
		f.Add(stage, append(reply(1, wire.Unimplemented), reply(-2, wire.OK)...))
		f.Add(stage, append(wire.AppendEvent(nil, -1, wire.EventNodeCreated, ""), wire.AppendEvent(nil, -1, wire.EventNodeDeleted, "x")...))
		f.Add(stage, reply(-4, wire.AuthFailed))
		f.Add(stage, reply(1, wire.SessionMoved))
		f.Add(stage, reply(1, wire.SessionExpired))
		f.Add(stage, append([]byte{0x7f, 0xff, 0xff, 0xff}, reply(1, wire.OK)[4:]...)) // a reply of 2 GiB
		f.Add(stage, reply(1, wire.OK, 0x7f, 0xff, 0xff, 0xff))                        // two billion children
		f.Add(stage, wire.AppendMultiResults(reply(1, wire.OK), []wire.MultiResult{{Op: wire.OpError, Code: wire.OK}}))
	}
	f.Fuzz(func(t *testing.T, stage byte, said []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		synctest.Test(t, func(t *testing.T) {
			fk := newFake(t, fuzzedServer(int(stage)%stages, said))
			ctx, cancel := context.WithTimeout(t.Context(), testLimit)
			defer cancel()
			c, err := Dial(ctx, "127.0.0.1:1", fk.options(WithMaxFrame(1<<20), WithAuth("digest", []byte("a:b")), fastRetry())...)
			if err == nil {
				useFuzzed(ctx, t, fk, c)
				abandonClient(c)
			} else if errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Dial hangs: %v", err)
			}
			fk.stop()
		})
		runtime.ReadMemStats(&after)
		if used, most := after.TotalAlloc-before.TotalAlloc, uint64(32<<20+100*len(said)); used > most {
			t.Errorf("%d bytes were allocated after %d were said", used, len(said))
		}
	})
}

// fuzzedServer says its piece once, and is sane before and behind it.
func fuzzedServer(stage int, said []byte) func(*fakeConn) {
	var conns atomic.Int64
	say := func(c *fakeConn) {
		over := make(chan struct{})
		go func() {
			defer close(over)
			defer func() { _ = recover() }() // the client hung up
			for {
				c.frame()
			}
		}()
		defer func() { <-over }() // it stays until then, and says no more
		c.raw(said)
	}
	return script(func(c *fakeConn) {
		nth := conns.Add(1)
		if nth == 1 && stage == insteadOfHello {
			c.hello()
			say(c)
			return
		}
		c.accept()
		spoke := nth > 2 || nth == 2 && stage != insteadOfWatches
		for {
			r := c.next()
			now := stage == insteadOfAuth && r.Op == wire.OpAuth || stage == afterHello && r.Op != wire.OpAuth ||
				stage == insteadOfWatches && (r.Op == wire.OpSetWatches || r.Op == wire.OpSetWatches2)
			if now && !spoke {
				say(c)
				return
			}
			fullReply(c, r)
			if r.Op == wire.OpCloseSession {
				return
			}
		}
	})
}

// useFuzzed makes every call there is, with watches that must be set again.
func useFuzzed(ctx context.Context, t *testing.T, fk *fake, c *Client) {
	go func() { _, _ = c.Subscribe(ctx, "/", Recursive) }()
	_, _, _, _ = c.GetW(ctx, "/a")
	fk.cut()
	for _, call := range anyCalls {
		err := call.do(ctx, c)
		var plain *Error
		var unsure *UncertainError
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			t.Errorf("%v hangs: %v", call.op, err)
		case err != nil && !errors.As(err, &plain) && !errors.As(err, &unsure):
			t.Errorf("%v: an error of no kind: %v", call.op, err)
		}
	}
}

// FuzzHandshake lets it say anything instead of a connect response.
func FuzzHandshake(f *testing.F) {
	b, mark := wire.AppendFrame(nil)
	b = (&wire.ConnectResponse{TimeoutMs: 1000, SessionID: 1, Password: make([]byte, 16)}).Append(b)
	wire.FinishFrame(b, mark)
	f.Add(b)
	f.Add([]byte{0, 0, 0, 5, 1, 2, 3, 4, 5})
	f.Add([]byte{0x15, 3, 3, 0, 2, 2, 40})
	f.Fuzz(func(t *testing.T, said []byte) {
		near, far := net.Pipe()
		go func() {
			defer far.Close()
			_, _ = far.Read(make([]byte, 100))
			_, _ = far.Write(said)
		}()
		defer near.Close()
		k := newCore(defaultConfig(), []string{"a:1"})
		defer k.cancel()
		c := &conn{k: k, nc: near, sock: near, in: newFrameReader(near, 1<<20), dead: make(chan struct{})}
		hello, err := c.handshake(k.connectRequest(true))
		if err == nil && (hello.SessionID == 0 || c.timeout <= 0) {
			t.Fatalf("accepted %+v", hello)
		}
	})
}

// FuzzFrameReader compares the reader with a plain one, whatever the pieces in which bytes come.
func FuzzFrameReader(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 9, 0, 0, 0, 0}, uint16(1))
	f.Add(append([]byte{0, 1, 0x11, 0x70}, make([]byte, 70_000)...), uint16(4096))
	f.Fuzz(func(t *testing.T, stream []byte, piece uint16) {
		const max = 200_000
		r := newFrameReader(&pieces{stream, int(piece)%5000 + 1}, max)
		for rest := stream; ; {
			body, err := r.next()
			if len(rest) < 4 {
				if err == nil {
					t.Fatal("a frame out of nothing")
				}
				return
			}
			n := int(int32(binary.BigEndian.Uint32(rest)))
			if n < 0 || n > max || n > len(rest)-4 {
				if err == nil {
					t.Fatalf("a frame of %d bytes", n)
				}
				return
			}
			if err != nil || !bytes.Equal(body, rest[4:4+n]) {
				t.Fatalf("frame of %d bytes: %v", n, err)
			}
			rest = rest[4+n:]
			if len(r.buf) > max+wire.FrameLengthSize {
				t.Fatalf("the buffer has %d bytes", len(r.buf))
			}
		}
	})
}

// pieces hands a stream out in pieces.
type pieces struct {
	rest []byte
	size int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, errors.New("the end")
	}
	n := copy(b[:min(p.size, len(b))], p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

func FuzzPath(f *testing.F) {
	for _, p := range []string{"/", "/a", "/a/../b", "/a/", "//", "/\u2028", "\x00"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p string) {
		if checkPath(p, false) != "" {
			return
		}
		parent, name := split(p)
		if p != "/" && (join(parent, name) != p || checkPath(parent, false) != "") {
			t.Fatalf("%q is %q and %q", p, parent, name)
		}
		if checkPath(p+"0", false) != "" && p != "/" {
			t.Fatalf("%q is valid and with a number it is not", p)
		}
	})
}
