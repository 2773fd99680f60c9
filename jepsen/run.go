package main

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/jepsen/cluster"
	"github.com/zkd-project/zkd/jepsen/history"
	"github.com/zkd-project/zkd/jepsen/nemesis"
	"github.com/zkd-project/zkd/jepsen/wire"
	"github.com/zkd-project/zkd/jepsen/workload"
)

const (
	// startPatience is for a start of all servers on a machine that is busy with other things.
	startPatience = 2 * time.Minute
	// sessionTimeoutMs of clients: short, so that sessions end within a run of seconds.
	sessionTimeoutMs = 3000
)

// A run is one under way.
type run struct {
	o       Options
	w       workload.Workload
	nemeses []nemesis.Nemesis
	dir     string
	c       *cluster.Cluster
	world   *nemesis.World
	disks   diskSet       // nil: the servers share a file system
	points  *pointSockets // nil: the servers have no failpoints
	members *memberSet    // nil: the membership stays
	rec     *history.Recorder
	tapes   wire.Tapes // of the test client
	log     *nemesis.Log
	verdict *Verdict
}

// Run runs one workload under its nemeses and judges it. An error means that there is no
// verdict.
func Run(ctx context.Context, o Options) (*Verdict, error) {
	r := &run{o: o}
	if err := r.open(ctx); err != nil {
		return nil, errors.Join(err, r.tearDown())
	}
	err := r.play(ctx)
	if err == nil {
		err = r.verdict.settle(r)
	}
	err = errors.Join(err, r.tearDown())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.dir, err)
	}
	if r.verdict.OK() {
		err = r.disks.remove()
	} else {
		err = r.keepFrames()
	}
	return r.verdict, errors.Join(err, r.verdict.keep())
}

// open finds out what the run needs, and starts the cluster.
func (r *run) open(ctx context.Context) (err error) {
	if err := r.o.check(); err != nil {
		return err
	}
	if r.w, err = findWorkload(r.o.Client, r.o.Workload); err != nil {
		return err
	}
	if err := r.chooseNemeses(); err != nil {
		return err
	}
	if r.dir, err = filepath.Abs(filepath.Join(r.o.Store, r.o.name(time.Now()))); err != nil {
		return err
	}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return err
	}
	return r.prepare(ctx)
}

// chooseNemeses adds those without which the workload shows nothing.
func (r *run) chooseNemeses() (err error) {
	for _, name := range r.w.Nemeses {
		if !slices.Contains(r.o.Nemeses, name) {
			r.o.Nemeses = append(slices.Clone(r.o.Nemeses), name)
		}
	}
	for _, name := range r.w.Without {
		if slices.Contains(r.o.Nemeses, name) {
			return fmt.Errorf("the workload %s cannot be judged with the nemesis %s", r.w.Name, name)
		}
	}
	if r.nemeses, err = nemesis.Find(r.o.Nemeses); err != nil {
		return err
	}
	for _, n := range r.nemeses {
		if n.Alone && len(r.nemeses) > 1 {
			return fmt.Errorf("the nemesis %s is as much as a majority bears: it must be alone", n.Name)
		}
	}
	return nil
}

// settings are the lines of zoo.cfg: those of a workload stand for those that all runs have.
func (r *run) settings() []string {
	// Snapshots, and with them installations, every few seconds.
	lines := append([]string{"snapCount=2000", "zkd.logLevel=info"}, memberSettings(&r.o)...)
	for _, line := range r.w.Settings {
		key, _, _ := strings.Cut(line, "=")
		lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, key+"=") })
		lines = append(lines, line)
	}
	return lines
}

// prepare starts the cluster.
func (r *run) prepare(ctx context.Context) error {
	d, err := openDriver(&r.o)
	if err != nil {
		return err
	}
	if r.o.Binary == "" {
		r.o.Binary = filepath.Join(r.dir, "zkd")
		if err := buildServer(ctx, &r.o); err != nil {
			return errors.Join(err, d.Close())
		}
	}
	co := cluster.Options{
		Servers: r.o.Nodes, Dir: r.dir, Binary: r.o.Binary,
		Settings: r.settings(),
	}
	if r.disks, err = openDisks(r); err != nil {
		return errors.Join(err, d.Close())
	}
	if r.disks != nil {
		co.DataDir = r.disks.dataDir
	}
	clock := clockFiles(r, &co)
	if r.points, err = openPoints(r, &co); err != nil {
		return errors.Join(err, d.Close())
	}
	co.PipeLogs = slices.Contains(r.o.Nemeses, "log-block")
	if r.c, err = cluster.New(co, d); err != nil {
		return errors.Join(err, d.Close())
	}
	// However short a run is, most of it must not be an outage.
	r.world = &nemesis.World{Cluster: r.c, Clock: clock, Longest: max(r.o.Time/4, 300*time.Millisecond)}
	if r.disks != nil {
		r.world.Disks = r.disks
	}
	if r.points != nil {
		r.world.Points = r.points.tell
	}
	if r.members = membersOf(r); r.members != nil {
		r.world.Members = r.members
	}
	for i := range r.nemeses {
		if why := r.nemeses[i].Unavailable(r.world); why != "" {
			return fmt.Errorf("nemesis %s: %s", r.nemeses[i].Name, why)
		}
	}
	starting, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	return r.c.StartAll(starting)
}

