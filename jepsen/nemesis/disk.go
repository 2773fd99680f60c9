package nemesis

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Faults of disks are of the group of processes: a power cut ends processes.
func disks() []Nemesis {
	own := func(w *World) string {
		if w.Disks == nil {
			return "needs file systems of its own (root on Linux with loop devices)"
		}
		return ""
	}
	return []Nemesis{
		{Name: "full", Doc: "no room on the disk of one, the leader or all", group: groupProcess, longest: 5 * time.Second, needs: own, inject: full},
		{Name: "power", Doc: "the power fails at one, a majority or all: what was not synced is lost", group: groupProcess, longest: 500 * time.Millisecond, needs: own, inject: power},
		{Name: "read-only", Doc: "the file system of one, the leader or all finds an error in itself and can only be read, until it is repaired", group: groupProcess, longest: 4 * time.Second, needs: own, inject: readOnly},
		{
			Name: "clock", Doc: "wall clocks jump by up to an hour, each its own way", group: "clock", longest: 3 * time.Second, inject: clock,
			needs: func(w *World) string {
				if w.Clock == nil {
					return "needs servers that are built with a clock that can be shifted"
				}
				return ""
			},
		},
	}
}

func full(w *World, r *rand.Rand) (fault, error) {
	role, servers := victims(w, r, "one", "leader", "all")
	var err error
	for _, i := range servers {
		err = errors.Join(err, w.Disks.Fill(i))
	}
	return fault{role, servers, func() error {
		var err error
		for _, i := range servers {
			err = errors.Join(err, w.Disks.Empty(i))
		}
		// Whoever gave up when its disk was full comes back.
		return errors.Join(err, start(w, servers))
	}}, err
}

func power(w *World, r *rand.Rand) (fault, error) {
	role, servers := victims(w, r, "one", "leader", "majority", "all")
	var err error
	for _, i := range servers {
		w.Cluster.Kill(i)
	}
	for _, i := range servers {
		err = errors.Join(err, w.Disks.PowerCut(i))
	}
	return fault{role, servers, func() error { return start(w, servers) }}, err
}

func readOnly(w *World, r *rand.Rand) (fault, error) {
	role, servers := victims(w, r, "one", "leader", "leader", "all")
	var aborted error
	for _, i := range servers {
		aborted = errors.Join(aborted, w.Disks.Abort(i))
	}
	return fault{role, servers, func() error {
		err := aborted // told here, so that those that were aborted are mended
		for _, i := range servers {
			w.Cluster.Kill(i) // whoever had nothing to write has not noticed
			if e := w.Disks.Mend(i); e != nil {
				err = errors.Join(err, e)
				continue // below it is a folder without data
			}
			err = errors.Join(err, w.Cluster.Start(i))
		}
		return err
	}}, nil
}

func clock(w *World, r *rand.Rand) (fault, error) {
	_, servers := victims(w, r, "all", "one")
	var err error
	what := ""
	for _, i := range servers {
		by := time.Duration(r.Int64N(int64(2*time.Hour))) - time.Hour
		if r.IntN(2) == 0 {
			by /= 600 // seconds, about as long as sessions live
		}
		what += fmt.Sprintf(" %v", by.Round(time.Millisecond))
		err = errors.Join(err, w.Clock(i, by))
	}
	return fault{"by" + what, servers, func() error {
		if r.IntN(2) == 0 {
			return nil // it stays as it is until the next jump
		}
		var err error
		for _, i := range servers {
			err = errors.Join(err, w.Clock(i, 0))
		}
		return err
	}}, err
}
