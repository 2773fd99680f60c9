package replication

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/zkd-project/zkd/internal/vfs/vfstest"
	"github.com/zkd-project/zkd/server/state"
)

// eachStore runs f with every way to keep the data.
func eachStore(t *testing.T, f func(t *testing.T, o Options)) {
	for _, name := range []string{"memory", "segment", "bolt", "disk of the test"} {
		t.Run(name, func(t *testing.T) {
			o := testOptions()
			switch name {
			case "memory":
				o.Memory, o.Stores = true, NewMemoryStores()
			case "disk of the test":
				o.Dir, o.FS, o.SegmentBytes = "/data", vfstest.New(), 4096
			default:
				o.Dir, o.LogStore = t.TempDir(), name
			}
			f(t, o)
		})
	}
}

func TestDataSurvivesARestart(t *testing.T) {
	eachStore(t, func(t *testing.T, o Options) {
		r := openRig(t, o)
		if !r.info.New {
			t.Fatal("an empty directory must be new")
		}
		r.session()
		for i := range 50 {
			r.mustDo(createNode(uint64(i+1), nodePath(i), []byte{byte(i)}))
		}
		want := r.digestWithoutTerm()
		id := r.ServerID()
		r = r.reopen(o)
		if r.info.New || r.info.Replay == 0 {
			t.Fatalf("%+v", r.info)
		}
		if r.ServerID() != id {
			t.Fatal("the server has another name after a restart")
		}
		if got := r.digestWithoutTerm(); got != want {
			t.Fatalf("digest %x, want %x", got, want)
		}
		if err := r.SnapshotNow(testContext(t)); err != nil {
			t.Fatal(err)
		}
		for i := 50; i < 60; i++ {
			r.mustDo(createNode(uint64(i+1), nodePath(i), []byte{byte(i)}))
		}
		want = r.digestWithoutTerm()
		r = r.reopen(o)
		if r.info.SnapshotIndex == 0 || r.info.Replay == 0 || r.info.Replay > 20 {
			t.Fatalf("the snapshot was not used: %+v", r.info)
		}
		if got := r.digestWithoutTerm(); got != want {
			t.Fatalf("digest %x, want %x", got, want)
		}
		if string(r.data(nodePath(7))) != "\a" || r.data(nodePath(59)) == nil {
			t.Fatal("a node is missing")
		}
	})
}

// digestWithoutTerm is a digest of the tree and the sessions: term and epoch rise with each
// start.
func (r *rig) digestWithoutTerm() uint64 {
	r.RLock()
	defer r.RUnlock()
	return r.Machine().Tree().Digest() ^ uint64(r.Machine().SessionCount())
}

func TestEachStartBeginsANewEpoch(t *testing.T) {
	o := testOptions()
	o.Memory, o.Stores = true, NewMemoryStores()
	var last int64
	for range 3 {
		r := openRig(t, o)
		r.RLock()
		zxid := r.Machine().Zxid()
		r.RUnlock()
		if zxid>>32 <= last>>32 || uint32(zxid) != 0 {
			t.Fatalf("zxid %x after %x", zxid, last)
		}
		last = zxid
		r.Node.Close()
	}
}

func TestCommandsAreAppliedInTheOrderOfProposing(t *testing.T) {
	eachStore(t, func(t *testing.T, o Options) {
		o.MaxBatchBytes = 600 // several commands per entry, and several entries
		r := openRig(t, o)
		r.session()
		const n = 2000
		for i := uint64(1); i <= n; i++ {
			c := createNode(i, nodePath(int(i)), nil)
			if err := r.Propose(c); err != nil {
				t.Fatal(err)
			}
			clear(c.Body) // Propose must have copied it
		}
		r.mustDo(createNode(n+1, "/last", nil))
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.order) != n+2 || !slices.IsSorted(r.order) {
			t.Fatalf("%d commands applied, in order: %v", len(r.order), slices.IsSorted(r.order))
		}
		for i := 1; i < len(r.zxids); i++ {
			if r.zxids[i] != r.zxids[i-1]+1 {
				t.Fatalf("zxid %x after %x", r.zxids[i], r.zxids[i-1])
			}
		}
		if r.batches < 3 {
			t.Fatal("all in one batch: the limit was ignored")
		}
	})
}

// blockingObserver holds the applier up at a write until it is told to go on.
type blockingObserver struct {
	*rig
	gate chan struct{}
}

func (b *blockingObserver) Applied(c *state.Command, r *state.Result) {
	if c.Kind == state.KindWrite {
		<-b.gate
	}
	b.rig.Applied(c, r)
}

