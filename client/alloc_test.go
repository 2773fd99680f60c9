package client

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
