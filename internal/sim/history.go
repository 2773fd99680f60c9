package sim

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/wire"
)

// A History is what happens in one run, told so that it still makes sense when parts of it
// are left out: a command says "the next request of session 2", not "request 17". That is
// what lets a failing history be shrunk.
type History struct {
	Batches []Batch
}

// Batch becomes one log entry; before it, the replicas do what Actions says.
type Batch struct {
	Actions   []Action
	AdvanceMs int64 // how far the leader's clock has moved, also backwards
	NewTerm   bool
	Settings  *state.Settings // nil: as before
	Steps     []Step
	Reads     []Read
}

// ActionKind is what a replica does besides applying entries.
type ActionKind uint8

// The kinds of actions.
const (
	// TakeSnapshot writes a snapshot, which replaces the replica's last one.
	TakeSnapshot ActionKind = iota
	// TakeSlowSnapshot does the same while the next Batches entries are being applied.
	TakeSlowSnapshot
	// Restart loses the memory: back to the own last snapshot, and the entries since then
	// are applied again.
	Restart
	// Install is Restart from the last snapshot of the replica From.
	Install
)

// Action is what one replica does besides applying entries.
type Action struct {
	Kind    ActionKind
	Replica int
	From    int // Install
	Batches int // TakeSlowSnapshot
}

// Step is one command. Epoch, request number and password are told relative to what is
// right when the command comes.
type Step struct {
	Kind      state.Kind
	Slot      int // which of the sessions
	EpochOff  int // 0 is the right one
	ReqOff    int // 0 is the next one, -1 a repeat, 1 a gap
	WrongPwd  bool
	SameConn  bool  // attach: from the connection that has the session already
	TimeoutMs int32 // create session, attach
	IDs       []wire.ID
	Op        Op
	Level     uint32
	Members   MembersStep
}

// MembersStep is what the leader says of the members; Target and the number are relative, as in a
// Step.
type MembersStep struct {
	Step      state.MembersStep
	Lines     string
	StepOff   int // 0 is the next one
	TargetOff int // 0 is the change under way
	Code      wire.Code
}

// Op is one write. It becomes the body of the request when the step is carried out.
type Op struct {
	Code    wire.OpCode
	Path    string
	Recent  int // not 0: the path of the Recent-th last create, if there were so many
	Data    []byte
	ACL     []wire.ACL
	Flags   int32
	TTLMs   int64
	Version int32
	Multi   []Op
	Members Reconfig
	Mangle  Mangle
}

// A Reconfig is a change of the members: who joins and who leaves, or, if Whole, all in Joining.
type Reconfig struct {
	Joining, Leaving string
	Whole            bool
	Version          int64
}

// Mangle damages an encoded request.
type Mangle struct {
	Kind MangleKind
	At   int // modulo the length
}

// MangleKind is a kind of damage.
type MangleKind uint8

// The kinds of damage.
const (
	Intact   MangleKind = iota
	CutOff              // everything from At on is missing
	Flipped             // the byte at At is another one
	NullPath            // the first string, the path, is null
	Trailing            // more bytes follow
	NoEnd               // of a multi: the end marker is missing
)

// Read is one read, answered by all replicas between two batches.
type Read struct {
	Op     wire.OpCode
	Path   string
	Recent int
	Slot   int
	IDs    []wire.ID
	Watch  *wire.SetWatches2 // setWatches
}

// Commands counts the commands of a history.
func (h *History) Commands() int {
	n := 0
	for i := range h.Batches {
		n += len(h.Batches[i].Steps)
	}
	return n
}

// String tells the history, one line for each thing that happens.
func (h *History) String() string {
	var b strings.Builder
	for i := range h.Batches {
		batch := &h.Batches[i]
		fmt.Fprintf(&b, "batch %d: clock %+d ms", i, batch.AdvanceMs)
		if batch.NewTerm {
			b.WriteString(", new term")
		}
		if batch.Settings != nil {
			fmt.Fprintf(&b, ", settings %+v", *batch.Settings)
		}
		b.WriteString("\n")
		for _, a := range batch.Actions {
			fmt.Fprintf(&b, "  %v\n", a)
		}
		for _, s := range batch.Steps {
			fmt.Fprintf(&b, "  %v\n", s)
		}
		for _, r := range batch.Reads {
			fmt.Fprintf(&b, "  read %v %q recent %d slot %d ids %v %+v\n", r.Op, r.Path, r.Recent, r.Slot, r.IDs, r.Watch)
		}
	}
	return b.String()
}

func (a Action) String() string {
	switch a.Kind {
	case TakeSnapshot:
		return fmt.Sprintf("replica %d takes a snapshot", a.Replica)
	case TakeSlowSnapshot:
		return fmt.Sprintf("replica %d takes a snapshot during %d batches", a.Replica, a.Batches)
	case Restart:
		return fmt.Sprintf("replica %d restarts", a.Replica)
	case Install:
		return fmt.Sprintf("replica %d installs the snapshot of replica %d", a.Replica, a.From)
	}
	return "?"
}

