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

var rerecord = flag.Bool("record", false, "record the logs of the current feature level anew; only before the level is released")

// A recordedLog is a log that was written under a feature level and what became of it, a line
// per entry: term, entry in hex, then outcome, code, zxid, the reply's body in hex and the
// number of events. The last line is the digest at the end.
type recordedLog struct {
	file string
	play func(*rig) // nil if this version would write another log
}

var recordedLogs = []recordedLog{
	{"testdata/level1.log", play},
	{"testdata/level1-members.log", playMembers},
	{"testdata/level2-restore.log", playRestore},
}

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

// playMembers does a bit of everything to the membership of a cluster.
func playMembers(g *rig) {
	g.open(alice)
	g.h.Settings.Reconfig = true
	g.do(alice, wire.OpReconfig, reconfigBody{version: -1})
	g.initial(ensembles[6])
	g.initial(ensembles[0])
	g.initial(ensembles[2])
	g.ask("server.2=b:1:2;3", "")
	g.ids = []wire.ID{acl.Super}
	g.ask("", "")
	for _, body := range []reconfigBody{
		{version: 5},
		{joining: "x", version: -1},
		{leaving: "1", version: -1},
		{joining: "server.2=b:1:2:observer;3", version: -1},
		{joining: "server.2=b:1:2|c:1:2;3", version: -1},
		{joining: "server.255=b:1:2;3", version: -1},
		{whole: "server.0=b:1:2;3", version: -1},
		{emptyWhole: true, version: -1},
		{joining: "server.2=[2001:DB8::1]:1:2;[::]:3,server.3=c:1:2;;4", version: -1},
		{version: -1},
	} {
		g.do(alice, wire.OpReconfig, body)
	}
	_, target, _ := g.m.Ensemble()
	g.apply(reached(target, 1, ensembles[0]+",server.2=b:1:2;3"))
	g.apply(reached(target, 1, ensembles[0]))
	g.h.TimeMs += 1000
	g.apply(done(target))
	g.apply(done(target))
	g.h.Settings.SingleVoter, g.h.Settings.MultiAddress = true, true
	for _, end := range []func(*Target) *Command{
		done,
		func(t *Target) *Command { return aborted(t, wire.NewConfigNoQuorum) },
	} {
		g.ask("server.4=d:1:2|e:1:2:observer;3", "2,3")
		_, target, _ = g.m.Ensemble()
		g.apply(reached(target, 1, ensembles[0]))
		g.apply(end(target))
		g.do(alice, wire.OpReconfig, reconfigBody{whole: ensembles[2], version: -1})
		g.apply(attach(alice, g.m.Session(alice).Epoch, uint64(g.m.Zxid())))
		g.reqs[alice] = 0
		_, target, _ = g.m.Ensemble()
		g.apply(end(target))
	}
}

// playRestore does a bit of everything to restores.
func playRestore(g *rig) {
	g.open(alice)
	g.apply(&Command{Kind: KindRestore, Restore: RestoreBegin, Target: 1, Path: "/"})
	g.apply(&Command{Kind: KindLevel, Level: 2})
	for _, path := range []string{"/p", "/p/a", "/p/b", "/p/b/c"} {
		g.create(path, 0)
	}
	g.must(alice, wire.OpCreate, createWith("/p/own", bobsOwn))
	g.do(alice, wire.OpCreateTTL, createTTL("/p/t", 5, 100))
	saved := restored(g.tb.(fataler), written(g.tb.(fataler), g.m))
	g.create("/p/e", wire.FlagEphemeral)
	g.create("/p/c", 0)
	g.must(alice, wire.OpSetData, set("/p/a", "other", -1))
	g.ids = []wire.ID{bobsID}
	g.must(alice, wire.OpSetACL, setACL("/p/own", worldRead, -1))
	g.must(alice, wire.OpDelete, del("/p/b/c", -1))
	g.must(alice, wire.OpDelete, del("/p/b", -1))
	g.create("/p/b", wire.FlagEphemeral)
	g.must(alice, wire.OpSetData, set("/p/t", "other", -1))
	for _, to := range []string{"/zookeeper", "/zookeeper/x", "bad", "/p/b/x", "/copy", "/p", "/"} {
		g.restore(saved, "/p", to, 40)
	}
	g.restore(saved, "/", "/", 1)
	for id, c := range []Command{
		{Restore: RestoreBegin, Path: "/p"},
		{Restore: RestoreChunk, Req: 2, Body: []byte("x")},
		{Restore: RestoreChunk, Req: 1, Body: []byte("x")},
		{Restore: RestoreCommit, Req: 1, Body: []byte("12345678")},
		{Restore: RestoreAbort},
	} {
		c.Kind, c.Target = KindRestore, 77
		g.h.TimeMs += int64(id)
		g.apply(&c)
	}
	g.apply(&Command{Kind: KindRestore, Restore: RestoreBegin, Target: 78, Path: "/p"})
	g.apply(&Command{Kind: KindRestore, Restore: RestoreBegin, Target: 79, Path: "/p"})
	g.h.TimeMs += 2*60*1000 + 1
	g.apply(&Command{Kind: KindRestore, Restore: RestoreBegin, Target: 79, Path: "/p"})
}

func recordLog(t *testing.T, play func(*rig)) []byte {
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
		for _, l := range recordedLogs {
			if l.play == nil {
				continue
			}
			if err := os.WriteFile(l.file, recordLog(t, l.play), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, l := range recordedLogs {
		recorded, err := os.ReadFile(l.file)
		if err != nil {
			t.Fatal(err)
		}
		if got := replay(t, recorded); !bytes.Equal(got, recorded) {
			t.Errorf("%s now gives\n%s\nand gave\n%s", l.file, got, recorded)
		}
	}
}

// A snapshot of the machine that the log of level 1 makes, written before there were ensembles.
// Restore compares its digest, so that is unchanged, too.
func TestOldSnapshotIsRead(t *testing.T) {
	data, err := os.ReadFile("testdata/level1.snapshot")
	if err != nil {
		t.Fatal(err)
	}
	m := restored(t, data)
	if got := m.Digest(); got != 0xc42c1d92d7149634 {
		t.Errorf("digest %016x", got)
	}
	if _, _, ok := m.Ensemble(); ok {
		t.Error("it has an ensemble")
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
