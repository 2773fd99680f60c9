package crash

import (
	"errors"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/internal/sim/disk"
)

// lastOps are operations that take several steps on the disk.
var lastOps = []struct {
	name string
	do   func(l *logLife) error
}{
	{"store into a new segment", func(l *logLife) error {
		b := append(l.batch(), l.batch()...)
		for i, e := range b {
			e.Index, e.Data = l.next()+uint64(i), make([]byte, 1500)
		}
		l.tried = append(slices.Clone(l.acked), b...)
		return l.log.StoreLogs(b)
	}},
	{"delete in front", func(l *logLife) error {
		k := len(l.acked) * 3 / 4
		l.tried = slices.Clone(l.acked[k:])
		l.everLowest = l.tried[0].Index
		return l.log.DeleteRange(l.acked[0].Index, l.acked[k-1].Index)
	}},
	{"delete at the end", func(l *logLife) error {
		k := len(l.acked) / 4
		l.tried = slices.Clone(l.acked[:k])
		return l.log.DeleteRange(l.acked[k].Index, l.acked[len(l.acked)-1].Index)
	}},
	{"delete all", func(l *logLife) error {
		l.tried = nil
		l.everLowest = l.acked[len(l.acked)-1].Index + 1
		return l.log.DeleteRange(l.acked[0].Index, l.acked[len(l.acked)-1].Index)
	}},
	{"close", func(l *logLife) error { return l.log.Close() }},
}

// severalSegments is a log that fills some files.
func severalSegments(t *testing.T) *logLife {
	t.Helper()
	l := newLife(t, 5)
	for range 14 {
		b := l.batch()
		if err := l.log.StoreLogs(b); err != nil {
			t.Fatal(err)
		}
		l.acked = append(l.acked, b...)
		l.tried = l.acked
	}
	if files, err := l.d.ReadDir(logDir); err != nil || len(files) < 4 {
		t.Fatalf("%d files (%v), want several", len(files), err)
	}
	return l
}

// A process is killed in the middle of an operation, the next one while it opens the log,
// and then the power fails: every combination of the three.
func TestCrashDuringTheRecoveryFromAKill(t *testing.T) {
	for _, op := range lastOps {
		t.Run(op.name, func(t *testing.T) {
			combinations := 0
			for n := 1; ; n++ {
				l := severalSegments(t)
				l.d.Inject(disk.Fault{N: n, Cut: true, Short: n * 311})
				err := op.do(l)
				if err != nil && !errors.Is(err, disk.ErrPowerCut) {
					t.Fatal(err)
				}
				killed := l.d.AfterKill()
				for m := 1; ; m++ {
					image := killed.AfterKill()
					image.Inject(disk.Fault{N: m, Cut: true, Short: m * 173})
					l.d = image
					reopened := l.open()
					for seed := range uint64(8) {
						combinations++
						if lost := l.recovered(image.AfterCrash(seed), l.acked, l.tried); lost != nil {
							t.Fatalf("killed at operation %d (%v), then at operation %d of the start (%v), then a power cut (seed %d): %v",
								n, err, m, reopened, seed, lost)
						}
					}
					if reopened == nil {
						break
					}
				}
				if err == nil {
					break
				}
			}
			t.Logf("%d combinations", combinations)
		})
	}
}
