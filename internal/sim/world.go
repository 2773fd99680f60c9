package sim

import (
	"encoding/binary"

	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/state"
)

// world is what the proposers know while a history is carried out: it turns a Step, which
// is relative, into a Command. Its sessions follow the rules of command.go so closely that
// what it takes for the next request is the next one, unless the step wants it otherwise.
type world struct {
	header state.BatchHeader
	slots  []slot
	recent []string // paths of the last creates, newest last
	bodies []byte   // of the commands of the batch
	target int64    // zxid of the last reconfig that was taken up
	steps  uint64   // of it, so far
}

type slot struct {
	alive    bool
	born     uint64 // how often the session has been created
	epoch    uint32
	lastReq  uint64
	password [16]byte
	conn     uint64
}

// maxRecent is how many created paths the world remembers.
const maxRecent = 64

func newWorld(slots int) *world {
	return &world{slots: make([]slot, slots)}
}

// sessionID is the id of a slot: some with the top bit set, as ids of servers from 128 on.
func sessionID(i int) int64 {
	return int64(uint64(1+60*i)<<56 | uint64(i+1)<<16)
}

// begin moves the header on to the next batch.
func (w *world) begin(b *Batch) *state.BatchHeader {
	w.header.TimeMs += b.AdvanceMs
	w.header.Index++
	if b.NewTerm {
		w.header.Term += 2 // terms without an entry are common
	}
	if b.Settings != nil {
		w.header.Settings = *b.Settings
	}
	w.bodies = w.bodies[:0]
	return &w.header
}

// path is the path of an operation: its own, or one that was created lately.
func (w *world) path(o *Op) string { return w.pathOr(o.Recent, o.Path) }

func (w *world) pathOr(recent int, path string) string {
	if recent > 0 && recent <= len(w.recent) {
		return w.recent[len(w.recent)-recent]
	}
	return path
}

// created remembers the path that a create has made.
func (w *world) created(path string) {
	if path == "" {
		return
	}
	if len(w.recent) >= 2*maxRecent {
		w.recent = append(w.recent[:0], w.recent[len(w.recent)-maxRecent:]...)
	}
	w.recent = append(w.recent, path)
}

// saw takes note of a result.
func (w *world) saw(r *state.Result) {
	if r.Outcome != state.Applied {
		return
	}
	if r.Deferred {
		w.target, w.steps = r.Zxid, 0
	}
	w.created(r.Path)
	for i := range r.Multi {
		w.created(r.Multi[i].Path)
	}
}

// command makes the command of a step. Its body is valid until the next begin.
func (w *world) command(s *Step) state.Command {
	v := &w.slots[s.Slot%len(w.slots)]
	c := state.Command{Kind: s.Kind, Session: sessionID(s.Slot % len(w.slots))}
	switch s.Kind {
	case state.KindWrite, state.KindCloseSession:
		w.numbered(&c, s, v)
	case state.KindCreateSession:
		w.create(&c, s, v)
	case state.KindAttach:
		w.attach(&c, s, v)
	case state.KindExpire:
		c.Epoch = offset(v.epoch, s.EpochOff)
		if s.EpochOff == 0 {
			v.alive = false
		}
	case state.KindReap:
		c = state.Command{Kind: s.Kind, Path: w.path(&s.Op)}
	case state.KindSync:
		c.Req = w.header.Index
	case state.KindLevel:
		c = state.Command{Kind: s.Kind, Level: s.Level}
	case state.KindMembers:
		c = w.members(&s.Members)
	}
	return c
}

func (w *world) members(s *MembersStep) state.Command {
	c := state.Command{
		Kind: state.KindMembers, Members: s.Step, Target: w.target + int64(s.TargetOff), Code: s.Code, Body: []byte(s.Lines),
	}
	if s.Step == state.MembersReached {
		c.Req = w.steps + 1 + uint64(s.StepOff)
		if s.StepOff == 0 && s.TargetOff == 0 {
			w.steps++
		}
	}
	return c
}

func (w *world) numbered(c *state.Command, s *Step, v *slot) {
	c.Epoch = offset(v.epoch, s.EpochOff)
	c.Req = v.lastReq + 1
	if back := uint64(-s.ReqOff); s.ReqOff < 0 {
		c.Req -= min(back, c.Req)
	} else {
		c.Req += uint64(s.ReqOff)
	}
	if s.EpochOff == 0 && s.ReqOff == 0 && v.alive {
		v.lastReq++
		v.alive = s.Kind != state.KindCloseSession
	}
	if s.Kind == state.KindWrite {
		start := len(w.bodies)
		w.bodies = s.Op.body(w.bodies, w.path)
		c.Op, c.IDs, c.Body = s.Op.Code, s.IDs, w.bodies[start:len(w.bodies):len(w.bodies)]
	}
}

func (w *world) create(c *state.Command, s *Step, v *slot) {
	v.conn++
	c.TimeoutMs, c.Origin = s.TimeoutMs, session.Origin{Boot: 1, Conn: v.conn}
	if v.alive {
		c.Password = password(v.password, s.WrongPwd)
		v.conn-- // whether repeated or refused, the connection stays
		return
	}
	v.born++
	binary.BigEndian.PutUint64(v.password[:], v.born)
	*v = slot{alive: true, born: v.born, epoch: 1, password: v.password, conn: v.conn}
	c.Password = v.password
}

func (w *world) attach(c *state.Command, s *Step, v *slot) {
	c.Epoch = offset(v.epoch, s.EpochOff)
	c.TimeoutMs = s.TimeoutMs
	c.Password = password(v.password, s.WrongPwd)
	c.Origin = session.Origin{Boot: 1, Conn: v.conn}
	if s.SameConn {
		return
	}
	v.conn++
	c.Origin.Conn = v.conn
	if s.EpochOff == 0 && !s.WrongPwd && v.alive {
		v.epoch++
		v.lastReq = 0
	} else {
		v.conn--
		c.Origin.Conn += 1 << 32 // of nobody
	}
}

func password(p [16]byte, wrong bool) [16]byte {
	if wrong {
		p[15] ^= 1
	}
	return p
}

func offset(epoch uint32, off int) uint32 { return uint32(int64(epoch) + int64(off)) }
