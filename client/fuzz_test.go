package client

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/zkd-project/zkd/wire"
)

// FuzzServer lets a server say anything after the handshake, in answer to every kind of
// request. Whatever it says, calls end, nothing panics, and all goroutines go.
func FuzzServer(f *testing.F) {
	reply := func(xid int32, code wire.Code, body ...byte) []byte {
		b, mark := wire.AppendFrame(nil)
		b = append(wire.AppendReply(b, xid, 5, code), body...)
		wire.FinishFrame(b, mark)
		return b
	}
	f.Add([]byte{})
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	f.Add(wire.AppendEvent(reply(1, wire.OK, 0, 0, 0, 1, 'x'), 7, wire.EventNodeDeleted, "/a"))
	f.Add(append(reply(1, wire.NoNode), reply(2, wire.OK, make([]byte, 72)...)...))
	f.Add(append(reply(1, wire.Unimplemented), reply(-2, wire.OK)...))
	f.Add(append(wire.AppendEvent(nil, -1, wire.EventNodeCreated, ""), wire.AppendEvent(nil, -1, wire.EventNodeDeleted, "x")...))
	f.Add(reply(-4, wire.AuthFailed))
	f.Add(wire.AppendMultiResults(reply(1, wire.OK), []wire.MultiResult{{Op: wire.OpError, Code: wire.OK}}))
	f.Fuzz(func(t *testing.T, said []byte) {
		first := true
		fk := newFake(t, script(func(c *fakeConn) {
			c.accept()
			if !first {
				c.serve(func(r fakeRequest) bool { fullReply(c, r); return true })
				return
			}
			first = false
			go func() {
				defer func() { _ = recover() }() // the client hung up
				for {
					c.frame()
				}
			}()
			c.raw(said)
		}))
		c, err := Dial(t.Context(), "127.0.0.1:1", fk.options(WithMaxFrame(1<<20), WithTimeout(200*time.Millisecond))...)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		go func() { _, _ = c.Subscribe(ctx, "/", Recursive) }()
		for _, call := range anyCalls {
			err := call.do(ctx, c)
			if errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v hangs", call.op)
			}
		}
		abandonClient(c)
		fk.stop()
	})
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