var kindNames = map[state.Kind]string{
	state.KindWrite: "write", state.KindCreateSession: "create session", state.KindAttach: "attach",
	state.KindCloseSession: "close session", state.KindExpire: "expire", state.KindReap: "reap",
	state.KindSync: "sync", state.KindLevel: "level", state.KindMembers: "members",
}

func (s Step) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, session %d", kindNames[s.Kind], s.Slot)
	if s.EpochOff != 0 {
		fmt.Fprintf(&b, ", epoch %+d", s.EpochOff)
	}
	if s.ReqOff != 0 {
		fmt.Fprintf(&b, ", request %+d", s.ReqOff)
	}
	if s.WrongPwd {
		b.WriteString(", wrong password")
	}
	if s.SameConn {
		b.WriteString(", same connection")
	}
	if s.Kind == state.KindMembers {
		fmt.Fprintf(&b, " %+v", s.Members)
	}
	if s.Kind == state.KindWrite || s.Kind == state.KindReap {
		fmt.Fprintf(&b, ", ids %v: %v", s.IDs, s.Op)
	}
	return b.String()
}

func (o Op) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v %q", o.Code, o.Path)
	if o.Recent != 0 {
		fmt.Fprintf(&b, " (recent %d)", o.Recent)
	}
	if o.Data != nil {
		fmt.Fprintf(&b, " data %q", o.Data)
	}
	if o.ACL != nil {
		fmt.Fprintf(&b, " acl %v", o.ACL)
	}
	fmt.Fprintf(&b, " flags %d ttl %d version %d", o.Flags, o.TTLMs, o.Version)
	if o.Code == wire.OpReconfig {
		fmt.Fprintf(&b, " %+v", o.Members)
	}
	if o.Mangle.Kind != Intact {
		fmt.Fprintf(&b, " mangle %v", o.Mangle)
	}
	for _, sub := range o.Multi {
		fmt.Fprintf(&b, "\n      %v", sub)
	}
	return b.String()
}

// body encodes the request. path tells the paths of recent creates.
func (o *Op) body(b []byte, path func(*Op) string) []byte {
	start := len(b)
	b = o.record(b, path)
	return o.Mangle.apply(b, start)
}

func (o *Op) record(b []byte, path func(*Op) string) []byte {
	switch o.Code {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer:
		r := wire.CreateRequest{Path: path(o), Data: o.Data, ACL: o.ACL, Flags: o.Flags}
		return r.Append(b)
	case wire.OpCreateTTL:
		r := wire.CreateTTLRequest{Path: path(o), Data: o.Data, ACL: o.ACL, Flags: o.Flags, TTLMs: o.TTLMs}
		return r.Append(b)
	case wire.OpDelete:
		r := wire.DeleteRequest{Path: path(o), Version: o.Version}
		return r.Append(b)
	case wire.OpSetData:
		r := wire.SetDataRequest{Path: path(o), Data: o.Data, Version: o.Version}
		return r.Append(b)
	case wire.OpSetACL:
		r := wire.SetACLRequest{Path: path(o), ACL: o.ACL, Version: o.Version}
		return r.Append(b)
	case wire.OpCheck:
		r := wire.CheckRequest{Path: path(o), Version: o.Version}
		return r.Append(b)
	case wire.OpReconfig:
		return o.Members.append(b)
	case wire.OpMulti:
		for i := range o.Multi {
			h := wire.MultiHeader{Op: o.Multi[i].Code, Err: -1}
			b = o.Multi[i].record(h.Append(b), path)
		}
		if o.Mangle.Kind == NoEnd {
			return b
		}
		return wire.AppendMultiEnd(b)
	default: // a foreign opcode: what getData would send
		r := wire.PathWatchRequest{Path: path(o)}
		return r.Append(b)
	}
}

// append encodes the request. What is not given is null: an empty list would mean something.
func (r *Reconfig) append(b []byte) []byte {
	list := func(text string, given bool) {
		if !given {
			b = append(b, 0xff, 0xff, 0xff, 0xff)
			return
		}
		b = binary.BigEndian.AppendUint32(b, uint32(len(text)))
		b = append(b, text...)
	}
	list(r.Joining, !r.Whole && r.Joining != "")
	list(r.Leaving, !r.Whole && r.Leaving != "")
	list(r.Joining, r.Whole)
	return binary.BigEndian.AppendUint64(b, uint64(r.Version))
}

func (m Mangle) apply(b []byte, start int) []byte {
	body := b[start:]
	switch m.Kind {
	case CutOff:
		if len(body) > 0 {
			return b[:start+m.At%len(body)]
		}
	case Flipped:
		if len(body) > 0 {
			body[m.At%len(body)] ^= byte(1 + m.At%255)
		}
	case NullPath:
		if len(body) >= 4 {
			n := 4 + int(uint32(body[0])<<24|uint32(body[1])<<16|uint32(body[2])<<8|uint32(body[3]))
			if n <= len(body) {
				rest := append([]byte{0xff, 0xff, 0xff, 0xff}, body[n:]...)
				return append(b[:start], rest...)
			}
		}
	case Trailing:
		return append(b, "leftover"...)
	}
	return b
}
