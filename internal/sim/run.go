package sim

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"io"

	"github.com/zkd-project/zkd/internal/sim/model"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/wire"
)

// Config says how a history is carried out.
type Config struct {
	Replicas int
	Slots    int   // sessions
	Model    bool  // compare with the model too
	Zxid     int64 // the last one before the log: what New's machines start with
	// FullEvery: the whole machine is compared with the model after so many batches, and
	// at the end.
	FullEvery int

	// New and Restore make the machine of a replica.
	New     func(replica int) Machine
	Restore func(replica int, r io.Reader) (Machine, error)
}

// DefaultConfig is three real replicas compared with the model.
func DefaultConfig() Config {
	return Config{
		Replicas: 3, Slots: 5, Model: true, FullEvery: 40,
		New:     func(int) Machine { return NewReal(0) },
		Restore: func(_ int, r io.Reader) (Machine, error) { return RestoreReal(r) },
	}
}

// A Failure says where replicas, or machine and model, have parted.
type Failure struct {
	Batch   int
	Step    int // within the batch; -1: after all
	Replica int
	Kind    string // what has gone wrong, in a word or two: equal for equal causes
	What    string // all about it
}

// Error implements error.
func (f *Failure) Error() string {
	return fmt.Sprintf("batch %d, step %d, replica %d: %s: %s", f.Batch, f.Step, f.Replica, f.Kind, f.What)
}

// Stats counts what a run has done.
type Stats struct {
	Entries, Commands          int
	Snapshots, Restores        int
	Replayed                   int // entries applied again after a restore
	During                     int // entries applied while a snapshot was written
	Applied, Failed, Refused   int // outcomes; refused is everything that answers no client
	Multis, FailedMultis       int
	Events, Reads, Comparisons int

	// Codes counts results of writes, also of those inside a multi.
	Codes map[OpResult]int
}

// String is the counts in a line, without the codes.
func (s Stats) String() string {
	s.Codes = nil
	type plain Stats
	return fmt.Sprintf("%+v", plain(s))
}

// OpResult is an opcode and what came of it.
type OpResult struct {
	Op   wire.OpCode
	Code wire.Code
}

// runner carries out one history.
type runner struct {
	cfg      Config
	h        *History
	world    *world
	model    *model.Model
	replicas []*replica
	next     int // the batch that comes
	acted    int // batches whose actions have been done
	log      []logEntry
	dropped  int // entries that are no longer in log
	stats    Stats
	steps    []state.Command // of the current batch
	hash     hasher
	failure  error
}

// logEntry is an entry as it is in the log, and what came of it: for replays.
type logEntry struct {
	data    []byte
	term    uint64
	results uint64 // hash of all results and the digest
}

// Run carries out a history. The error is a *Failure if replicas, or machine and model,
// have parted; a machine that panics is a failure too.
func Run(cfg Config, h *History) (stats Stats, err error) {
	r := &runner{cfg: cfg, h: h, world: newWorld(cfg.Slots)}
	r.stats.Codes = map[OpResult]int{}
	r.hash.seed = maphash.MakeSeed()
	if cfg.Model {
		r.model = model.New()
		r.model.Plant(spentPath, spentCreated)
		r.model.StartAt(cfg.Zxid)
	}
	for i := range cfg.Replicas {
		r.replicas = append(r.replicas, &replica{id: i, machine: cfg.New(i)})
	}
	defer func() {
		stats = r.stats
		if p := recover(); p != nil {
			err = &Failure{Batch: r.next, Step: -1, Replica: -1, Kind: "panic", What: fmt.Sprint(p)}
		}
	}()
	for r.failure == nil && r.next < len(h.Batches) {
		r.advance()
	}
	if r.failure == nil {
		r.compareAll()
	}
	return r.stats, r.failure
}

func (r *runner) fail(step, replica int, kind, format string, args ...any) {
	if r.failure == nil {
		r.failure = &Failure{Batch: r.next, Step: step, Replica: replica, Kind: kind, What: fmt.Sprintf(format, args...)}
	}
}

