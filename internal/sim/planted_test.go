package sim

import (
	"bytes"
	"io"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/wire"
)

// faulty is a machine with a planted bug: each hook that is set replaces what the machine
// would do.
type faulty struct {
	Machine
	bug *bug
	// shadow is what snapshots are taken of, if the bug is in snapshots.
	shadow Machine
}

// bug is a planted bug. command may change a command before it is applied, header the
// header, result what came of it. snapshot changes the commands that a snapshot reflects,
// read changes a read.
type bug struct {
	name     string
	header   func(h *state.BatchHeader)
	command  func(m *state.Machine, c *state.Command)
	result   func(c *state.Command, r *state.Result)
	snapshot func(c *state.Command)
	read     func(rd *Read)
	late     bool // a snapshot is of a later moment than it says

	// onlyOne: replicas part if one has the bug, but the model cannot see it if all have
	// it, because it is not in what commands do.
	onlyOne bool
}

func plant(m Machine, b *bug) Machine {
	f := &faulty{Machine: m, bug: b}
	if b.snapshot != nil {
		f.shadow = copyOf(m)
	}
	return f
}

func copyOf(m Machine) Machine {
	var b bytes.Buffer
	if err := m.WriteSnapshot(&b, nil); err != nil {
		panic(err)
	}
	n, err := RestoreReal(&b)
	if err != nil {
		panic(err)
	}
	return n
}

func (f *faulty) BeginBatch(h *state.BatchHeader) {
	changed := *h
	if f.bug.header != nil {
		f.bug.header(&changed)
	}
	f.Machine.BeginBatch(&changed)
	if f.shadow != nil {
		f.shadow.BeginBatch(h)
	}
}

func (f *faulty) Apply(h *state.BatchHeader, c *state.Command, r *state.Result) {
	if f.shadow != nil {
		other := *c
		f.bug.snapshot(&other)
		f.shadow.Apply(h, &other, new(state.Result))
	}
	changed, changedHeader := *c, *h
	if f.bug.header != nil {
		f.bug.header(&changedHeader)
	}
	if f.bug.command != nil {
		f.bug.command(f.Real(), &changed)
	}
	f.Machine.Apply(&changedHeader, &changed, r)
	if f.bug.result != nil {
		f.bug.result(c, r)
	}
}

func (f *faulty) Answer(b []byte, rd *Read, path string) ([]byte, wire.Code) {
	changed := *rd
	if f.bug.read != nil {
		f.bug.read(&changed)
	}
	return f.Machine.Answer(b, &changed, path)
}

func (f *faulty) WriteSnapshot(w io.Writer, during func()) error {
	if f.bug.late && during != nil {
		during()
	}
	if f.shadow != nil {
		return f.shadow.WriteSnapshot(w, during)
	}
	return f.Machine.WriteSnapshot(w, during)
}

// bugs are mistakes that a state machine may well have.
var bugs = []bug{
	{name: "an event is forgotten", result: func(_ *state.Command, r *state.Result) {
		if n := len(r.Events); n > 2 {
			r.Events = r.Events[:n-1]
		}
	}},
	{name: "events in the order of a map", result: func(_ *state.Command, r *state.Result) {
		byPath := map[string]state.Event{}
		for _, e := range r.Events {
			byPath[e.Path] = e
		}
		if len(byPath) == len(r.Events) {
			r.Events = r.Events[:0]
			for _, e := range byPath {
				r.Events = append(r.Events, e)
			}
		}
	}},
	{name: "a failed write takes no zxid", result: func(_ *state.Command, r *state.Result) {
		if r.Outcome == state.Failed {
			r.Zxid--
		}
	}},
	{name: "an event loses its list", result: func(_ *state.Command, r *state.Result) {
		for i := range r.Events {
			r.Events[i].ACL = nil
		}
	}},
	{name: "another error comes first", result: func(_ *state.Command, r *state.Result) {
		if r.Code == wire.BadVersion {
			r.Code = wire.NotEmpty
		}
	}},
	{name: "the server's own clock", header: func(h *state.BatchHeader) { h.TimeMs++ }},
	{name: "a new term is not noticed", header: func(h *state.BatchHeader) { h.Term = 1 }},
	{name: "the server's own switches", header: func(h *state.BatchHeader) { h.Settings.ExtendedTypes = true }},
	{name: "quotas are not enforced", header: func(h *state.BatchHeader) { h.Settings.EnforceQuota = false }},
	{name: "the list is not looked at in a multi", command: func(_ *state.Machine, c *state.Command) {
		if c.Op == wire.OpMulti {
			c.IDs = superID
		}
	}},
	{name: "the last operation of a multi is lost", command: func(_ *state.Machine, c *state.Command) {
		d := wire.NewDecoder(c.Body)
		if c.Kind != state.KindWrite || c.Op != wire.OpMulti {
			return
		}
		if ops, err := wire.DecodeMulti(&d, wire.IsMultiWrite, 0); err == nil && len(ops) > 2 {
			c.Body = wire.AppendMulti(nil, ops[:len(ops)-1])
		}
	}},
	{name: "what is proposed twice is done twice", command: func(m *state.Machine, c *state.Command) {
		if s := m.Session(c.Session); s != nil && c.Kind == state.KindWrite && c.Epoch == s.Epoch && c.Req <= s.LastReq {
			c.Req = s.LastReq + 1
		}
	}},
	{name: "a write of an old connection counts", command: func(m *state.Machine, c *state.Command) {
		if s := m.Session(c.Session); s != nil && c.Kind == state.KindWrite && c.Epoch != s.Epoch {
			c.Epoch, c.Req = s.Epoch, s.LastReq+1
		}
	}},
	{name: "an expiry kills who has come back", command: func(m *state.Machine, c *state.Command) {
		if s := m.Session(c.Session); s != nil && c.Kind == state.KindExpire {
			c.Epoch = s.Epoch
		}
	}},
	{name: "ephemerals outlive an expiry", command: func(_ *state.Machine, c *state.Command) {
		if c.Kind == state.KindExpire {
			*c = state.Command{Kind: state.KindSync}
		}
	}},
	{name: "any password will do", command: func(m *state.Machine, c *state.Command) {
		if s := m.Session(c.Session); s != nil && c.Kind == state.KindAttach {
			c.Password = s.Password
		}
	}},
	{name: "a node is reaped although it is not due", command: func(m *state.Machine, c *state.Command) {
		if n := m.Tree().Lookup(c.Path); c.Kind == state.KindReap && n != nil && n.NumChildren() > 0 {
			c.Path = "/none"
		}
	}},
	{name: "null data becomes empty", command: func(_ *state.Machine, c *state.Command) {
		if c.Kind == state.KindWrite && c.Op == wire.OpSetData {
			d := wire.NewDecoder(c.Body)
			var r wire.SetDataRequest
			if r.Decode(&d); d.Err() == nil && r.Data == nil {
				r.Data = []byte{}
				c.Body = r.Append(nil)
			}
		}
	}},
	{name: "reads do not look at the list", read: func(rd *Read) { rd.IDs = superID }},
	{name: "a watch that was missed is only set again", read: func(rd *Read) {
		if rd.Watch != nil {
			changed := *rd.Watch
			changed.RelativeZxid = 1 << 62
			rd.Watch = &changed
		}
	}},
	{name: "a panic", result: func(c *state.Command, _ *state.Result) {
		if c.Op == wire.OpReconfig {
			panic("planted")
		}
	}},
	{name: "who has asked for other members gets no answer", result: func(c *state.Command, r *state.Result) {
		if c.Kind == state.KindMembers {
			r.Asker = state.Asker{}
		}
	}},
	{name: "snapshots do not know of changes of the members", onlyOne: true, snapshot: func(c *state.Command) {
		if c.Kind == state.KindMembers {
			*c = state.Command{Kind: state.KindSync}
		}
	}},
	{name: "snapshots have no changed lists", onlyOne: true, snapshot: func(c *state.Command) {
		if c.Op == wire.OpSetACL {
			c.IDs = nil // fails more often
			c.Body = nil
		}
	}},
	{name: "snapshots do not know what has been applied of a session", onlyOne: true, snapshot: func(c *state.Command) {
		if c.Kind == state.KindAttach {
			*c = state.Command{Kind: state.KindSync}
		}
	}},
	{name: "a slow snapshot is of a later moment", onlyOne: true, late: true},
}