func TestFullQueueRefusesAndWaitQueueWaits(t *testing.T) {
	o := testOptions()
	o.Memory, o.MaxQueueBytes, o.MaxBatchBytes = true, 3000, 1000
	r := newRig(t)
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	o.Observer = &blockingObserver{r, gate}
	n, _, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	defer open()
	r.Node = n
	if err := n.WaitReady(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if err := n.WaitQueue(context.Background()); err != nil {
		t.Fatal(err)
	}
	sent := 0
	for {
		err := n.Propose(createNode(uint64(sent), nodePath(sent), make([]byte, 100)))
		if errors.Is(err, ErrQueueFull) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		sent++
	}
	if sent < 10 || sent > 100 {
		t.Fatalf("the queue was full after %d commands", sent)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := n.WaitQueue(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	waited := make(chan error)
	go func() { waited <- n.WaitQueue(context.Background()) }()
	open()
	if err := <-waited; err != nil {
		t.Fatal(err)
	}
	if err := n.Propose(createNode(uint64(sent), nodePath(sent), nil)); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if len(r.order) != sent+1 { // sent, and one after that
		t.Fatalf("%d applied, %d were accepted: Close must not drop any", len(r.order), sent+1)
	}
	if err := n.Propose(createNode(1, "/x", nil)); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	if err := n.WaitQueue(context.Background()); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	if err := n.SnapshotNow(context.Background()); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	if err := n.WaitReady(context.Background()); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}

func TestProposeBeforeLeadingIsRefused(t *testing.T) {
	o := testOptions()
	o.Memory, o.Observer = true, newRig(t)
	n, _, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Propose(createNode(1, "/x", nil)); !errors.Is(err, ErrNotLeader) {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := n.WaitReady(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	n.Close()
	if n.Close() != nil {
		t.Fatal("second close")
	}
}

func TestCloseWithoutServingLeavesNothingBehind(t *testing.T) {
	o := testOptions()
	o.Memory, o.Stores, o.Observer = true, NewMemoryStores(), newRig(t)
	for range 3 {
		n, _, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		n.Close()
	}
	r := openRig(t, o)
	r.session()
	for i := range 3000 {
		if err := r.Propose(createNode(uint64(i+1), nodePath(i), nil)); err != nil {
			t.Fatal(err)
		}
	}
	r.Node.Close()
	// And in the middle of applying the log.
	n, _, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	n.WaitReady(ctx)
	n.Close()
	r = openRig(t, o)
	if r.data(nodePath(2999)) == nil {
		t.Fatal("a node is missing")
	}
}

func TestReadersSeeWholeBatches(t *testing.T) {
	o := testOptions()
	o.Memory = true
	r := openRig(t, o)
	r.session()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			r.RLock()
			r.mu.Lock()
			if r.lockHeld {
				t.Error("a reader came in between Applied and BatchDone")
			}
			r.mu.Unlock()
			r.RUnlock()
		}
	})
	for i := range 2000 {
		if err := r.Propose(createNode(uint64(i+1), nodePath(i), nil)); err != nil {
			t.Fatal(err)
		}
	}
	r.mustDo(createNode(2001, "/last", nil))
	close(stop)
	wg.Wait()
}

func TestSecondNodeOnADirectoryIsRefused(t *testing.T) {
	eachStore(t, func(t *testing.T, o Options) {
		r := openRig(t, o)
		if _, err := tryOpenRig(t, o); !errors.Is(err, ErrLocked) {
			t.Fatalf("second open: %v", err)
		}
		if o.LogStore == logStoreSegment {
			if _, err := CheckDir(o.Dir, "", nil); !errors.Is(err, ErrLocked) {
				t.Fatalf("check: %v", err)
			}
		}
		r.reopen(o)
	})
}

func TestLostFilesStopTheStart(t *testing.T) {
	base := testOptions()
	base.Dir = t.TempDir()
	base.SegmentBytes = 8192
	r := openRig(t, base)
	r.session()
	req := uint64(1)
	for range 4 {
		for range 10 {
			r.mustDo(createNode(req, nodePath(int(req)), make([]byte, 1000)))
			req++
		}
		if err := r.SnapshotNow(testContext(t)); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		r.mustDo(createNode(req, nodePath(int(req)), make([]byte, 1000)))
		req++
	}
	r.Node.Close()
	for name, pattern := range map[string]string{
		"newest snapshots": "snapshots/*.snap", "first log file": "log/*.log", "last log file": "log/*.log",
		"all log files": "log/*.log", "log directory": "log", "snapshots directory": "snapshots",
		"stable store": "stable.db", "format": "format", "owner of the log": "log/format",
	} {
		t.Run(name, func(t *testing.T) {
			o := base
			o.Dir = t.TempDir()
			if err := os.CopyFS(o.Dir, os.DirFS(base.Dir)); err != nil {
				t.Fatal(err)
			}
			files, _ := filepath.Glob(filepath.Join(o.Dir, pattern))
			if len(files) == 0 {
				t.Fatal("nothing to remove")
			}
			switch name {
			case "first log file":
				// The snapshots retained do without the very first.
				files = files[:len(files)-1]
			case "last log file":
				files = files[len(files)-1:]
			}
			for _, f := range files {
				os.RemoveAll(f)
			}
			if _, err := CheckDir(o.Dir, "", nil); err == nil {
				t.Fatal("check has noticed nothing")
			}
			var d *DamageError
			if _, err := tryOpenRig(t, o); !errors.As(err, &d) || d.Repair == "" {
				t.Fatalf("open: %v", err)
			}
		})
	}
}

func TestRefusedEntriesAreTold(t *testing.T) {
	// A raft that does not run takes nothing.
	f := new(raft.Raft).ApplyLog(raft.Log{}, time.Nanosecond)
	if !refused(f) || !errors.Is(f.Error(), raft.ErrEnqueueTimeout) {
		t.Fatalf("%T: %v", f, f.Error())
	}
	o := testOptions()
	o.Memory = true
	r := openRig(t, o)
	f = r.raft().ApplyLog(raft.Log{Data: state.AppendHeader(nil, &state.BatchHeader{}, 0)}, time.Minute)
	if refused(f) {
		t.Fatalf("%T", f)
	}
	if err := f.Error(); err != nil {
		t.Fatal(err)
	}
}

// An entry that this version does not understand ends the node; it stays in the log.
func TestUnknownEntryEndsTheNode(t *testing.T) {
	unknown := state.AppendCommand(nil, &state.Command{Kind: state.KindLevel, Level: state.CurrentLevel + 1})
	for name, entry := range map[string][]byte{
		"format": {99, 0, 0, 0},
		"level":  append(state.AppendHeader(nil, &state.BatchHeader{}, 1), unknown...),
		"rest":   append(state.AppendHeader(nil, &state.BatchHeader{}, 0), 1),
	} {
		t.Run(name, func(t *testing.T) {
			o := testOptions()
			o.Memory, o.Stores = true, NewMemoryStores()
			r := openRig(t, o)
			r.session()
			want := r.digest()
			f := r.raft().ApplyLog(raft.Log{Data: entry}, time.Minute)
			if err := f.Error(); err != nil {
				t.Fatal(err)
			}
			err := <-r.fatal
			if !strings.Contains(err.Error(), fmt.Sprint("entry ", f.Index())) {
				t.Fatal(err)
			}
			if err := r.Propose(createNode(1, "/x", nil)); !errors.Is(err, ErrClosed) {
				t.Fatal(err)
			}
			if r.digest() != want {
				t.Fatal("something was applied")
			}
			r.Node.Close()
			if _, err := tryOpenRig(t, o); err == nil {
				t.Fatal("the entry was skipped at the next start")
			}
		})
	}
}

func TestAccessors(t *testing.T) {
	o := testOptions()
	o.Memory, o.MyID = true, 7
	r := openRig(t, o)
	if r.Role() != Leader || r.Role().String() != "leader" || r.Mode() != "standalone" {
		t.Fatal(r.Role(), r.Mode())
	}
	if !strings.HasPrefix(r.ServerID(), "7-") || len(r.ClusterID()) != 16 || r.AppliedIndex() == 0 {
		t.Fatal(r.ServerID(), r.ClusterID(), r.AppliedIndex())
	}
	if _, _, ok := r.LastSnapshot(); ok {
		t.Fatal("there is no snapshot yet")
	}
	r.Node.Close()
	if r.Role() != Electing {
		t.Fatal(r.Role())
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]Options{
		"nothing":   {},
		"directory": {Settings: testOptions().Settings, Observer: newRig(t)},
		"log store": {Settings: testOptions().Settings, Observer: newRig(t), Dir: "x", LogStore: "tape"},
		"bolt":      {Settings: testOptions().Settings, Observer: newRig(t), Dir: "x", LogStore: "bolt", FS: vfstest.New()},
	} {
		if _, _, err := Open(o); err == nil {
			t.Fatalf("%s: no error", name)
		}
	}
}