// advance carries out the next batch. A slow snapshot that is due before it advances by
// itself while it is written.
func (r *runner) advance() {
	at := r.next
	if at >= len(r.h.Batches) || r.failure != nil {
		return
	}
	if r.acted <= at {
		r.acted = at + 1
		for _, a := range r.h.Batches[at].Actions {
			r.act(a)
		}
		if r.next != at || r.failure != nil {
			return
		}
	}
	b := &r.h.Batches[at]
	header := r.world.begin(b)
	r.apply(header, r.encode(header, b))
	if r.failure == nil {
		r.read(b)
	}
	if r.failure == nil && r.cfg.FullEvery > 0 && at%r.cfg.FullEvery == r.cfg.FullEvery-1 {
		r.compareAll()
	}
	if r.failure == nil {
		r.next++
	}
}

// encode makes the log entry of a batch.
func (r *runner) encode(header *state.BatchHeader, b *Batch) []byte {
	r.steps = r.steps[:0]
	for i := range b.Steps {
		r.steps = append(r.steps, r.world.command(&b.Steps[i]))
	}
	entry := state.AppendHeader(nil, header, len(r.steps))
	for i := range r.steps {
		entry = state.AppendCommand(entry, &r.steps[i])
	}
	return entry
}

// apply puts an entry into the log and applies it everywhere.
func (r *runner) apply(header *state.BatchHeader, data []byte) {
	e := logEntry{data: data, term: header.Term}
	if r.model != nil {
		r.model.BeginBatch(header)
	}
	for _, rep := range r.replicas {
		hash := r.applyEntry(rep, &e, rep.id == 0)
		switch {
		case r.failure != nil:
			return
		case rep.id == 0:
			e.results = hash
		case hash != e.results:
			r.fail(-1, rep.id, "divergence", "results or digest differ from those of replica 0")
			return
		}
	}
	r.log = append(r.log, e)
	r.stats.Entries++
	r.stats.Commands += len(r.steps)
}

// applyEntry applies an entry to one replica and returns the hash of all that came of it.
// If it is the leading replica, its results are compared with the model.
func (r *runner) applyEntry(rep *replica, e *logEntry, leading bool) uint64 {
	h := state.BatchHeader{Term: e.term}
	if err := rep.decoder.Reset(e.data, &h); err != nil {
		r.fail(-1, rep.id, "decoding", "%v", err)
		return 0
	}
	r.hash.reset()
	rep.machine.BeginBatch(&h)
	var c state.Command
	for i := 0; rep.decoder.Next(&c); i++ {
		rep.machine.Apply(&h, &c, &rep.result)
		r.hash.result(&rep.result)
		if leading {
			r.lead(i, &c, &rep.result)
		}
		if r.failure != nil {
			return 0
		}
	}
	if err := rep.decoder.Err(); err != nil {
		r.fail(-1, rep.id, "decoding", "%v", err)
	}
	r.hash.int(int64(rep.machine.Digest()))
	return r.hash.sum()
}

// lead looks at a result of replica 0.
func (r *runner) lead(i int, c *state.Command, got *state.Result) {
	r.world.saw(got)
	r.count(c, got)
	if r.model == nil {
		return
	}
	want := r.model.Apply(&r.steps[i]) // not the decoded one: the codec is under test too
	if field, diff := differences(got, &want); diff != "" {
		r.fail(i, 0, "model, "+field, "%v: machine and model differ\n%s", r.h.Batches[r.next].Steps[i], diff)
	}
}

func (r *runner) count(c *state.Command, res *state.Result) {
	switch res.Outcome {
	case state.Applied:
		r.stats.Applied++
	case state.Failed:
		r.stats.Failed++
	default:
		r.stats.Refused++
	}
	if c.Kind == state.KindWrite && (res.Outcome == state.Applied || res.Outcome == state.Failed) {
		r.stats.Codes[OpResult{c.Op, res.Code}]++
	}
	if n := len(res.Multi); n > 0 {
		r.stats.Multis++
		if res.Multi[n-1].Code != 0 {
			r.stats.FailedMultis++
		}
		for i := range res.Multi {
			r.stats.Codes[OpResult{res.Multi[i].Op, res.Multi[i].Code}]++
		}
	}
	r.stats.Events += len(res.Events)
}

