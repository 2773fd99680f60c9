package crash

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/sim/disk"
	"github.com/zkd-project/zkd/internal/sim/rng"
	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/server/replication"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/wire"
)

// nodeLife is a server that crashes and starts again and again, and one session that
// writes to it: request i puts i into /reg, and every third one makes a node under /q in
// the same transaction.
type nodeLife struct {
	t   *testing.T
	rng *rng.Rand
	d   *disk.Disk
	lie disk.Op // not 0: operations of this kind do nothing and report success

	proposed uint64        // the highest request that was given to Propose
	acked    atomic.Uint64 // the highest one whose result the observer has heard of
	born     atomic.Bool   // the session is acknowledged
	serverID string        // the name that raft knows the server by
}

const nodeSession = 1 << 56

// Applied implements replication.Observer: what it hears of is answered to the client.
func (l *nodeLife) Applied(c *state.Command, r *state.Result) {
	switch {
	case c.Kind == state.KindCreateSession:
		l.born.Store(true)
	case c.Kind == state.KindWrite && r.Outcome == state.Applied:
		l.acked.Store(max(l.acked.Load(), c.Req))
	}
}

func (l *nodeLife) BatchDone()     {}
func (l *nodeLife) BatchReleased() {}

// Routed implements replication.Observer.
func (l *nodeLife) Routed(uint64) {}
func (l *nodeLife) Restored()     {}
func (l *nodeLife) Quarantined()  {}

func (l *nodeLife) open() (*replication.Node, error) {
	n, _, err := replication.Open(replication.Options{
		Dir: "/data", FS: lyingFS{l.d, l.lie}, SegmentBytes: 20 << 10, SnapCount: 60, SnapRetain: 2, Observer: l,
		Settings: func() state.Settings { return state.Settings{} },
	})
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	ctx, cancel := context.WithTimeout(l.t.Context(), time.Minute)
	defer cancel()
	if err := n.WaitReady(ctx); err != nil {
		n.Close()
		return nil, fmt.Errorf("wait for leadership: %w", err)
	}
	return n, nil
}

// verify compares the machine with what was acknowledged, and goes on from there.
func (l *nodeLife) verify(n *replication.Node) error {
	if id := n.ServerID(); l.serverID == "" {
		l.serverID = id
	} else if id != l.serverID {
		return fmt.Errorf("the server was %s and is %s", l.serverID, id)
	}
	n.RLock()
	defer n.RUnlock()
	m := n.Machine()
	if err := m.Check(); err != nil {
		return err
	}
	s := m.Session(nodeSession)
	if s == nil {
		if l.born.Load() {
			return errors.New("the acknowledged session is lost")
		}
		return nil
	}
	l.born.Store(true)
	if s.LastReq < l.acked.Load() || s.LastReq > l.proposed {
		return fmt.Errorf("request %d is the last one, acknowledged were %d, proposed %d", s.LastReq, l.acked.Load(), l.proposed)
	}
	l.proposed = s.LastReq
	if s.LastReq == 0 {
		return nil
	}
	// Request 1 makes both nodes, so it leaves "1" in /reg as well.
	reg, q := m.Tree().Lookup("/reg"), m.Tree().Lookup("/q")
	if reg == nil || q == nil || string(reg.Data()) != strconv.FormatUint(s.LastReq, 10) {
		return fmt.Errorf("after request %d the register is %v, the directory %v", s.LastReq, reg, q)
	}
	if want := int(s.LastReq / 3); q.NumChildren() != want {
		return fmt.Errorf("after request %d there are %d nodes, want %d", s.LastReq, q.NumChildren(), want)
	}
	return nil
}

// next is the body of the next request.
func (l *nodeLife) next() state.Command {
	if !l.born.Load() {
		return state.Command{Kind: state.KindCreateSession, Session: nodeSession, TimeoutMs: 4000, Origin: session.Origin{Boot: 1, Conn: 1}}
	}
	l.proposed++
	data := []byte(strconv.FormatUint(l.proposed, 10))
	create := func(path string, flags int32) wire.MultiOp {
		return wire.MultiOp{Op: wire.OpCreate, Create: wire.CreateRequest{Path: path, Data: data, ACL: acl.Open(), Flags: flags}}
	}
	ops := []wire.MultiOp{{Op: wire.OpSetData, SetData: wire.SetDataRequest{Path: "/reg", Data: data, Version: -1}}}
	switch {
	case l.proposed == 1:
		ops = []wire.MultiOp{create("/reg", 0), create("/q", 0)}
	case l.proposed%3 == 0:
		ops = append(ops, create("/q/n-", wire.FlagPersistentSequential))
	}
	return state.Command{
		Kind: state.KindWrite, Session: nodeSession, Epoch: 1, Req: l.proposed, Op: wire.OpMulti, Body: wire.AppendMulti(nil, ops),
	}
}

