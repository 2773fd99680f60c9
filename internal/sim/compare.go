package sim

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/zkd-project/zkd/internal/sim/model"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/watch"
	"github.com/zkd-project/zkd/wire"
)

// hasher makes one number of results, to compare replicas quickly. Numbers of different
// runs cannot be compared.
type hasher struct {
	seed maphash.Seed
	b    []byte // all that has been added
}

func (h *hasher) reset() { h.b = h.b[:0] }

func (h *hasher) sum() uint64 { return maphash.Bytes(h.seed, h.b) }

func (h *hasher) int(v int64) { h.b = binary.LittleEndian.AppendUint64(h.b, uint64(v)) }

func (h *hasher) string(s string) {
	h.int(int64(len(s)))
	h.b = append(h.b, s...)
}

func (h *hasher) stat(s *wire.Stat) {
	h.int(s.Czxid)
	h.int(s.Mzxid)
	h.int(s.Pzxid)
	h.int(s.CtimeMs)
	h.int(s.MtimeMs)
	h.int(int64(s.Version)<<32 | int64(uint32(s.Cversion)))
	h.int(int64(s.Aversion)<<32 | int64(uint32(s.DataLength)))
	h.int(int64(s.NumChildren))
	h.int(s.EphemeralOwner)
}

func (h *hasher) acl(list []wire.ACL) {
	h.int(int64(len(list)))
	for i := range list {
		h.int(int64(list[i].Perms))
		h.string(list[i].ID.Scheme)
		h.string(list[i].ID.ID)
	}
}

// result adds everything that a result says.
func (h *hasher) result(r *state.Result) {
	h.int(int64(r.Outcome)<<32 | int64(uint32(r.Code)))
	h.int(r.Zxid)
	h.int(int64(r.Op)<<32 | int64(r.Epoch))
	h.string(r.Path)
	h.stat(&r.Stat)
	h.int(int64(len(r.Multi)))
	for i := range r.Multi {
		s := &r.Multi[i]
		h.int(int64(s.Op)<<32 | int64(uint32(s.Code)))
		h.string(s.Path)
		h.stat(&s.Stat)
	}
	h.string(string(r.Data))
	h.int(r.Session)
	h.int(int64(r.TimeoutMs))
	if r.Deferred {
		h.int(1)
	}
	h.int(r.Asker.Session)
	h.int(int64(r.Asker.Epoch)<<32 | int64(uint32(r.Asker.Req)))
	h.int(r.Closed)
	h.int(int64(len(r.Events)))
	for i := range r.Events {
		e := &r.Events[i]
		h.int(int64(e.Type))
		h.int(e.Zxid)
		h.string(e.Path)
		h.acl(e.ACL)
		h.acl(e.ParentACL)
	}
}

// differences says in what the result of the machine differs from the model's, and the
// first field of it; "" if in nothing. Fields that have no meaning for the outcome may hold
// anything.
func differences(got, want *state.Result) (field, all string) {
	var b bytes.Buffer
	report := func(what string, got, want any) {
		field = cmp.Or(field, what)
		fmt.Fprintf(&b, "  %s: machine %+v, model %+v\n", what, got, want)
	}
	if got.Outcome != want.Outcome {
		report("outcome", got.Outcome, want.Outcome)
	}
	if got.Zxid != want.Zxid {
		report("zxid", fmt.Sprintf("%#x", got.Zxid), fmt.Sprintf("%#x", want.Zxid))
	}
	if want.Outcome == state.Failed || want.Outcome == state.Applied {
		if got.Code != want.Code {
			report("code", got.Code, want.Code)
		}
	}
	if got.Outcome == state.Applied && want.Outcome == state.Applied {
		if got.Path != want.Path {
			report("path", got.Path, want.Path)
		}
		if hasStat(want.Op) && got.Stat != want.Stat {
			report("stat", got.Stat, want.Stat)
		}
		if got.Closed != want.Closed {
			report("closed", got.Closed, want.Closed)
		}
	}
	if want.Session != 0 && (got.Session != want.Session || got.Epoch != want.Epoch || got.TimeoutMs != want.TimeoutMs) {
		report("session", []any{got.Session, got.Epoch, got.TimeoutMs}, []any{want.Session, want.Epoch, want.TimeoutMs})
	}
	if got.Deferred != want.Deferred {
		report("deferred", got.Deferred, want.Deferred)
	}
	if got.Asker != want.Asker {
		report("asker", got.Asker, want.Asker)
	}
	if !slices.EqualFunc(got.Multi, want.Multi, equalSub) {
		report("multi", got.Multi, want.Multi)
	}
	if want.Outcome == state.Applied || want.Outcome == state.Failed {
		if g, w := got.AppendBody(nil), model.Body(want); !bytes.Equal(g, w) {
			report("body of the reply", fmt.Sprintf("%x", g), fmt.Sprintf("%x", w))
		}
	}
	if !slices.EqualFunc(got.Events, want.Events, equalEvent) {
		report("events", got.Events, want.Events)
	}
	return field, b.String()
}

// hasStat says whether the reply of an opcode has a Stat.
func hasStat(op wire.OpCode) bool {
	switch op {
	case wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL, wire.OpSetData, wire.OpSetACL:
		return true
	}
	return false
}

func equalSub(a, b wire.MultiResult) bool {
	if a.Op != b.Op || a.Code != b.Code || a.Path != b.Path {
		return false
	}
	return !(a.Op == wire.OpCreate2 || a.Op == wire.OpSetData) || a.Stat == b.Stat
}