// read has all replicas answer the reads of a batch.
func (r *runner) read(b *Batch) {
	for i := range b.Reads {
		rd := &b.Reads[i]
		path := r.world.pathOr(rd.Recent, rd.Path)
		r.stats.Reads++
		first, code := r.replicas[0].machine.Answer(nil, rd, path)
		for _, rep := range r.replicas[1:] {
			if got, c := rep.machine.Answer(nil, rd, path); c != code || !bytes.Equal(got, first) {
				r.fail(-1, rep.id, "read", "%v of %q by %v: %v %q, on replica 0 %v %q", rd.Op, path, rd.IDs, c, got, code, first)
			}
		}
		if r.model == nil {
			continue
		}
		if want, c := modelAnswer(r.model, nil, rd, path); c != code || !bytes.Equal(want, first) {
			r.fail(-1, 0, "read, model", "%v of %q by %v: machine %v %q, model %v %q", rd.Op, path, rd.IDs, code, first, c, want)
		}
	}
}

// compareAll compares everything there is.
func (r *runner) compareAll() {
	r.stats.Comparisons++
	for _, rep := range r.replicas {
		var err error
		if r.model != nil {
			err = compareAll(rep.machine, r.model)
		} else {
			err = rep.machine.Real().Check()
		}
		if err != nil {
			r.fail(-1, rep.id, "comparison", "%v", err)
		}
	}
}

// act carries out what a replica does besides applying.
func (r *runner) act(a Action) {
	rep := r.replicas[a.Replica%len(r.replicas)]
	if rep.writing {
		return // a snapshot at a time, and no restart meanwhile
	}
	switch a.Kind {
	case TakeSnapshot:
		r.snapshot(rep, 0)
	case TakeSlowSnapshot:
		r.snapshot(rep, a.Batches)
	case Restart:
		r.restart(rep, rep.snapshot, rep.index)
	case Install:
		from := r.replicas[a.From%len(r.replicas)]
		if from.snapshot != nil {
			r.restart(rep, from.snapshot, from.index)
			rep.snapshot, rep.index = from.snapshot, from.index
		}
	}
	r.trim()
}

// snapshot writes a snapshot of the replica while as many batches are applied.
func (r *runner) snapshot(rep *replica, batches int) {
	var b bytes.Buffer
	index := r.dropped + len(r.log)
	rep.writing = true
	err := rep.machine.WriteSnapshot(&b, func() {
		for range min(batches, 3) { // a small tree is written in few pieces
			batches--
			before := r.stats.Entries
			r.advance()
			r.stats.During += r.stats.Entries - before
		}
	})
	rep.writing = false
	if err != nil {
		r.fail(-1, rep.id, "snapshot", "%v", err)
		return
	}
	rep.snapshot, rep.index = b.Bytes(), index
	r.stats.Snapshots++
}

// restart puts a replica back to a snapshot and applies again what came after it, with the
// same results.
func (r *runner) restart(rep *replica, snapshot []byte, index int) {
	var err error
	if snapshot == nil {
		rep.machine = r.cfg.New(rep.id)
	} else if rep.machine, err = r.cfg.Restore(rep.id, bytes.NewReader(snapshot)); err != nil {
		r.fail(-1, rep.id, "restore", "snapshot at entry %d: %v", index, err)
		return
	}
	r.stats.Restores++
	for i := index - r.dropped; i < len(r.log); i++ {
		r.stats.Replayed++
		if hash := r.applyEntry(rep, &r.log[i], false); r.failure == nil && hash != r.log[i].results {
			r.fail(-1, rep.id, "replay", "from a snapshot at entry %d: entry %d gives other results or another digest than the first time",
				index, r.dropped+i)
			return
		}
	}
	if got, want := rep.machine.Digest(), r.replicas[(rep.id+1)%len(r.replicas)].machine.Digest(); got != want && r.failure == nil {
		r.fail(-1, rep.id, "replay", "the digest after a restart from a snapshot at entry %d differs", index)
	}
}

// trim drops the entries that every replica has in its snapshot.
func (r *runner) trim() {
	lowest := r.dropped + len(r.log)
	for _, rep := range r.replicas {
		lowest = min(lowest, rep.index)
	}
	if n := lowest - r.dropped; n > 1000 {
		r.log = append([]logEntry(nil), r.log[n:]...)
		r.dropped += n
	}
}
