package model

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/wire"
)

// hexBytes reads what was captured from Apache ZooKeeper 3.8.0.
func hexBytes(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// conversation applies request bodies of one session and compares the bodies of replies
// with those that Apache ZooKeeper gave.
type conversation struct {
	t   *testing.T
	m   *Model
	req uint64
}

func (c *conversation) say(op wire.OpCode, request, reply string) {
	c.t.Helper()
	c.req++
	r := c.m.Apply(&state.Command{
		Kind: state.KindWrite, Session: 1, Epoch: 1, Req: c.req, Op: op, Body: hexBytes(c.t, request),
	})
	if got, want := Body(&r), hexBytes(c.t, reply); !bytes.Equal(got, want) {
		c.t.Errorf("%v: replied\n%x, want\n%x", op, got, want)
	}
}

func TestRepliesAreThoseOfZooKeeper(t *testing.T) {
	c := conversation{t: t, m: New()}
	c.m.BeginBatch(&state.BatchHeader{TimeMs: 0x1a1fb7d9b57})
	c.m.Apply(&state.Command{Kind: state.KindCreateSession, Session: 1})
	const world = "00000001 0000001f 00000005 776f726c64 00000006 616e796f6e65"
	c.say(wire.OpCreate, "00000002 2f61 00000001 78 "+world+" 00000001", "00000002 2f61")
	c.say(wire.OpCreate2, "00000002 2f62 ffffffff "+world+" 00000000",
		`00000002 2f62 0000000000000003 0000000000000003 000001a1fb7d9b57 000001a1fb7d9b57 00000000 00000000 00000000
		0000000000000000 00000000 00000000 0000000000000003`)
	c.say(wire.OpCreate, "00000005 2f622f6e2d 00000000 "+world+" 00000002", "0000000f 2f622f6e2d30303030303030303030")
	c.say(wire.OpMulti, `00000002 00 ffffffff 00000002 2f62 ffffffff 0000000d 00 ffffffff 00000002 2f61 00000009 ffffffff 01 ffffffff`,
		"ffffffff 00 ffffff91 ffffff91 ffffffff 00 fffffffe fffffffe ffffffff 01 ffffffff")
}

func TestFreshTreeHasTheStatsOfZooKeeper(t *testing.T) {
	m := New()
	for path, want := range map[string]wire.Stat{
		"/":                 {Cversion: -1, NumChildren: 1},
		"/zookeeper":        {Cversion: -2, NumChildren: 2},
		"/zookeeper/quota":  {},
		"/zookeeper/config": {Aversion: -1},
	} {
		if n, ok := m.Node(path); !ok || n.Stat != want {
			t.Errorf("%s: got %+v, want %+v", path, n.Stat, want)
		}
	}
	if b, _ := m.GetAllChildrenNumber(nil, "/", nil); !bytes.Equal(b, []byte{0, 0, 0, 3}) {
		t.Errorf("descendants of the root: %x, want 3", b)
	}
}