// equalEvent leaves out what nobody needs: no watch on a parent hears of changed data.
func equalEvent(a, b state.Event) bool {
	return a.Type == b.Type && a.Path == b.Path && a.Zxid == b.Zxid && slices.Equal(a.ACL, b.ACL) &&
		(a.Type == wire.EventNodeDataChanged || slices.Equal(a.ParentACL, b.ParentACL))
}

// compareAll compares everything that can be read of a machine with the model.
func compareAll(machine Machine, want *model.Model) error {
	m := machine.Real()
	if err := m.Check(); err != nil {
		return fmt.Errorf("a broken invariant: %w", err)
	}
	if m.Zxid() != want.Zxid() || m.TimeMs() != want.NowMs() || m.Level() != want.Level() {
		return fmt.Errorf("zxid, time and level are %#x, %d, %d, in the model %#x, %d, %d",
			m.Zxid(), m.TimeMs(), m.Level(), want.Zxid(), want.NowMs(), want.Level())
	}
	paths := want.Paths()
	if got := m.Tree().Len(); got != len(paths) {
		return fmt.Errorf("%d nodes, in the model %d", got, len(paths))
	}
	for _, path := range paths {
		if err := compareNode(machine, want, path); err != nil {
			return err
		}
	}
	if got, want := m.Reapable(want.NowMs(), m.Settings().MaxNeverUsedMs, 1<<20), want.Reapable(); !sameSet(got, want) {
		return fmt.Errorf("nodes to be reaped: %q, in the model %q", got, want)
	}
	return compareSessions(m, want)
}

func sameSet(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// compareNode compares all that the reads say of a node to one who may read everything.
func compareNode(machine Machine, want *model.Model, path string) error {
	for _, op := range []wire.OpCode{wire.OpGetData, wire.OpGetACL, wire.OpGetChildren2, wire.OpGetAllChildrenNumber} {
		rd := Read{Op: op, IDs: superID}
		got, code := machine.Answer(nil, &rd, path)
		expected, expectedCode := modelAnswer(want, nil, &rd, path)
		if code != expectedCode || !bytes.Equal(got, expected) {
			return fmt.Errorf("%v of %s: %v %x, in the model %v %x", op, path, code, got, expectedCode, expected)
		}
	}
	node, _ := want.Node(path)
	tree := machine.Real().Tree()
	real := tree.Lookup(path)
	if real == nil {
		return fmt.Errorf("%s is missing", path)
	}
	if got := tree.NextSequence(real); got != node.Created {
		return fmt.Errorf("the next sequence number below %s is %d, in the model %d", path, got, node.Created)
	}
	return nil
}

func compareSessions(m *state.Machine, want *model.Model) error {
	var got []model.Session
	for s := range m.Sessions() {
		got = append(got, model.Session{
			ID: s.ID, Password: s.Password, TimeoutMs: s.TimeoutMs, Epoch: s.Epoch, Origin: s.Origin, LastReq: s.LastReq,
		})
	}
	if sessions := want.Sessions(); !slices.Equal(got, sessions) {
		return fmt.Errorf("sessions are\n  %+v, in the model\n  %+v", got, sessions)
	}
	for _, s := range got {
		rd := Read{Op: wire.OpGetEphemerals}
		b, _ := m.GetEphemerals(nil, s.ID, "")
		if expected := model.AppendStrings(nil, want.Ephemerals(s.ID, "")); !bytes.Equal(b, expected) {
			return fmt.Errorf("%v of session %#x: %q, in the model %q", rd.Op, s.ID, b, expected)
		}
	}
	return nil
}

// modelAnswer is Machine.Answer for the model.
func modelAnswer(m *model.Model, b []byte, rd *Read, path string) ([]byte, wire.Code) {
	switch rd.Op {
	case wire.OpGetData:
		return m.GetData(b, path, rd.IDs)
	case wire.OpExists:
		return m.Exists(b, path, rd.IDs)
	case wire.OpGetACL:
		return m.GetACL(b, path, rd.IDs)
	case wire.OpGetChildren:
		return m.GetChildren(b, path, false, rd.IDs)
	case wire.OpGetChildren2:
		return m.GetChildren(b, path, true, rd.IDs)
	case wire.OpGetAllChildrenNumber:
		return m.GetAllChildrenNumber(b, path, rd.IDs)
	case wire.OpGetEphemerals:
		return model.AppendStrings(b, m.Ephemerals(sessionID(rd.Slot), ephemeralPrefix(path))), wire.OK
	case wire.OpMultiRead:
		return m.MultiRead(b, multiReadBody(path), rd.IDs)
	case wire.OpSetWatches2:
		for _, w := range m.Rewatch(rd.Watch) {
			if w.Fires != 0 {
				b = appendRewatch(b, "fire", int(w.Fires), w.Path)
			} else {
				b = appendRewatch(b, "add", watchKind(w.List), w.Path)
			}
		}
		return b, wire.OK
	}
	panic("sim: not a read: " + rd.Op.String())
}

// watchKind is what the watch table calls the watches of a list.
func watchKind(l model.WatchList) int {
	switch l {
	case model.ChildWatches:
		return int(watch.Child)
	case model.PersistentWatches:
		return int(watch.Persistent)
	case model.RecursiveWatches:
		return int(watch.Recursive)
	}
	return int(watch.Data)
}
