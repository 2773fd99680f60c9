package state

import (
	"fmt"
	"testing"

	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/wire"
	"pgregory.net/rapid"
)

// A scriptor draws commands that mostly make sense to a machine, and sometimes do not.
type scriptor struct {
	t *rapid.T
	m *Machine
	h BatchHeader
}

func newScriptor(t *rapid.T, m *Machine) *scriptor {
	return &scriptor{t: t, m: m, h: BatchHeader{TimeMs: 1000, Term: 1, Settings: Settings{ExtendedTypes: true, EnforceQuota: true}}}
}

func (s *scriptor) intn(n int, what string) int { return rapid.IntRange(0, n-1).Draw(s.t, what) }

// header draws the header of the next batch: time passes, terms change.
func (s *scriptor) header() BatchHeader {
	s.h.TimeMs += int64(s.intn(50, "elapsed")) - 10
	if s.intn(20, "election") == 0 {
		s.h.Term++
	}
	s.h.Settings.ExtendedTypes = s.intn(10, "extended types") > 0
	s.h.Settings.Reconfig = s.intn(10, "reconfig") > 0
	s.h.Settings.SingleVoter = s.intn(10, "single voter") == 0
	return s.h
}

func (s *scriptor) command() Command {
	id := int64(1 + s.intn(3, "session"))
	live := s.m.Session(id)
	origin := session.Origin{Boot: 1, Conn: uint64(s.intn(1000, "connection"))}
	c := Command{Session: id, Password: password(id), TimeoutMs: 5000, Origin: origin}
	if live != nil {
		c.Epoch, c.Req = live.Epoch, live.LastReq+1
	}
	kind := s.intn(40, "kind")
	switch {
	case live == nil || kind == 0:
		c.Kind = KindCreateSession
	case kind == 1:
		c.Kind = KindAttach
	case kind == 2:
		c.Kind = KindCloseSession
	case kind == 3:
		c.Kind, c.Epoch = KindExpire, c.Epoch-uint32(s.intn(2, "stale"))
	case kind < 6:
		c.Kind, c.Path = KindReap, s.path()
	case kind == 6:
		c.Kind = KindSync
	case kind < 11:
		s.members(&c)
	default:
		c.Kind = KindWrite
		c.Req += uint64(s.intn(20, "gap") / 19)
		c.IDs = s.identities()
		s.write(&c)
	}
	return c
}

// ensembles are configurations that lead from one to another, and two that do not.
var ensembles = []string{
	"server.1=a:1:2;3",
	"server.1=a:1:2;3,server.2=b:1:2;3",
	"server.1=a:1:2;3,server.2=b:1:2;3,server.3=c:1:2;3",
	"server.1=a:1:2;4,server.2=b:1:2;3,server.3=c:1:2:observer;3",
	"server.2=b:1:2;3,server.3=c:1:2;3,server.4=d:1:2;3",
	"server.1=a:1:2:observer;3",
	"garbage",
}

// members draws a step of the membership, the next one as a rule.
func (s *scriptor) members(c *Command) {
	*c = Command{Kind: KindMembers, Members: MembersStep(1 + s.intn(4, "step"))}
	_, target, ok := s.m.Ensemble()
	if !ok && s.intn(4, "no initial") > 0 {
		c.Members = MembersInitial
	}
	if target != nil {
		c.Target, c.Req = target.Zxid-int64(s.intn(10, "late")/9), target.Steps+1-uint64(s.intn(10, "repeated")/9)
	}
	c.Body = []byte(rapid.SampledFrom(ensembles).Draw(s.t, "members"))
	if s.intn(10, "no code") > 0 {
		c.Code = wire.NewConfigNoQuorum
	}
}

// reconfig draws the body of a reconfig.
func (s *scriptor) reconfig() []byte {
	req := reconfigBody{
		joining: rapid.SampledFrom([]string{"", "server.4=d:1:2;3", "server.2=b:1:2:observer;3", "server.5=a:1:2;3", "x"}).Draw(s.t, "joining"),
		leaving: rapid.SampledFrom([]string{"", "3", "2,3", "9", "x"}).Draw(s.t, "leaving"),
		version: -1,
	}
	if s.intn(2, "whole") == 0 {
		req.whole = rapid.SampledFrom(ensembles).Draw(s.t, "members")
	}
	if current, _, _ := s.m.Ensemble(); s.intn(3, "versioned") == 0 {
		req.version = current.Version - int64(s.intn(3, "old")/2)
	}
	return req.Append(nil)
}

func (s *scriptor) write(c *Command) {
	if s.intn(6, "reconfig") == 0 {
		c.Op, c.Body, c.IDs = wire.OpReconfig, s.reconfig(), append(c.IDs[:len(c.IDs):len(c.IDs)], acl.Super)
		if s.intn(10, "anybody") == 0 {
			c.IDs = nil
		}
		return
	}
	if s.intn(4, "multi") > 0 {
		op := s.op()
		c.Op = op.Op
		c.Body = opBody(&op)
		if s.intn(5, "setACL") == 0 {
			c.Op, c.Body = wire.OpSetACL, setACL(s.path(), s.list(), -1).Append(nil)
		}
		if c.Op == wire.OpCheck {
			c.Op = wire.OpReconfig // check exists only in a multi
		}
		return
	}
	var ops []wire.MultiOp
	for range s.intn(6, "operations") {
		ops = append(ops, s.op())
	}
	c.Op, c.Body = wire.OpMulti, wire.AppendMulti(nil, ops)
}

// opBody is the record of an operation without the header of a multi.
func opBody(op *wire.MultiOp) []byte {
	const header = 9
	return op.Append(nil)[header:]
}

