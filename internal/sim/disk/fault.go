package disk

import (
	"errors"
	"path/filepath"
	"time"
)

// An Op is a kind of operation, for counting and for faults.
type Op uint8

// The kinds; those up to OpSyncDir change something. Opening an existing file is OpOpen,
// one that is made by it is OpOpen and then OpCreate. Preallocate is an OpTruncate.
const (
	OpAny Op = iota // in a Fault: every kind
	OpCreate
	OpWrite
	OpTruncate
	OpSync
	OpRename
	OpRemove
	OpMkdir
	OpSyncDir
	OpOpen
	OpRead
	OpReadDir
	OpStat
)

var opNames = [...]string{
	"any", "create", "write", "truncate", "sync", "rename", "remove", "mkdir", "syncdir",
	"open", "read", "readdir", "stat",
}

func (op Op) String() string { return opNames[op] }

// Mutates says whether the operation changes anything or makes it durable.
func (op Op) Mutates() bool { return op >= OpCreate && op <= OpSyncDir }

// ErrPowerCut is what every operation returns after PowerCut.
var ErrPowerCut = errors.New("disk: the power is cut")

// A Fault says which operations go wrong, and how.
type Fault struct {
	Op   Op     // OpAny: every mutating operation
	Base string // pattern of filepath.Match for the last component of the name; "": any
	N    int    // from the N-th matching operation on, counted from 1 (0 is 1)
	For  int    // so many operations; 0: one, -1: for ever

	Err   error         // what it returns; nil: it is only slow
	Short int           // of a write: so many bytes are written before Err; Preallocate grows by as many
	Delay time.Duration // it takes so long
	Cut   bool          // the power is cut there: as PowerCut, and Err is ErrPowerCut
}

type armedFault struct {
	Fault
	seen int
}

// shortError carries how much of a write gets through before it fails.
type shortError struct {
	error
	short int
}

func (e shortError) Unwrap() error { return e.error }

// Inject arms a fault. Several may be armed; the first that matches counts.
func (d *Disk) Inject(f Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = append(d.faults, &armedFault{Fault: f})
}

// Failures is how many operations have failed because of a Fault or for lack of space.
func (d *Disk) Failures() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failures
}

// Heal disarms all faults.
func (d *Disk) Heal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = nil
}

// enter begins an operation: it counts it, and fails if the power is cut or a fault says
// so. Called with mu held; a slow operation lets go of it while it waits.
func (d *Disk) enter(op Op, name string) error {
	if d.cut {
		return ErrPowerCut
	}
	if op.Mutates() {
		if d.observe != nil {
			d.observe(Boundary{Op: op, Name: name, disk: d})
		}
		d.ops++
	}
	for _, f := range d.faults {
		if !f.hits(op, name) {
			continue
		}
		if f.Delay > 0 {
			if err := d.wait(f.Delay); err != nil {
				return err
			}
		}
		if f.Cut || f.Err != nil {
			d.failures++
		}
		if f.Cut {
			d.cut = true
			return shortError{ErrPowerCut, f.Short}
		}
		if f.Err != nil {
			return shortError{f.Err, f.Short}
		}
		return nil
	}
	return nil
}

// wait lets time pass for an operation. Called with mu held, which it lets go of meanwhile. The
// power can be cut before it is over: then the operation has not succeeded.
func (d *Disk) wait(delay time.Duration) error {
	d.mu.Unlock()
	d.Sleep(delay)
	d.mu.Lock()
	if d.cut {
		return ErrPowerCut
	}
	return nil
}

// hits says whether the fault concerns this operation, and counts.
func (f *armedFault) hits(op Op, name string) bool {
	if op != f.Op && (f.Op != OpAny || !op.Mutates()) {
		return false
	}
	if f.Base != "" {
		if ok, _ := filepath.Match(f.Base, filepath.Base(name)); !ok {
			return false
		}
	}
	f.seen++
	first, count := max(f.N, 1), f.For
	if count == 0 {
		count = 1
	}
	return f.seen >= first && (count < 0 || f.seen < first+count)
}

// shortened is how much of a write of n bytes gets through an error.
func (d *Disk) shortened(err error, n int) int {
	var s shortError
	if errors.As(err, &s) {
		return min(s.short, n)
	}
	return 0
}
