package client

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zkd-project/zkd/client/internal/echo"
	"github.com/zkd-project/zkd/wire"
)

// Frames of the requests that are sent most often are built without garbage.
func TestRequestFramesDoNotAllocate(t *testing.T) {
	k := newCore(defaultConfig(), []string{"a:1"})
	defer k.cancel()
	c := &conn{k: k, dead: make(chan struct{}), open: true, kick: make(chan struct{}, 1)}
	out := make([]byte, 0, 4096)
	send := func(op wire.OpCode, root string) {
		r := k.newRequest(op)
		r.frame = appendPathWatch(r.frame, op, root, "/some/path/that/is/long/enough")
		k.enqueue(r)
		out = c.take(out[:0])
		k.budget.give(len(r.frame), 1)
		c.pending.remove(r)
		r.release()
	}
	for what, f := range map[string]func(){
		"ping":            func() { c.pingDue = true; out = c.take(out[:0]) },
		"exists":          func() { send(wire.OpExists, "") },
		"getData":         func() { send(wire.OpGetData, "") },
		"getData, chroot": func() { send(wire.OpGetData, "/app/of/mine") },
	} {
		f()
		require.NotEmpty(t, out, what)
		if raceEnabled {
			continue
		}
		if n := testing.AllocsPerRun(1000, f); n != 0 {
			t.Errorf("%s: %v allocations, want 0", what, n)
		}
	}
}

// The bytes are those that were captured between a Java client and ZooKeeper 3.8.0.
func TestGoldenFrames(t *testing.T) {
	world := WorldACL(PermAll)
	for want, b := range map[string][]byte{
		"00000008 fffffffe 0000000b": pingFrame,
		"00000032 00000000 00000001 00000002 2f61 00000001 78 00000001 0000001f 00000005 776f726c64 00000006 616e796f6e65 00000001": appendCreate(nil, wire.OpCreate, "", "/a", []byte("x"), world, wire.FlagEphemeral),
		"00000031 00000000 0000000f 00000002 2f62 ffffffff 00000001 0000001f 00000005 776f726c64 00000006 616e796f6e65 00000000":    appendCreate(nil, wire.OpCreate2, "/b", "/", nil, world, 0),
		"00000012 00000000 00000003 00000005 2f6e6f7065 00":                                                                         appendPathWatch(nil, wire.OpExists, "", "/nope"),
		"00000018 00000000 00000005 00000002 2f61 00000002 7979 00000000":                                                           appendSet(nil, "", "/a", []byte("yy"), 0),
		"0000000e 00000000 00000006 00000002 2f61":                                                                                  appendPathOnly(nil, wire.OpGetACL, "", "/a"),
		"00000012 00000000 0000006a 00000002 2f62 00000001":                                                                         appendPathNumber(nil, wire.OpAddWatch, "/b", 1),
		"00000020 00000000 00000064 00000000 00000006 646967657374 00000006 626f623a7077":                                           appendAuth(nil, newCredential("digest", []byte("bob:pw"))),
		"0000000d 00000000 00000009 00000001 2f":                                                                                    appendPathOnly(nil, wire.OpSync, "", "/"),
		"00000008 00000000 fffffff5":                                                                                                finish(appendHeader(nil, wire.OpCloseSession)),
		"00000012 00000000 00000002 00000002 2f62 ffffffff":                                                                         appendDelete(nil, "", "/b", -1),
		"0000000c 00000000 00000066 00000000":                                                                                       appendToken(nil, nil),
	} {
		require.Equal(t, strings.ReplaceAll(want, " ", ""), hex.EncodeToString(b))
	}
}

// A whole call, from its arguments to its result and back into the pools, with the connection's
// goroutines counted too: nothing but what the caller keeps is allocated.
func TestCallsAllocateOnlyTheirResults(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	c, err := Dial(testContext(t), echo.Start(t, 100).Addr())
	require.NoError(t, err)
	defer closeClient(t, c)
	plain, cancel := context.WithCancel(t.Context())
	defer cancel()
	view := c.Chroot("/app/of/mine")
	data := make([]byte, 100)
	for what, call := range map[string]struct {
		want float64
		do   func() error
	}{
		"exists":         {0, func() error { _, _, err := c.Exists(plain, benchPath); return err }},
		"exists, chroot": {0, func() error { _, _, err := view.Exists(plain, benchPath); return err }},
		"get":            {1, func() error { _, _, err := c.Get(plain, benchPath); return err }}, // the data
		"set":            {0, func() error { _, err := c.Set(plain, benchPath, data, AnyVersion); return err }},
		"delete":         {0, func() error { return c.Delete(plain, benchPath, AnyVersion) }},
		"sync":           {0, func() error { return c.Sync(plain, benchPath) }},
		"create": {1, func() error { // the path
			_, _, err := c.Create(plain, benchPath, data, ModePersistent, nil)
			return err
		}},
		"ping, exists": {0, func() error { return pingAndExists(plain, c) }},
	} {
		require.NoError(t, call.do(), what)
		n := testing.AllocsPerRun(1000, func() {
			if err := call.do(); err != nil {
				t.Fatal(err)
			}
		})
		if n > call.want {
			t.Errorf("%s: %v allocations, want %v", what, n, call.want)
		}
	}
}

// pingAndExists sends a ping, and a request whose reply comes behind the ping's.
func pingAndExists(ctx context.Context, c *Client) error {
	c.k.mu.Lock()
	c.k.conn.pingDue = true
	c.k.mu.Unlock()
	_, _, err := c.Exists(ctx, benchPath)
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	if c.k.conn.pingDue || c.k.conn.pinged {
		return errors.Join(err, errors.New("the ping was not answered"))
	}
	return err
}

// An event takes its path, and what its reader's queue grows by.
func TestEventsAllocateOnlyTheirPath(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	k := newCore(defaultConfig(), []string{"a:1"})
	defer k.cancel()
	c := &conn{k: k, in: newFrameReader(nil, 1<<20)}
	s := &Subscription{k: k, path: "/a", mode: Recursive, limit: defaultQueue, wake: make(chan struct{}, 1)}
	k.watches.addSubscription(k.watches.entry("/a"), s)
	frame := wire.AppendEvent(nil, 7, wire.EventNodeDataChanged, "/a/b/c")[wire.FrameLengthSize:]
	ctx := t.Context()
	n := testing.AllocsPerRun(1000, func() {
		if err := c.frame(frame); err != nil {
			t.Fatal(err)
		}
		if ev, err := s.Next(ctx); err != nil || ev.Path != "/a/b/c" {
			t.Fatal(ev, err)
		}
	})
	if n > 1 {
		t.Errorf("%v allocations, want 1", n)
	}
}