// play has clients and nemeses at work, heals everything and lets the workload look at what
// is left.
func (r *run) play(ctx context.Context) error {
	file, err := os.Create(filepath.Join(r.dir, "history.jsonl"))
	if err != nil {
		return err
	}
	defer file.Close()
	out := bufio.NewWriterSize(file, 1<<20)
	r.rec = history.NewRecorder(out)
	r.log = &nemesis.Log{Now: r.rec.Now}
	r.verdict = &Verdict{Options: r.o, Dir: r.dir, Commit: cmp.Or(r.o.Built, revision()), Go: runtime.Version(), Began: time.Now()}
	e := &workload.Env{Servers: r.o.Nodes, Seed: r.o.Seed, Dir: r.dir, Tapes: &r.tapes, Scale: r.o.Scale, Rec: r.rec, Dial: r.c.Driver().Dial, TimeoutMs: sessionTimeoutMs, Time: r.o.Time}

	setup, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	if err := r.w.Setup(setup, e); err != nil {
		return fmt.Errorf("the workload %s cannot be set up: %w", r.w.Name, err)
	}
	working, cancel := context.WithTimeout(ctx, r.o.Time)
	defer cancel()
	over := make(chan struct{})
	go func() {
		defer close(over)
		nemesis.Run(working, r.world, r.nemeses, r.o.Seed, r.log)
	}()
	r.w.Run(working, e)
	cancel()
	<-over
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.heal(ctx, e)
	if ctx.Err() != nil { // what an interruption has left unfinished is no finding
		return ctx.Err()
	}
	return errors.Join(out.Flush(), r.writeFaults())
}

// heal ends all faults and checks that the cluster comes back, whole and the same everywhere.
func (r *run) heal(ctx context.Context, e *workload.Env) {
	r.c.Driver().Table().Heal()
	v := r.verdict
	defer func() { v.judgeEnds(r.c.Ends(), r.o.Nemeses) }()
	if err := r.disks.healAll(); err != nil {
		v.trouble("the disks cannot be healed: %v", err)
	}
	began := time.Now()
	limit, cancel := context.WithTimeout(ctx, r.o.recovery())
	defer cancel()
	if r.members != nil {
		if err := r.members.restore(limit); err != nil {
			v.trouble("the membership cannot be restored: %v", err)
		}
	}
	if err := r.c.StartAll(limit); err != nil {
		v.trouble("after the last fault the cluster does not come back within %v: %v", r.o.recovery(), err)
		return
	}
	if err := r.w.Final(limit, e); err != nil {
		v.trouble("after the last fault the workload cannot read what is left: %v", err)
		return
	}
	v.Recovery = time.Since(began)
	v.measure(r)
	r.compareDigests(ctx, e)
	for a := 1; a <= r.o.Nodes; a++ {
		for b := a + 1; b <= r.o.Nodes; b++ {
			if !r.c.Driver().Carried(a, b) {
				v.trouble("servers %d and %d have spoken past the network of the test: its faults show nothing", a, b)
			}
		}
	}
}

func (r *run) writeFaults() error {
	f, err := os.Create(filepath.Join(r.dir, "faults.jsonl"))
	if err != nil {
		return err
	}
	enc := json.NewEncoder(f)
	for _, x := range r.log.Faults() {
		if err := enc.Encode(&x); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return f.Close()
}

// keepFrames writes what the test client has sent and received last, on each connection.
func (r *run) keepFrames() error {
	f, err := os.Create(filepath.Join(r.dir, "frames.txt.gz"))
	if err != nil {
		return err
	}
	z := gzip.NewWriter(f)
	return errors.Join(r.tapes.Write(z, r.rec.Start()), z.Close(), f.Close())
}

func (r *run) tearDown() error {
	var err error
	if r.c != nil {
		err = r.c.Close()
	}
	return errors.Join(err, r.disks.close(), r.points.close())
}
