package sim

import (
	"errors"
	"flag"
	"fmt"
	"testing"

	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/wire"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "run this seed alone (0: the fixed ones)")
	seedsFlag = flag.Int("seeds", 0, "run so many seeds, from -seed or 1 on")
	stepsFlag = flag.Int("steps", 4000, "commands per seed")
	modelFlag = flag.Bool("model", true, "compare with the model too")
)

// seeds are those that the flags ask for; the fixed ones are the first few.
func seeds() []uint64 {
	first, count := max(*seedFlag, 1), *seedsFlag
	switch {
	case count == 0 && *seedFlag != 0:
		count = 1
	case count == 0 && testing.Short():
		count = 4
	case count == 0:
		count = 12
	}
	list := make([]uint64, count)
	for i := range list {
		list[i] = first + uint64(i)
	}
	return list
}

// TestReplicasAndModelAgree is level A. A failure prints how to replay it and the few
// commands that are left when all that does not matter has been taken out.
func TestReplicasAndModelAgree(t *testing.T) {
	for _, seed := range seeds() {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Logf("seed %d", seed)
			cfg := DefaultConfig()
			cfg.Model = *modelFlag
			h := NewGenerator(seed, cfg.Replicas).History(*stepsFlag)
			stats, err := Run(cfg, h)
			t.Log(stats)
			if err != nil {
				report(t, cfg, h, seed, err)
			}
		})
	}
}

func report(t *testing.T, cfg Config, h *History, seed uint64, err error) {
	t.Helper()
	small := Shrink(cfg, h, 600)
	_, smallErr := Run(cfg, small)
	t.Fatalf("seed %d fails: %v\nreplay: go test ./internal/sim -run TestReplicasAndModelAgree -seed=%d -steps=%d -model=%v\n"+
		"shrunk from %d to %d commands, which fail with: %v\n%s",
		seed, err, seed, *stepsFlag, *modelFlag, h.Commands(), small.Commands(), smallErr, small)
}

func TestEqualSeedsGiveEqualHistories(t *testing.T) {
	a, b := NewGenerator(7, 3).History(2000), NewGenerator(7, 3).History(2000)
	if a.String() != b.String() {
		t.Error("two generators of one seed draw different histories")
	}
	if a.String() == NewGenerator(8, 3).History(2000).String() {
		t.Error("generators of different seeds draw the same history")
	}
}

// A history is worth little if all its commands fail, or fail for the same reason.
func TestHistoriesReachEveryOutcome(t *testing.T) {
	cfg := DefaultConfig()
	var applied, failed, refused, commands int
	codes := map[OpResult]int{}
	for seed := range uint64(6) {
		stats, err := Run(cfg, NewGenerator(seed+1, cfg.Replicas).History(4000))
		if err != nil && !errors.As(err, new(*Failure)) {
			t.Fatal(err)
		}
		applied, failed, refused = applied+stats.Applied, failed+stats.Failed, refused+stats.Refused
		commands += stats.Commands
		for k, n := range stats.Codes {
			codes[k] += n
		}
		if stats.Snapshots < 15 || stats.Restores < 15 || stats.Events < 500 || stats.Multis-stats.FailedMultis < stats.Multis/5 {
			t.Errorf("seed %d has too little of something: %v", seed+1, stats)
		}
	}
	if applied < commands/4 || failed < commands/5 || refused < commands/50 {
		t.Errorf("of %d commands %d are applied, %d fail and %d are refused", commands, applied, failed, refused)
	}
	for op, want := range wantedCodes {
		for _, code := range want {
			if codes[OpResult{op, code}] == 0 {
				t.Errorf("no %v ends with %v", op, code)
			}
		}
	}
}