func (s *scriptor) op() wire.MultiOp {
	version := int32(s.intn(3, "version")) - 1
	if s.intn(2, "any version") == 0 {
		version = -1
	}
	op := wire.MultiOp{Op: rapid.SampledFrom([]wire.OpCode{
		wire.OpCreate, wire.OpCreate, wire.OpCreate2, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL,
		wire.OpDelete, wire.OpDelete, wire.OpSetData, wire.OpCheck,
	}).Draw(s.t, "op")}
	path := s.path()
	op.Create = wire.CreateRequest{Path: path, Data: s.data(), ACL: s.list(), Flags: int32(s.intn(7, "flags"))}
	op.CreateTTL = wire.CreateTTLRequest{
		Path: path, Data: s.data(), ACL: acl.Open(), Flags: int32(4 + s.intn(3, "flags")), TTLMs: int64(s.intn(100, "ttl")),
	}
	op.Delete = wire.DeleteRequest{Path: path, Version: version}
	op.SetData = wire.SetDataRequest{Path: path, Data: s.data(), Version: version}
	op.Check = wire.CheckRequest{Path: path, Version: version}
	return op
}

func (s *scriptor) path() string {
	return rapid.SampledFrom([]string{
		"/a", "/b", "/a/x", "/a/y", "/a/x/1", "/b/z", "/b/n-0000000000", "/", "/a/", "bad", "/a/n-",
		"/zookeeper/config", "/zookeeper/quota/a", "/zookeeper/quota/a/zookeeper_limits", "/zookeeper/quota/a/zookeeper_stats",
	}).Draw(s.t, "path")
}

func (s *scriptor) data() []byte {
	return rapid.SampledFrom([][]byte{
		nil, {}, []byte("x"), []byte("longer data"), []byte("count=3,bytes=20=;byteHardLimit=30;countHardLimit=4"),
	}).Draw(s.t, "data")
}

func (s *scriptor) list() []wire.ACL {
	return rapid.SampledFrom([][]wire.ACL{
		acl.Open(), acl.Open(), acl.Open(), worldRead, bobsOwn, list(31, "auth", ""),
		append(list(31, "ip", "10.0.0.0/8"), worldRead...), nil,
	}).Draw(s.t, "list")
}

func (s *scriptor) identities() []wire.ID {
	return rapid.SampledFrom([][]wire.ID{
		nil, {bobsID}, {{Scheme: "ip", ID: "10.1.2.3"}}, {acl.Super}, {{Scheme: "ip", ID: "10.1.2.3"}, bobsID},
	}).Draw(s.t, "identities")
}

// replica is a machine that follows the log.
type replica struct {
	m   *Machine
	dec BatchDecoder
	r   Result
}

// apply runs a batch of one and returns what became of it as text.
func (p *replica) apply(t *rapid.T, entry []byte, term uint64) string {
	h := BatchHeader{Term: term}
	if err := p.dec.Reset(entry, &h); err != nil {
		t.Fatal(err)
	}
	p.m.BeginBatch(&h)
	text := ""
	var c Command
	for p.dec.Next(&c) {
		p.m.Apply(&h, &c, &p.r)
		text += fmt.Sprintf("%+v %x\n", p.r, p.r.AppendBody(nil))
	}
	if err := p.dec.Err(); err != nil {
		t.Fatal(err)
	}
	return text
}

func TestEqualLogsGiveEqualMachines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := &replica{m: New()}, &replica{m: New()}
		s := newScriptor(t, a.m)
		for range rapid.IntRange(1, 80).Draw(t, "commands") {
			h, c := s.header(), s.command()
			entry := encode(&h, []Command{c})
			ra, rb := a.apply(t, entry, h.Term), b.apply(t, entry, h.Term)
			if ra != rb {
				t.Fatalf("results differ:\n%s\n%s", ra, rb)
			}
			if a.m.Digest() != b.m.Digest() {
				t.Fatalf("digests differ after %+v", c)
			}
		}
		if err := a.m.Check(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestProposingTwiceAppliesOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := &replica{m: New()}
		s := newScriptor(t, a.m)
		for range rapid.IntRange(1, 60).Draw(t, "commands") {
			h, c := s.header(), s.command()
			entry := encode(&h, []Command{c})
			a.apply(t, entry, h.Term)
			if c.Kind == KindReap {
				continue // not numbered: the second one finds nothing to do
			}
			digest := a.m.Digest()
			a.apply(t, entry, h.Term)
			if a.r.Outcome == Applied && c.Kind != KindSync || a.r.Outcome == Failed && c.Kind != KindMembers {
				t.Fatalf("%+v took effect twice: %+v", c, a.r)
			}
			if a.m.Digest() != digest {
				t.Fatalf("%+v changed the machine twice", c)
			}
		}
	})
}

func TestFailedWritesChangeNothingButTheZxid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := &replica{m: New()}
		s := newScriptor(t, a.m)
		for range rapid.IntRange(1, 60).Draw(t, "commands") {
			h, c := s.header(), s.command()
			tree, acls, zxid := a.m.tree.Digest(), a.m.acls.TableDigest(), a.m.Zxid()
			a.apply(t, encode(&h, []Command{c}), h.Term)
			if a.r.Outcome == Applied {
				continue
			}
			if tree != a.m.tree.Digest() || acls != a.m.acls.TableDigest() || len(a.r.Events) > 0 {
				t.Fatalf("%+v failed with %+v and changed something", c, a.r)
			}
			if a.r.Outcome == Failed && a.m.Zxid() <= zxid && c.Kind != KindMembers {
				t.Fatalf("%+v failed without a zxid", c)
			}
		}
		if err := a.m.Check(); err != nil {
			t.Fatal(err)
		}
	})
}
