package segment

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"

	"github.com/zkd-project/zkd/internal/vfs/vfstest"
)

var errBoom = errors.New("input/output error")

// life is a log that goes through whatever rapid draws, beside its model.
type life struct {
	model
	disk  *vfstest.Disk
	stage stageFS
	o     Options
	l     *Log
	term  uint64
	armed bool // an operation of the disk is going to fail
}

// A log behaves as a slice does that loses, at a crash, some of what was not synced; it goes
// through clean and unclean ends and through failures of the disk.
func TestLogBehavesAsASlice(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		v := &life{disk: newDisk(), term: 1}
		v.stage.FS = v.disk
		v.o = smallOptions(&v.stage)
		v.o.SegmentBytes = int64(rapid.IntRange(200, 5000).Draw(rt, "segment"))
		var err error
		if v.l, err = Open(v.o); err != nil {
			rt.Fatal(err)
		}
		defer func() { v.l.Close() }()
		rt.Repeat(map[string]func(*rapid.T){
			"append":       func(rt *rapid.T) { v.done(rt, v.append(v.l, v.batch(rt))) },
			"appendMore":   func(rt *rapid.T) { v.done(rt, v.append(v.l, v.batch(rt))) },
			"store":        func(rt *rapid.T) { v.done(rt, v.store(v.l, v.batch(rt))) },
			"sync":         func(rt *rapid.T) { v.done(rt, v.sync(v.l)) },
			"appendBeside": v.appendBeside,
			"deleteFront":  v.deleteFront,
			"cutTail":      v.cutTail,
			"restart":      v.restart,
			"kill":         func(rt *rapid.T) { v.disk.Kill(); v.reopen(rt) },
			"powerCut":     func(rt *rapid.T) { v.powerCut(rt); v.reopen(rt) },
			"fail": func(rt *rapid.T) {
				v.disk.Fail(rapid.IntRange(1, 4).Draw(rt, "operation"), errBoom)
				v.armed = true
			},
			"": func(rt *rapid.T) {
				wantLog(rt, v.l, v.written)
				if err := v.l.check(); err != nil {
					rt.Fatal(err)
				}
				if d := v.l.Durable(); len(v.written) > 0 && d != max(v.durable, v.written[0].Index-1) {
					rt.Fatalf("durable is %d, want %d", d, v.durable)
				}
			},
		})
	})
}

func (v *life) batch(rt *rapid.T) []*raft.Log {
	next := v.last() + 1
	if len(v.written) == 0 {
		next = rapid.Uint64Range(1, 100).Draw(rt, "next")
	}
	var batch []*raft.Log
	for range rapid.IntRange(1, 6).Draw(rt, "n") {
		batch = append(batch, entry(next, v.term, rapid.IntRange(0, 700).Draw(rt, "size")))
		next++
	}
	return batch
}

// done ends an operation. After a failure the log must be dead, and a new start finds what
// was durable.
func (v *life) done(rt *rapid.T, err error) {
	if err == nil {
		return
	}
	if !v.armed || !errors.Is(err, errBoom) {
		rt.Fatal(err)
	}
	durable, ops := v.l.Durable(), v.disk.Ops()
	next := entry(1, v.term, 1)
	if last, _ := v.l.LastIndex(); last > 0 {
		next.Index = last + 1
	}
	_, serr := v.l.Sync()
	for what, err := range map[string]error{
		"append": v.l.Append([]*raft.Log{next}), "store": v.l.StoreLog(next), "sync": serr, "delete": v.l.DeleteRange(1, 1),
	} {
		if !errors.Is(err, errBoom) {
			rt.Fatalf("%s after a failure: %v", what, err)
		}
	}
	if v.l.Durable() != durable || v.disk.Ops() != ops {
		rt.Fatal("the log went on after a failure")
	}
	if rapid.Bool().Draw(rt, "powerCut") {
		v.powerCut(rt)
	} else {
		v.disk.Kill()
	}
	v.reopen(rt)
}

func (v *life) powerCut(rt *rapid.T) {
	v.disk.Crash(rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0)))
}

// reopen opens the log after an end of whatever kind, and goes on from what it holds.
func (v *life) reopen(rt *rapid.T) {
	v.disk.Fail(0, nil)
	v.armed = false
	var err error
	if v.l, err = Open(v.o); err != nil {
		rt.Fatalf("open: %v", err)
	}
	got, err := contents(v.l)
	if err != nil {
		rt.Fatal(err)
	}
	if err := v.mismatch(got); err != nil {
		rt.Fatal(err)
	}
	v.model = model{written: got, deleted: v.deleted}
	v.durable = v.last()
	// Entries deleted in front may be back, by whole files.
	if len(got) > 1 && got[0].Index <= v.deleted {
		v.done(rt, v.remove(v.l, got[0].Index, min(v.deleted, v.last()-1)))
	}
}

func (v *life) restart(rt *rapid.T) {
	err := v.l.Close()
	if err == nil {
		v.durable = v.last()
	} else if !v.armed || !errors.Is(err, errBoom) {
		rt.Fatal(err)
	}
	v.disk.Kill() // what Close has done must not depend on the disk's memory of it
	v.reopen(rt)
}

// appendBeside syncs, and appends while the sync runs.
func (v *life) appendBeside(rt *rapid.T) {
	hook := &v.stage.beforeSync
	if rapid.Bool().Draw(rt, "after") {
		hook = &v.stage.afterSync
	}
	batch := v.batch(rt)
	var err error
	beside := func() {
		hook.Store(nil)
		size, aerr := v.l.admit(batch)
		if aerr != nil || !v.l.fits(batch[0].Index, size) {
			return // it would wait for this sync
		}
		err = inTime(func() error { return v.append(v.l, batch) })
	}
	hook.Store(&beside)
	serr := v.sync(v.l)
	hook.Store(nil)
	v.done(rt, errors.Join(serr, err))
}

func (v *life) deleteFront(rt *rapid.T) {
	if len(v.written) == 0 {
		rt.Skip()
	}
	n := rapid.IntRange(1, len(v.written)).Draw(rt, "n")
	v.done(rt, v.remove(v.l, v.written[0].Index, v.written[n-1].Index))
}

func (v *life) cutTail(rt *rapid.T) {
	if len(v.written) == 0 {
		rt.Skip()
	}
	n := rapid.IntRange(0, len(v.written)-1).Draw(rt, "keep")
	v.term++
	v.done(rt, v.remove(v.l, v.written[n].Index, v.last()))
}
