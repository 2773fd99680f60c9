package sim

import (
	"io"

	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/watch"
	"github.com/zkd-project/zkd/server/znode"
	"github.com/zkd-project/zkd/wire"
)

// Machine is what a run needs of a replicated state machine. The real one is Real; a test
// of the runner wraps it to plant a bug.
type Machine interface {
	BeginBatch(h *state.BatchHeader)
	Apply(h *state.BatchHeader, c *state.Command, r *state.Result)
	Digest() uint64
	// WriteSnapshot writes the machine as it is at the call. during is called while it
	// goes on, whenever others may use the machine.
	WriteSnapshot(w io.Writer, during func()) error
	// Answer carries out a read at path and returns the body of the reply.
	Answer(b []byte, rd *Read, path string) ([]byte, wire.Code)
	// Real is the machine behind it, for checks.
	Real() *state.Machine
}

// RealMachine is the machine of server/state.
type RealMachine struct {
	*state.Machine
}

// spentPath is a directory in which so many nodes have been created before the history
// starts that it has only a few sequence numbers left.
const (
	spentPath    = "/spent"
	spentCreated = 1<<31 - 3
)

// NewReal returns the machine of a log that begins behind zxid, empty but for the spent
// directory.
func NewReal(zxid int64) Machine {
	m := state.New()
	m.FinishImport(zxid, 0)
	if _, err := m.Tree().Import(spentPath, nil, 0, znode.Persisted{Cversion: spentCreated}); err != nil {
		panic(err)
	}
	return RealMachine{m}
}

// RestoreReal reads a snapshot.
func RestoreReal(r io.Reader) (Machine, error) {
	m, err := state.Restore(r)
	if err != nil {
		return nil, err
	}
	return RealMachine{m}, nil
}

// Real implements Machine.
func (m RealMachine) Real() *state.Machine { return m.Machine }

// WriteSnapshot implements Machine.
func (m RealMachine) WriteSnapshot(w io.Writer, during func()) error {
	s := m.Snapshot()
	defer s.Close()
	return s.Write(&gapLocker{during: during}, w)
}

// gapLocker is the lock of readers as a snapshot sees it. In a single goroutine nobody
// else can come in between, so it lets them: before each time that the lock is taken.
type gapLocker struct {
	during func()
	held   bool
}

func (l *gapLocker) Lock() {
	if l.held {
		panic("sim: the lock is taken twice")
	}
	if l.during != nil {
		l.during()
	}
	l.held = true
}

func (l *gapLocker) Unlock() {
	if !l.held {
		panic("sim: the lock is given back twice")
	}
	l.held = false
}

// replica is one server: a machine, and the snapshot that it would start from.
type replica struct {
	id       int
	machine  Machine
	decoder  state.BatchDecoder
	snapshot []byte // nil: none, it starts from an empty machine
	index    int    // number of entries that the snapshot holds
	writing  bool   // a snapshot is under way
	result   state.Result
}

// Answer implements Machine.
func (m RealMachine) Answer(b []byte, rd *Read, path string) ([]byte, wire.Code) {
	switch rd.Op {
	case wire.OpGetData:
		return m.GetData(b, path, rd.IDs)
	case wire.OpExists:
		return m.Exists(b, path, rd.IDs)
	case wire.OpGetACL:
		return m.GetACL(b, path, rd.IDs)
	case wire.OpGetChildren:
		return m.GetChildren(b, path, rd.IDs)
	case wire.OpGetChildren2:
		return m.GetChildren2(b, path, rd.IDs)
	case wire.OpGetAllChildrenNumber:
		return m.GetAllChildrenNumber(b, path, rd.IDs)
	case wire.OpGetEphemerals:
		return m.GetEphemerals(b, sessionID(rd.Slot), ephemeralPrefix(path))
	case wire.OpMultiRead:
		return m.MultiRead(b, multiReadBody(path), rd.IDs, 1<<20)
	case wire.OpSetWatches2:
		m.Rewatch(rd.Watch,
			func(path string, k watch.Kind) { b = appendRewatch(b, "add", int(k), path) },
			func(t wire.EventType, path string) { b = appendRewatch(b, "fire", int(t), path) })
		return b, wire.OK
	}
	panic("sim: not a read: " + rd.Op.String())
}

// ephemeralPrefix cuts the path so that it is a prefix of others more often.
func ephemeralPrefix(path string) string {
	if len(path) > 2 {
		return path[:2]
	}
	return path
}

// multiReadBody reads data and children of a path, of its parent's odd name, and of the
// root.
func multiReadBody(path string) []byte {
	var ops []wire.MultiOp
	for _, p := range []string{path, path + "/", "/"} {
		for _, op := range []wire.OpCode{wire.OpGetData, wire.OpGetChildren} {
			ops = append(ops, wire.MultiOp{Op: op, Path: wire.PathWatchRequest{Path: p}})
		}
	}
	return wire.AppendMulti(nil, ops)
}

func appendRewatch(b []byte, what string, kind int, path string) []byte {
	b = append(b, what...)
	b = append(b, ' ', byte('0'+kind), ' ')
	b = append(b, path...)
	return append(b, '\n')
}
