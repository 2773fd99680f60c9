package server

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/zkd-project/zkd/wire"
)

func TestBrokenFramesCloseTheConnectionWithoutAByte(t *testing.T) {
	srv := startServer(t)
	for name, data := range map[string][]byte{
		"negative length":       {0xff, 0xff, 0xff, 0xff},
		"very negative length":  {0x80, 0, 0, 0},
		"a byte over the limit": {0, 0x10, 0, 0},
		"huge length":           {0x7f, 0xff, 0xff, 0xff},
		"length zero":           {0, 0, 0, 0},
		"less than a header":    frame([]byte{0, 0, 0, 1, 0, 0, 0}),
		"HTTP":                  []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"TLS":                   {0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3},
		"unknown word":          []byte("icfg"),
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, srv.addr)
			c.write(data)
			c.expectClosed()
			c = open(t, srv.addr, 10_000)
			c.write(data)
			c.expectClosed()
		})
	}
}

func TestWordBehindTheHandshakeIsABadLength(t *testing.T) {
	c := open(t, startServer(t).addr, 10_000)
	c.write([]byte("ruok"))
	c.expectClosed()
}

func TestLargestFramePasses(t *testing.T) {
	c := open(t, startServer(t).addr, 10_000)
	const limit = 0xfffff
	body := createBody("/big", nil, persistent)
	data := make([]byte, limit-8-len(body))
	body = createBody("/big", data, persistent)
	f := request(1, wire.OpCreate, body)
	if n := binary.BigEndian.Uint32(f); n != limit {
		t.Fatalf("the frame has %d bytes", n)
	}
	c.write(f)
	c.expect(1, wire.OK)
	if got, _ := dataOf(t, c.call(wire.OpGetData, readBody("/big", false), wire.OK)); len(got) != len(data) {
		t.Errorf("%d bytes came back", len(got))
	}
}

// However frames are cut into segments, and whatever size they have, they are put together
// again, and nothing is held when all is served.
func TestFramesArePutTogetherFromPieces(t *testing.T) {
	srv := startServer(t)
	for _, step := range []int{1, 3, 4, 7, 4096, 32 << 10, 32<<10 + 1, 100_000} {
		c := open(t, srv.addr, 10_000)
		var stream []byte
		sizes := []int{0, 1, 10, 100, 5000, 40_000, 32 << 10, 3, 200_000, 0}
		if step < 4 {
			sizes = sizes[:5]
		}
		for i, n := range sizes {
			stream = append(stream, request(int32(2*i), wire.OpSync, pathBody(string(bytes.Repeat([]byte("x"), n))))...)
			stream = append(stream, request(int32(2*i+1), wire.OpExists, readBody("/", false))...)
		}
		go func() {
			for len(stream) > 0 {
				n, err := c.nc.Write(stream[:min(step, len(stream))])
				if err != nil {
					return
				}
				stream = stream[n:]
			}
		}()
		for i, n := range sizes {
			if r := c.expect(int32(2*i), wire.OK); len(r.body) != 4+n {
				t.Fatalf("step %d: sync of %d bytes echoed %d", step, n, len(r.body)-4)
			}
			c.expect(int32(2*i+1), wire.OK)
		}
		c.call(wire.OpCloseSession, nil, wire.OK)
		c.expectClosed()
	}
	eventually(t, "the connections are forgotten", func() bool { return srv.connectionCount() == 0 })
	if n := srv.heldBytes.Load(); n != 0 {
		t.Errorf("%d bytes are counted as held", n)
	}
}

func TestUndecodableRequestsKeepTheConnection(t *testing.T) {
	c := open(t, startServer(t).addr, 10_000)
	null := []byte{0xff, 0xff, 0xff, 0xff}
	badLength := []byte{0, 0, 0, 9, '/'}
	for _, tc := range []struct {
		op   wire.OpCode
		body []byte
		code wire.Code
	}{
		{wire.OpCreate, nil, wire.MarshallingError},
		{wire.OpCreate, null, wire.MarshallingError},
		{wire.OpDelete, append(null, 0, 0, 0, 0), wire.MarshallingError},
		{wire.OpSetData, badLength, wire.MarshallingError},
		{wire.OpSetData, append(append(null, null...), null...), wire.BadArguments},
		{wire.OpGetData, badLength, wire.MarshallingError},
		{wire.OpGetData, append(null, 0), wire.MarshallingError},
		{wire.OpExists, append(null, 0), wire.MarshallingError},
		{wire.OpGetACL, nil, wire.MarshallingError},
		{wire.OpGetACL, null, wire.MarshallingError},
		{wire.OpGetAllChildrenNumber, null, wire.MarshallingError},
		{wire.OpGetEphemerals, null, wire.OK},
		{wire.OpSync, badLength, wire.MarshallingError},
		{wire.OpMulti, []byte{0}, wire.MarshallingError},
		{wire.OpMultiRead, []byte{0}, wire.MarshallingError},
		{wire.OpSetWatches, []byte{0}, wire.MarshallingError},
		{wire.OpSetWatches2, []byte{0}, wire.MarshallingError},
		{wire.OpAddWatch, pathBody("/"), wire.MarshallingError},
		{wire.OpAddWatch, append(pathBody("/"), 0, 0, 0, 2), wire.MarshallingError},
		{wire.OpAddWatch, append(pathBody("r/"), 0, 0, 0, 1), wire.BadArguments},
		{wire.OpRemoveWatches, append(pathBody("/"), 0, 0, 0, 9), wire.MarshallingError},
		{wire.OpCheckWatches, append(pathBody("/"), 0, 0, 0, 3), wire.NoWatcher},
		{wire.OpSASL, badLength, wire.MarshallingError},
	} {
		if r := c.call(tc.op, tc.body, tc.code); tc.code != wire.OK && len(r.body) != 0 {
			t.Errorf("%v: %x behind the header of an error", tc.op, r.body)
		}
	}
	c.call(wire.OpExists, readBody("/", false), wire.OK)
}

func TestUnknownOperationIsAnsweredAndEndsTheConnection(t *testing.T) {
	srv := startServer(t)
	for _, op := range []wire.OpCode{
		wire.OpNotification, wire.OpError, wire.OpCreateSession, wire.OpCheck, wire.OpDeleteContainer, 10, 23, 108, -2, 1 << 30,
	} {
		c := open(t, srv.addr, 10_000)
		c.write(
			request(1, wire.OpCreate, createBody("/n", nil, persistent)),
			request(2, op, nil),
			request(3, wire.OpExists, readBody("/", false)),
		)
		if r := c.next(); r.Xid != 1 {
			t.Fatalf("%v: reply to %d first", op, r.Xid)
		}
		if r := c.expect(2, wire.Unimplemented); r.Zxid != -1 {
			t.Errorf("%v: zxid %d", op, r.Zxid)
		}
		c.expectClosed()
	}
}

func TestXidsAreOpaque(t *testing.T) {
	c := open(t, startServer(t).addr, 10_000)
	for _, xid := range []int32{0, 1, 1, -77, 1<<31 - 1, -1 << 31, -8} {
		c.write(request(xid, wire.OpExists, readBody("/", false)))
		c.expect(xid, wire.OK)
	}
	c.write(request(5, wire.OpPing, nil))
	c.expect(wire.XidPing, wire.OK)
}
