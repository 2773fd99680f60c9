package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/zkd-project/zkd/server/ensemble"
	"github.com/zkd-project/zkd/server/znode"
	"github.com/zkd-project/zkd/wire"
)

// Who the servers of the cluster are. raft changes one server at a time, so a reconfig that is
// found in order becomes a target, and its client waits. The leader walks towards the target,
// a new leader goes on where the old one was, and each of their steps is a KindMembers; the
// last one changes /zookeeper/config and names the client that waits.
//
//	reconfig ──► target ──► MembersReached … ──► MembersDone     the target is the configuration
//	                                        └──► MembersAborted  what was reached is
//
// Without an ensemble (a single node with no server line) there is nothing to change.

// An Asker is who waits for the answer to a reconfig: a request of one connection.
type Asker struct {
	Session int64
	Epoch   uint32
	Req     uint64
}

// A Target is the membership that a reconfig has asked for.
type Target struct {
	Zxid    int64           // of the request; commands name the target by it
	Config  ensemble.Config // what is to be reached; its version comes with MembersDone
	Reached ensemble.Config // the members after the last step, at first those before the change
	Steps   uint64          // taken so far; the next MembersReached has the number after it
	Asker   Asker
}

// membership is immutable: a change makes another one. So snapshots and readers share it.
type membership struct {
	current ensemble.Config // what /zookeeper/config shows, unless a client has overwritten it
	target  *Target         // nil if there is none

	encoded []byte // as it is in a snapshot
	digest  uint64 // of encoded
}

func (m *Machine) setMembers(current ensemble.Config, target *Target) {
	b := appendMembership(nil, current, target)
	m.members = &membership{current, target, b, digestOf(b)}
}

func digestOf(b []byte) uint64 {
	h := fnv.New64a()
	h.Write(b)
	return h.Sum64()
}

// Ensemble returns the configuration, and the target if there is one, else nil. ok is false if
// the machine has no ensemble. What is returned never changes, and must not be changed.
func (m *Machine) Ensemble() (current ensemble.Config, target *Target, ok bool) {
	if m.members == nil {
		return ensemble.Config{}, nil, false
	}
	return m.members.current, m.members.target, true
}

// A reconfigRequest is wire.ReconfigRequest with the difference between no list and an empty
// one: ZooKeeper takes an empty newMembers for an ensemble without servers.
type reconfigRequest struct {
	joining, leaving string
	members          string
	whole            bool // members was given
	version          int64
}

func (req *reconfigRequest) decode(d *wire.Decoder) {
	req.joining, req.leaving = d.String(), d.String()
	before := *d
	req.whole = before.StringBytes() != nil
	req.members = d.String()
	req.version = d.Int64()
}

// anyConfig in a request matches every version of the configuration.
const anyConfig = -1

// reconfig is opcode 16. The order of the checks is that of
// PrepRequestProcessor.pRequest2Txn in Apache ZooKeeper; whether the servers that join are
// there and up to date is for the leader to find out, and comes last here: so only who may
// change the configuration learns it. What changes nothing is a new version all the same.
func (m *Machine) reconfig(q *request, req *reconfigRequest) wire.Code {
	switch {
	case !q.settings.Reconfig:
		return wire.ReconfigDisabled
	case m.members == nil:
		return wire.Unimplemented
	case m.members.target != nil:
		return wire.ReconfigInProgress
	case req.version != anyConfig && req.version != m.members.current.Version:
		return wire.BadVersion
	}
	current := m.members.current
	rules := ensemble.Rules{
		SingleVoter: q.settings.SingleVoter, MultiAddress: q.settings.MultiAddress, ExtendedTypes: q.settings.ExtendedTypes,
	}
	var next ensemble.Config
	var err error
	if req.whole {
		next, err = current.Replace(req.members, rules)
	} else {
		next, err = current.Change(req.joining, req.leaving, rules)
	}
	switch {
	case err != nil:
		return wire.BadArguments
	case !m.allowed(q, m.tree.Lookup(znode.ConfigPath), wire.PermWrite):
		return wire.NoAuth
	case next.SameMembers(current):
		m.record(next, q.r)
		return wire.OK
	}
	m.setMembers(current, &Target{Zxid: m.zxid, Config: next, Reached: current, Asker: q.asker})
	q.r.Deferred = true
	return wire.OK
}

// record makes c the configuration, at the current zxid, and drops the target.
func (m *Machine) record(c ensemble.Config, r *Result) {
	c.Version = m.zxid
	m.setMembers(c, nil)
	r.Data = []byte(c.String())
	n := m.tree.SetConfig(r.Data, m.zxid, m.timeMs)
	r.Stat = n.Stat()
	r.Events = append(r.Events, Event{
		Type: wire.EventNodeDataChanged, Path: znode.ConfigPath, Zxid: m.zxid, ACL: m.acls.List(n.ACL()),
	})
}

// step is KindMembers.
func (m *Machine) step(c *Command, r *Result) {
	if c.Members == MembersInitial {
		m.initialMembers(c, r)
		return
	}
	if m.members == nil || m.members.target == nil || m.members.target.Zxid != c.Target {
		r.Outcome = Stale
		return
	}
	t := m.members.target
	switch c.Members {
	case MembersReached:
		m.reached(t, c, r)
	case MembersDone:
		r.Op, r.Asker = wire.OpReconfig, m.waiting(t.Asker)
		m.nextZxid()
		m.record(t.Config, r)
	case MembersAborted:
		m.aborted(t, c, r)
	default:
		panic(fmt.Sprintf("state: step %d of a membership is unknown", c.Members))
	}
}

