package replication

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testSession is the session of all commands in tests.
const testSession = 0x1000000000000001

// openACL lets everybody do everything.
var openACL = []wire.ACL{{Perms: 31, ID: wire.ID{Scheme: "world", ID: "anyone"}}}

// A rig is a node with one client that proposes and remembers what was answered.
type rig struct {
	t testing.TB
	*Node
	info  Info
	fatal chan error

	mu       sync.Mutex
	answers  map[uint64]answer // by request number
	order    []uint64          // request numbers as applied
	zxids    []int64
	batches  int
	restored int
	waiting  map[uint64]chan answer
	lockHeld bool // between Applied and BatchDone, to see that the calls are in order
}

type answer struct {
	outcome state.Outcome
	code    wire.Code
	zxid    int64
}

func (r *rig) Applied(c *state.Command, res *state.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lockHeld = true
	if c.Kind != state.KindWrite && c.Kind != state.KindCreateSession {
		return
	}
	a := answer{res.Outcome, res.Code, res.Zxid}
	r.answers[c.Req] = a
	r.order = append(r.order, c.Req)
	r.zxids = append(r.zxids, res.Zxid)
	if ch := r.waiting[c.Req]; ch != nil {
		delete(r.waiting, c.Req)
		ch <- a
	}
}

func (r *rig) BatchDone()     { r.mu.Lock(); r.batches++; r.lockHeld = false; r.mu.Unlock() }
func (r *rig) BatchReleased() {}
func (r *rig) Routed(uint64)  {}
func (r *rig) Quarantined()   {}
func (r *rig) Restored()      { r.mu.Lock(); r.restored++; r.mu.Unlock() }

func testOptions() Options {
	o := Options{
		Settings:     func() state.Settings { return state.Settings{} },
		SegmentBytes: 1 << 20,
		Rand:         rand.NewChaCha8([32]byte{7}),
	}
	if os.Getenv("ZKD_TEST_LOG") != "" {
		o.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return o
}

func newRig(t testing.TB) *rig {
	return &rig{t: t, fatal: make(chan error, 1), answers: map[uint64]answer{}, waiting: map[uint64]chan answer{}}
}

// openRig opens a node and waits until it leads. The node is closed with the test.
func openRig(t testing.TB, o Options) *rig {
	t.Helper()
	r, err := tryOpenRig(t, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func tryOpenRig(t testing.TB, o Options) (*rig, error) {
	r := newRig(t)
	o.Observer, o.Fatal = r, func(err error) { r.fatal <- err }
	var err error
	if r.Node, r.info, err = Open(o); err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if r.Node != nil {
			r.Node.Close()
		}
	})
	return r, r.WaitReady(testContext(t))
}

// patience is for what must happen: it is waited out only where something is wrong, for the machine may be
// busy with other things, and stand still for seconds.
const patience = 2 * time.Minute

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// write is a command of the test session.
func write(req uint64, op wire.OpCode, body []byte) *state.Command {
	return &state.Command{
		Kind: state.KindWrite, Session: testSession, Epoch: 1, Req: req, Op: op, Body: body,
		IDs: []wire.ID{{Scheme: "ip", ID: "127.0.0.1"}},
	}
}

func createNode(req uint64, path string, data []byte) *state.Command {
	return write(req, wire.OpCreate, (&wire.CreateRequest{Path: path, Data: data, ACL: openACL}).Append(nil))
}

func setData(req uint64, path string, data []byte) *state.Command {
	return write(req, wire.OpSetData, (&wire.SetDataRequest{Path: path, Data: data, Version: -1}).Append(nil))
}

// session opens the test session.
func (r *rig) session() {
	r.t.Helper()
	c := &state.Command{Kind: state.KindCreateSession, Session: testSession, TimeoutMs: 30000}
	if a, err := r.do(c); err != nil || a.outcome != state.Applied {
		r.t.Fatalf("session: %+v %v", a, err)
	}
}

// do proposes a command and waits for its result, or for the end of the node.
func (r *rig) do(c *state.Command) (answer, error) {
	ch := make(chan answer, 1)
	r.mu.Lock()
	r.waiting[c.Req] = ch
	r.mu.Unlock()
	if err := r.Propose(c); err != nil {
		return answer{}, err
	}
	select {
	case a := <-ch:
		return a, nil
	case <-r.Dead():
		select {
		case a := <-ch:
			return a, nil
		default:
			return answer{}, errors.New("the node died")
		}
	}
}

func (r *rig) mustDo(c *state.Command) answer {
	r.t.Helper()
	a, err := r.do(c)
	if err != nil || a.outcome != state.Applied {
		r.t.Fatalf("request %d: %+v %v", c.Req, a, err)
	}
	return a
}

// data reads a node; nil if it is not there.
func (r *rig) data(path string) []byte {
	r.RLock()
	defer r.RUnlock()
	n := r.Machine().Tree().Lookup(path)
	if n == nil {
		return nil
	}
	return append([]byte{}, n.Data()...)
}

func (r *rig) digest() uint64 {
	r.RLock()
	defer r.RUnlock()
	return r.Machine().Digest()
}

// reopen closes the node and opens it again.
func (r *rig) reopen(o Options) *rig {
	r.t.Helper()
	if err := r.Node.Close(); err != nil {
		r.t.Fatalf("close: %v", err)
	}
	return openRig(r.t, o)
}

func nodePath(i int) string { return fmt.Sprintf("/n%04d", i) }
