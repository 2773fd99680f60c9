package state

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/wire"
)

var rerecord = flag.Bool("record", false, "record the log of the current feature level anew; only before the level is released")

// recordedLog is a log that was written under a feature level and what became of it, a line
// per entry: term, entry in hex, then outcome, code, zxid, the reply's body in hex and the
// number of events. The last line is the digest at the end.
func recordedLog(level uint32) string { return fmt.Sprintf("testdata/level%d.log", level) }

func appendRecord(b *bytes.Buffer, entry []byte, term uint64, r *Result) {
	fmt.Fprintf(b, "%d %x > %d %d %x %x %d\n", term, entry, r.Outcome, r.Code, r.Zxid, r.AppendBody(nil), len(r.Events))
}

// play does a bit of everything to a machine.
func play(g *rig) {
	g.open(alice)
	g.open(bob)
	g.apply(&Command{Kind: KindLevel, Level: 1})
	g.create("/p", 0)
	for _, flags := range []int32{0, 1, 2, 3, 4} {
		g.do(alice, wire.OpCreate2, create("/p/n", flags))
	}
	g.do(alice, wire.OpCreateContainer, create("/c", 4))
	g.do(alice, wire.OpCreateTTL, createTTL("/t", 5, 100))
	g.do(alice, wire.OpCreateTTL, createTTL("/t", 0, -1))
	g.h.Settings.ExtendedTypes = false
	g.do(alice, wire.OpCreateTTL, createTTL("/u", 5, 100))
	g.h.Settings.ExtendedTypes = true
	g.h.TimeMs += 1000
	g.ids = []wire.ID{bobsID, {Scheme: "ip", ID: "10.0.0.1"}}
	g.do(bob, wire.OpCreate, createWith("/own", list(31, "auth", "")))
	g.do(bob, wire.OpSetACL, setACL("/own", append(list(31, "ip", "10.0.0.0/8"), worldRead...), 0))
	g.do(bob, wire.OpSetACL, setACL("/own", list(1, "nosuch", ""), 0))
	g.do(bob, wire.OpSetData, set("/own", "data", 0))
	g.do(bob, wire.OpSetData, set("/own", "data", 0))
	g.ids = nil
	g.do(alice, wire.OpSetData, set("/own", "data", -1))
	g.do(alice, wire.OpDelete, del("/p", -1))
	g.do(alice, wire.OpDelete, del("/c", -1))
	g.do(alice, wire.OpReconfig, &wire.ReconfigRequest{CurConfigID: -1})
	g.multi(alice, opCreate(wire.OpCreate2, "/m", 0), opSet("/m", "y", 0), opCheck("/m", 1), opCreate(wire.OpCreateContainer, "/m/c", 4))
	g.multi(alice, opDelete("/m/c", -1), opCreate(wire.OpCreate, "/p/x", 2), opCheck("/m", 7), opDelete("/m", -1))
	g.h.Settings.EnforceQuota = true
	g.create("/zookeeper/quota/p", 0)
	g.do(alice, wire.OpCreate, &wire.CreateRequest{
		Path: "/zookeeper/quota/p/zookeeper_limits", ACL: acl.Open(), Data: []byte("count=-1,bytes=-1=;byteHardLimit=9"),
	})
	g.create("/zookeeper/quota/p/zookeeper_stats", 0)
	g.do(alice, wire.OpSetData, set("/p", "much too long", -1))
	g.h.Term = 4
	g.apply(attach(alice, 1, 9))
	g.reqs[alice] = 0
	g.do(alice, wire.OpCreate, create("/p/e", wire.FlagEphemeral))
	g.apply(write(alice, 1, 9, "/late"))
	g.apply(write(alice, 2, 9, "/gap"))
	g.apply(&Command{Kind: KindSync, Session: alice, Epoch: 2, Req: 1})
	g.apply(&Command{Kind: KindReap, Path: "/t"})
	g.apply(&Command{Kind: KindReap, Path: "/m"})
	g.apply(&Command{Kind: KindExpire, Session: bob, Epoch: 1})
	g.apply(&Command{Kind: KindCloseSession, Session: alice, Epoch: 2, Req: 2})
}

func recordLog(t *testing.T) []byte {
	var b bytes.Buffer
	g := bareRig(t, New())
	g.applied = func(entry []byte, term uint64, r *Result) { appendRecord(&b, entry, term, r) }
	play(g)
	fmt.Fprintf(&b, "%x\n", g.m.Digest())
	return b.Bytes()
}

// A log that a released version has written must mean the same for ever: servers of
// different versions apply the same log at the same time.
func TestRecordedLogsMeanWhatTheyMeant(t *testing.T) {
	if *rerecord {
		if err := os.WriteFile(recordedLog(CurrentLevel), recordLog(t), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for level := firstLevel; level <= CurrentLevel; level++ {
		recorded, err := os.ReadFile(recordedLog(level))
		if err != nil {
			t.Fatal(err)
		}
		if got := replay(t, recorded); !bytes.Equal(got, recorded) {
			t.Errorf("the log of level %d now gives\n%s\nand gave\n%s", level, got, recorded)
		}
	}
}

// replay applies the entries of a recorded log and records what becomes of them.
func replay(t *testing.T, recorded []byte) []byte {
	var out bytes.Buffer
	m := New()
	var dec BatchDecoder
	lines := bufio.NewScanner(bytes.NewReader(recorded))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var h BatchHeader
		var text string
		if n, _ := fmt.Sscanf(lines.Text(), "%d %s >", &h.Term, &text); n < 2 {
			fmt.Fprintf(&out, "%x\n", m.Digest())
			continue
		}
		entry, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := dec.Reset(entry, &h); err != nil {
			t.Fatal(err)
		}
		m.BeginBatch(&h)
		var c Command
		var r Result
		for dec.Next(&c) {
			m.Apply(&h, &c, &r)
		}
		if dec.Err() != nil {
			t.Fatal(dec.Err())
		}
		appendRecord(&out, entry, h.Term, &r)
	}
	if err := m.Check(); err != nil {
		t.Error(err)
	}
	return out.Bytes()
}