// initialMembers notes who a fresh cluster was made of.
func (m *Machine) initialMembers(c *Command, r *Result) {
	if m.members != nil {
		r.Outcome = Stale
		return
	}
	if initial, ok := parseMembers(c, r); ok {
		m.nextZxid()
		m.record(initial, r)
	}
}

// reached notes a step towards the target. Clients see nothing of it.
func (m *Machine) reached(t *Target, c *Command, r *Result) {
	if c.Req != t.Steps+1 {
		r.Outcome = Stale
		return
	}
	if members, ok := parseMembers(c, r); ok {
		next := *t
		next.Reached, next.Steps = members, c.Req
		m.setMembers(m.members.current, &next)
	}
}

// aborted gives the target up. If there were steps already, the configuration says where they
// have led: clients must not be told of servers that are gone.
func (m *Machine) aborted(t *Target, c *Command, r *Result) {
	if c.Code == wire.OK {
		refuse(r)
		return
	}
	r.Op, r.Asker, r.Code = wire.OpReconfig, m.waiting(t.Asker), c.Code
	if t.Reached.SameMembers(m.members.current) {
		m.setMembers(m.members.current, nil)
		return
	}
	m.nextZxid()
	m.record(t.Reached, r)
}

// parseMembers reads the configuration of a command. Its version is not known yet.
func parseMembers(c *Command, r *Result) (ensemble.Config, bool) {
	members, err := ensemble.Parse(string(c.Body))
	if err != nil || len(members.Voters()) == 0 {
		refuse(r)
		return members, false
	}
	members.Version = 0
	return members, true
}

// refuse is for commands that no leader proposes. They must not end the server.
func refuse(r *Result) { r.Outcome, r.Code = Failed, wire.BadArguments }

// waiting is the asker if it still waits: its session has neither ended nor gone to another
// connection, whose client does not expect an answer.
func (m *Machine) waiting(a Asker) Asker {
	if s := m.sessions.Get(a.Session); s == nil || s.Epoch != a.Epoch {
		return Asker{}
	}
	return a
}

// A membership in a snapshot:
//
//	string configuration | byte 1 if there is a target, then
//	varint zxid | string target | string reached | uvarint steps |
//	session (8 bytes) | uvarint epoch | uvarint request number
func appendMembership(b []byte, current ensemble.Config, t *Target) []byte {
	b = appendString(b, current.String())
	if t == nil {
		return append(b, 0)
	}
	b = binary.AppendVarint(append(b, 1), t.Zxid)
	b = appendString(b, t.Config.String())
	b = appendString(b, t.Reached.String())
	b = binary.AppendUvarint(b, t.Steps)
	b = binary.BigEndian.AppendUint64(b, uint64(t.Asker.Session))
	b = binary.AppendUvarint(b, uint64(t.Asker.Epoch))
	return binary.AppendUvarint(b, t.Asker.Req)
}

// maxMembershipBytes bounds what appendMembership makes.
const maxMembershipBytes = 3*ensemble.MaxBytes + 1<<10

// restoreMembers reads what appendMembership has written.
func (m *Machine) restoreMembers(b []byte) error {
	in := input{b: b}
	config := func() ensemble.Config {
		c, err := ensemble.Parse(string(in.bytes()))
		if err != nil {
			in.fail("%v", err)
		}
		return c
	}
	current := config()
	var t *Target
	switch has := in.byte(); {
	case has == 1:
		t = &Target{Zxid: in.varint(), Config: config(), Reached: config(), Steps: in.uvarint()}
		t.Asker = Asker{Session: int64(in.fixed64()), Epoch: in.uint32(), Req: in.uvarint()}
	case has > 1:
		in.fail("%d targets", has)
	}
	if in.pos != len(b) {
		in.fail("%d bytes follow the end", len(b)-in.pos)
	}
	if in.err != nil {
		return in.err
	}
	m.setMembers(current, t)
	return m.members.check()
}

// check verifies invariant M5.
func (s *membership) check() error {
	configs := []ensemble.Config{s.current}
	t := s.target
	if t != nil {
		configs = append(configs, t.Config, t.Reached)
	}
	for _, c := range configs {
		if err := c.Check(); err != nil {
			return fmt.Errorf("a configuration: %w", err)
		}
		if len(c.Voters()) == 0 {
			return errors.New("a configuration has no participant")
		}
	}
	if digestOf(appendMembership(nil, s.current, t)) != s.digest || digestOf(s.encoded) != s.digest {
		return errors.New("the ensemble has changed since its digest was taken")
	}
	if t == nil {
		return nil
	}
	switch {
	case t.Config.SameMembers(s.current):
		return errors.New("the target is the configuration that there is")
	case t.Zxid <= s.current.Version:
		return fmt.Errorf("the target of %#x is older than the configuration of %#x", t.Zxid, s.current.Version)
	case t.Steps == 0 && !t.Reached.Equal(s.current):
		return errors.New("something was reached without a step")
	}
	return nil
}