// buggy is a configuration in which some replicas have a bug.
func buggy(b *bug, has func(replica int) bool) Config {
	cfg := DefaultConfig()
	cfg.New = func(replica int) Machine {
		if has(replica) {
			return plant(NewReal(0), b)
		}
		return NewReal(0)
	}
	cfg.Restore = func(replica int, r io.Reader) (Machine, error) {
		m, err := RestoreReal(r)
		if err == nil && has(replica) {
			m = plant(m, b)
		}
		return m, err
	}
	return cfg
}

// found runs histories until one fails.
func found(cfg Config) (*History, error) { return foundIn(cfg, 6) }

func foundIn(cfg Config, histories uint64) (*History, error) {
	for seed := range histories {
		h := NewGenerator(100+seed, cfg.Replicas).History(3000)
		if _, err := Run(cfg, h); err != nil {
			return h, err
		}
	}
	return nil, nil
}

// A check that cannot fail is a defect: every planted bug must be found, by the other
// replicas if one has it, and by the model if all have it.
func TestPlantedBugsAreFound(t *testing.T) {
	for i := range bugs {
		b := &bugs[i]
		t.Run(b.name, func(t *testing.T) {
			one := buggy(b, func(replica int) bool { return replica == 1 })
			one.Model = false
			_, err := found(one)
			if err == nil {
				t.Error("no history fails when one replica has the bug")
			}
			t.Logf("one replica: %v", err)
			if b.onlyOne {
				return
			}
			if _, err = found(buggy(b, func(int) bool { return true })); err == nil {
				t.Error("no history fails when all replicas have the bug")
			}
			t.Logf("all replicas: %v", err)
		})
	}
}

// The wrapper alone is not found: what is found are the bugs.
func TestWrapperWithoutABugIsNotFound(t *testing.T) {
	none := &bug{}
	if _, err := foundIn(buggy(none, func(int) bool { return true }), 2); err != nil {
		t.Errorf("a machine without a bug fails: %v", err)
	}
	shadowed := &bug{snapshot: func(*state.Command) {}}
	if _, err := foundIn(buggy(shadowed, func(int) bool { return true }), 2); err != nil {
		t.Errorf("a machine with a good shadow fails: %v", err)
	}
}

// What is left of a failing history must be short enough to be read.
func TestFailingHistoryShrinksToItsCause(t *testing.T) {
	i := slices.IndexFunc(bugs, func(b bug) bool { return b.name == "ephemerals outlive an expiry" })
	cfg := buggy(&bugs[i], func(int) bool { return true })
	h, err := found(cfg)
	if err == nil {
		t.Fatal("the bug was not found")
	}
	small := Shrink(cfg, h, 400)
	if _, err := Run(cfg, small); err == nil {
		t.Fatal("the shrunk history does not fail")
	}
	if n := small.Commands(); n > 3 {
		t.Errorf("%d commands are left of %d, want a session and its expiry:\n%s", n, h.Commands(), small)
	}
}