// wantedCodes is what each opcode must have come to now and then.
var wantedCodes = func() map[wire.OpCode][]wire.Code {
	create := []wire.Code{
		wire.OK, wire.BadArguments, wire.MarshallingError, wire.InvalidACL, wire.NoNode, wire.NoAuth,
		wire.NodeExists, wire.NoChildrenForEphemerals, wire.QuotaExceeded,
	}
	return map[wire.OpCode][]wire.Code{
		wire.OpCreate: create, wire.OpCreate2: create, wire.OpCreateTTL: append(create, wire.Unimplemented),
		wire.OpCreateContainer: {wire.OK, wire.BadArguments, wire.InvalidACL, wire.NoNode, wire.NoAuth, wire.NodeExists},
		wire.OpDelete:          {wire.OK, wire.BadArguments, wire.MarshallingError, wire.NoNode, wire.NoAuth, wire.BadVersion, wire.NotEmpty},
		wire.OpSetData:         {wire.OK, wire.BadArguments, wire.MarshallingError, wire.NoNode, wire.NoAuth, wire.QuotaExceeded, wire.BadVersion},
		wire.OpSetACL:          {wire.OK, wire.BadArguments, wire.MarshallingError, wire.InvalidACL, wire.NoNode, wire.NoAuth, wire.BadVersion},
		wire.OpCheck:           {wire.OK, wire.Unimplemented},
		wire.OpMulti:           {wire.OK, wire.MarshallingError},
		wire.OpReconfig: {
			wire.OK, wire.ReconfigDisabled, wire.Unimplemented, wire.ReconfigInProgress, wire.BadVersion, wire.BadArguments,
			wire.NoAuth, wire.MarshallingError,
		},
		wire.OpError: {wire.OK, wire.RuntimeInconsistency, wire.BadVersion, wire.NoNode, wire.NodeExists, wire.NotEmpty, wire.QuotaExceeded},
	}
}()

// The numbers of sequential nodes end at 2^31-1; what comes then is an error, and nobody
// gets a number twice.
func TestHistoriesUseSequenceNumbersUp(t *testing.T) {
	cfg := DefaultConfig()
	h := &History{Batches: []Batch{{NewTerm: true, Steps: []Step{{Kind: state.KindCreateSession}}}}}
	for range 5 {
		h.Batches = append(h.Batches, Batch{Steps: []Step{{
			Kind: state.KindWrite,
			Op:   Op{Code: wire.OpCreate, Path: spentPath + "/", ACL: openACL, Flags: wire.FlagPersistentSequential},
		}}})
	}
	stats, err := Run(cfg, h)
	if err != nil {
		t.Fatal(err)
	}
	if ok, spent := stats.Codes[OpResult{wire.OpCreate, wire.OK}], stats.Codes[OpResult{wire.OpCreate, wire.BadArguments}]; ok != 3 || spent != 2 {
		t.Errorf("%d numbers were given and %d refused, want 3 and 2", ok, spent)
	}
}

// When the counter of an epoch is used up, the next epoch begins without an election.
func TestHistoriesCrossTheEndOfAnEpoch(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Zxid = 5<<32 | 0xffffffff - 100
	cfg.New = func(int) Machine { return NewReal(cfg.Zxid) }
	h := NewGenerator(1, cfg.Replicas).History(1000)
	for i := range h.Batches {
		h.Batches[i].NewTerm = false
	}
	if _, err := Run(cfg, h); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkReplicas is what three replicas carry out without the model, with a snapshot,
// restart or install every hundred entries or every dozen.
func BenchmarkReplicas(b *testing.B) {
	for _, every := range []int{100, 12} {
		b.Run(fmt.Sprintf("every=%d", every), func(b *testing.B) {
			cfg := DefaultConfig()
			cfg.Model, cfg.FullEvery = false, 0
			g := NewGenerator(1, cfg.Replicas)
			g.ActEvery = every
			h := g.History(100_000)
			var total Stats
			for b.Loop() {
				stats, err := Run(cfg, h)
				if err != nil {
					b.Fatal(err)
				}
				total.Entries += stats.Entries
				total.Commands += stats.Commands
				total.Replayed += stats.Replayed
			}
			seconds := b.Elapsed().Seconds()
			b.ReportMetric(float64(total.Commands)/seconds, "commands/s")
			b.ReportMetric(float64(total.Entries)/seconds, "entries/s")
			b.ReportMetric(float64(cfg.Replicas*total.Entries+total.Replayed)/seconds, "applied-entries/s")
		})
	}
}

// BenchmarkModel is the same with the model.
func BenchmarkModel(b *testing.B) {
	cfg := DefaultConfig()
	h := NewGenerator(1, cfg.Replicas).History(20_000)
	commands := 0
	for b.Loop() {
		stats, err := Run(cfg, h)
		if err != nil {
			b.Fatal(err)
		}
		commands += stats.Commands
	}
	b.ReportMetric(float64(commands)/b.Elapsed().Seconds(), "commands/s")
}
