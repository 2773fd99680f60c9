package stats

import (
	"testing"

	"github.com/zkd-project/zkd/wire"
)

func TestConnectionNumbers(t *testing.T) {
	fresh := ConnSnapshot{LastOp: "NA", EstablishedMs: 1795286704106, LastCxid: -1, LastZxid: -1}
	var c ConnStats
	c.Init(1795286704106)
	if got := c.Snapshot(); got != fresh {
		t.Errorf("new: %+v", got)
	}

	c.Received(1)
	c.Begin()
	c.Responded(wire.OpGetChildren2, 9, 0x100, 5_900_000_000, 22_900_000)
	c.End()
	c.Received(1)
	c.Responded(wire.OpPing, wire.XidPing, 0x101, 6_000_000_000, 100_000)
	c.Sent()
	c.Begin()
	want := ConnSnapshot{
		Queued: 1, Received: 2, Sent: 3, LastOp: "PING", EstablishedMs: 1795286704106, LastCxid: 9, LastZxid: 0x101,
		LastReplyMs: 6000, LastLatencyMs: 0, MinLatencyMs: 0, AvgLatencyMs: 11, MaxLatencyMs: 22,
	}
	if got := c.Snapshot(); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}

	c.Reset()
	fresh.Queued = 1
	if got := c.Snapshot(); got != fresh {
		t.Errorf("after reset: %+v", got)
	}
	if c.Outstanding() != 1 {
		t.Errorf("outstanding %d", c.Outstanding())
	}
}

func TestLastOpCodes(t *testing.T) {
	for op, want := range map[wire.OpCode]string{
		wire.OpCreate2: "CREA", wire.OpCloseSession: "CLOS", wire.OpCreateSession: "SESS", wire.OpMultiRead: "MLTR",
		wire.OpGetAllChildrenNumber: "GETACN", wire.OpAuth: "NA", -12: "NA", 117: "NA", 1 << 30: "NA", -1 << 31: "NA",
	} {
		if got := LastOp(op); got != want {
			t.Errorf("LastOp(%d) = %s, want %s", op, got, want)
		}
	}
}
