package nemesis

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"syscall"
	"time"
)

// groupDisk has faults of disks that no process ends by: they may come together with those that do.
const groupDisk = "disk"

// injected are the faults that a server does to itself at a named point; see internal/failpoint.
// Points of the disk are named "disk.FOLDER.OPERATION".
func injected() []Nemesis {
	needs := func(w *World) string {
		if w.Points == nil {
			return "needs servers that are built with failpoints"
		}
		return ""
	}
	return []Nemesis{
		{Name: "slow-fsync", Doc: "a sync takes 5 ms to 3 s on one, the leader or all", group: groupDisk, longest: 6 * time.Second, needs: needs, inject: slowSync},
		{Name: "freeze", Doc: "a disk answers nothing for a while", group: groupDisk, longest: 2 * time.Second, needs: needs, inject: freeze},
		{Name: "eio", Doc: "reads, writes or syncs of log or snapshots fail, or write half, once or for a while, on one or the leader", group: groupProcess, longest: 2 * time.Second, needs: needs, inject: eio},
		{Name: "failpoint", Doc: "a panic, an error or a pause at a named point: before or after writing, syncing, applying, replying, installing, forwarding …", group: groupProcess, longest: 2 * time.Second, needs: needs, inject: atPoint},
	}
}

// arm has servers do something at points, and returns what ends it. A server that cannot be told,
// because it does not run just now, is left out.
func arm(w *World, servers []int, lines ...string) (heal func() error) {
	for _, i := range servers {
		for _, line := range lines {
			_ = w.Points(i, "set "+line)
		}
	}
	return func() error {
		var errs []error
		for _, i := range servers {
			errs = append(errs, disarm(w, i))
		}
		return errors.Join(errs...)
	}
}

// disarm ends what a server does at points. A process that has ended since, or was started again, has
// forgotten it; one that does not answer is busy, or has no descriptor left, and is told again: else
// it would go on after the last fault.
func disarm(w *World, server int) error {
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		err := w.Points(server, "clear")
		switch {
		case err == nil, errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
			return nil
		case time.Since(began) > time.Minute:
			return fmt.Errorf("server %d cannot be told to end its faults: %w", server, err)
		}
	}
}

func slowSync(w *World, r *rand.Rand) (fault, error) {
	role, servers := victims(w, r, "one", "leader", "minority", "all")
	d := between(r, 5*time.Millisecond, 3*time.Second)
	heal := arm(w, servers, fmt.Sprintf("disk.log.sync sleep %v", d), fmt.Sprintf("disk.snapshots.sync sleep %v", d))
	return fault{fmt.Sprintf("%s: %v", role, d), servers, heal}, nil
}

func freeze(w *World, r *rand.Rand) (fault, error) {
	role, servers := victims(w, r, "one", "leader")
	var lines []string
	for _, op := range []string{"log.write", "log.sync", "log.read", "snapshots.write", "snapshots.sync", "snapshots.read"} {
		lines = append(lines, "disk."+op+" sleep 2s")
	}
	return fault{role, servers, arm(w, servers, lines...)}, nil
}

// restarted ends a fault by which servers may have ended.
func restarted(w *World, servers []int, heal func() error) func() error {
	return func() error {
		if err := heal(); err != nil {
			return err
		}
		return start(w, servers)
	}
}

func eio(w *World, r *rand.Rand) (fault, error) {
	role, servers := victims(w, r, "one", "leader", "minority")
	folder := []string{"log", "log", "snapshots"}[r.IntN(3)]
	op := []string{"write", "write", "sync", "sync", "read", "create", "rename", "syncdir"}[r.IntN(8)]
	what := "error"
	if op == "write" && r.IntN(2) == 0 {
		what = "short"
	}
	line := fmt.Sprintf("disk.%s.%s %s", folder, op, what)
	if r.IntN(2) == 0 {
		line += " 1"
	}
	return fault{role + ": " + line, servers, restarted(w, servers, arm(w, servers, line))}, nil
}

// points are the named ones, beside those of the disk, with whether they can return an error.
var points = []struct {
	name  string
	fails bool
}{
	{"apply.before", false},
	{"apply.after", false},
	{"reply.before", false},
	{"install.before", false},
	{"install.after", false},
	{"watch.send", false},
	{"session.create", true},
	{"session.expire", true},
	{"session.close", false},
	{"forward", true},
	{"disk.log.write", false},
	{"disk.log.write.done", false},
	{"disk.log.sync", false},
	{"disk.log.sync.done", false},
	{"disk.snapshots.write", false},
	{"disk.snapshots.sync.done", false},
	{"disk.snapshots.rename", false},
	{"disk.snapshots.rename.done", false},
	{"disk.snapshots.syncdir.done", false},
	{"disk.snapshots.remove", false},
	{"disk.log.create.done", false},
	{"disk.log.remove.done", false},
	{"disk.log.truncate", false},
}

func atPoint(w *World, r *rand.Rand) (fault, error) {
	role, servers := victims(w, r, "one", "leader", "minority", "all")
	p := points[r.IntN(len(points))]
	line := p.name + " panic"
	switch k := r.IntN(3); {
	case k == 0:
		line = fmt.Sprintf("%s sleep %v %d", p.name, between(r, 20*time.Millisecond, 2*time.Second), 1+r.IntN(5))
	case k == 1 && p.fails:
		line = p.name + " error"
	}
	return fault{role + ": " + line, servers, restarted(w, servers, arm(w, servers, line))}, nil
}