// work proposes until the node dies or enough is done.
func (l *nodeLife) work(n *replication.Node) error {
	for range 20 + l.rng.Intn(200) {
		wasBorn := l.born.Load()
		c := l.next()
		switch err := n.Propose(&c); {
		case errors.Is(err, replication.ErrClosed), errors.Is(err, replication.ErrNotLeader):
			return nil
		case err != nil:
			return err
		}
		if !wasBorn || l.rng.OneIn(8) {
			time.Sleep(time.Duration(1+l.rng.Intn(20)) * time.Millisecond)
		}
	}
	return nil
}

// round is one life of the process: it starts, works, and is cut off somewhere.
func (l *nodeLife) round() error {
	fault := disk.Fault{N: 1 + l.rng.Intn(120), Cut: true, Short: l.rng.Intn(4000)}
	if l.rng.OneIn(4) {
		fault.Cut, fault.Err = false, rng.Pick(l.rng, []error{syscall.EIO, syscall.ENOSPC})
	}
	l.d.Inject(fault)
	n, err := l.open()
	switch {
	case err != nil && l.d.Failures() == 0:
		return err
	case err == nil:
		if err := l.verify(n); err != nil {
			n.Close()
			return err
		}
		if err := l.work(n); err != nil {
			n.Close()
			return err
		}
		if l.rng.OneIn(5) {
			l.d.Heal() // a proper end
		} else {
			l.d.PowerCut()
		}
		n.Close()
	}
	if l.rng.OneIn(4) {
		l.d = l.d.AfterKill()
	} else {
		l.d = l.d.AfterCrash(l.rng.Uint64())
	}
	return nil
}

// A single server is cut off again and again, at any operation of any of its stores. What
// it has answered for must be there after every start, in order and whole, and nothing
// else.
func TestNodeLivesThroughCrashAfterCrash(t *testing.T) {
	eachSeed(t, 12, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			l := &nodeLife{t: t, rng: rng.New(seed), d: disk.New()}
			for round := range 40 {
				if err := l.round(); err != nil {
					t.Fatalf("round %d: %v\nfiles %q", round, err, l.d.Files())
				}
			}
			n, err := l.open()
			if err != nil {
				t.Fatalf("the last start: %v", err)
			}
			defer n.Close()
			if err := l.verify(n); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d requests, %d acknowledged", l.proposed, l.acked.Load())
			if l.acked.Load() < 500 {
				t.Errorf("only %d requests were acknowledged", l.acked.Load())
			}
		})
	})
}

// Were a store of the node to forget its syncs, the crashes would show it.
func TestForgottenSyncOfANodeIsFound(t *testing.T) {
	for _, lie := range []disk.Op{disk.OpSync, disk.OpSyncDir} {
		t.Run(lie.String(), func(t *testing.T) {
			for seed := range uint64(6) {
				var lost error
				synctest.Test(t, func(t *testing.T) {
					l := &nodeLife{t: t, rng: rng.New(seed), d: disk.New(), lie: lie}
					for round := 0; round < 30 && lost == nil; round++ {
						lost = l.round()
					}
				})
				if lost != nil {
					t.Logf("seed %d: %v", seed, lost)
					return
				}
			}
			t.Errorf("no crash has lost anything although %v does nothing", lie)
		})
	}
}

// A bit that flips anywhere in the data directory is found when the node starts, or does
// not matter: what was acknowledged is never served otherwise.
func TestFlippedBitIsNeverServedByANode(t *testing.T) {
	eachSeed(t, 4, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			l := &nodeLife{t: t, rng: rng.New(seed), d: disk.New()}
			n, err := l.open()
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if err := l.work(n); err != nil {
					t.Fatal(err)
				}
			}
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
			good, refused := l.d, 0
			for range 60 {
				l.d = good.AfterKill()
				name, off, ok := l.anyByte()
				if !ok {
					continue
				}
				if err := l.d.Flip(name, off, 1<<l.rng.Intn(8)); err != nil {
					t.Fatal(err)
				}
				n, err := l.open()
				if err != nil {
					refused++
					if !errors.As(err, new(*replication.DamageError)) {
						t.Errorf("flipped byte %d of %s: the refusal names no damage: %v", off, name, err)
					}
					continue
				}
				if err := l.verify(n); err != nil {
					t.Errorf("flipped byte %d of %s: %v", off, name, err)
				}
				n.Close()
			}
			if refused == 0 {
				t.Error("no flipped bit was noticed")
			}
		})
	})
}

// anyByte draws a byte of any file of the disk.
func (l *nodeLife) anyByte() (name string, off int64, ok bool) {
	name, size, _ := strings.Cut(rng.Pick(l.rng, l.d.Files()), " ")
	n, _ := strconv.Atoi(size)
	if n == 0 {
		return "", 0, false
	}
	return name, int64(l.rng.Intn(n)), true
}
