package nemesis

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"syscall"
	"time"
)

const groupResources = "resources"

// resources take from processes what the system gives them.
func resources() []Nemesis {
	return []Nemesis{
		{Name: "cpu", Doc: "5 to 20 % of a processor for one, the leader or all", group: groupResources, longest: 4 * time.Second, machine: noGroup("cpu"), inject: lessCPU},
		{Name: "memory", Doc: "hardly more memory than a server has already; the system may kill it", group: groupResources, longest: 3 * time.Second, machine: noGroup("memory"), inject: lessMemory},
		{Name: "fds", Doc: "hardly more file descriptors than a server has open", group: groupResources, longest: 3 * time.Second, machine: noLimits, inject: fewerFiles},
		{
			Name: "log-block", Doc: "nobody reads what a server logs, and the pipe is full", group: groupResources, longest: 4 * time.Second, machine: noLimits, inject: blockLog,
			needs: func(w *World) string {
				if !w.Cluster.PipesLogs() {
					return "needs servers that log into a pipe"
				}
				return ""
			},
		},
	}
}

// limited restrains the processes of servers, and has each let go when the fault ends.
func limited(w *World, role string, servers []int, restrain func(server, pid int) (release func() error, err error)) (fault, error) {
	var release []func() error
	for _, i := range servers {
		pid := w.Cluster.PID(i)
		if pid == 0 {
			continue
		}
		// A process that has just ended cannot be restrained, which is no finding; that it has may
		// not be known here yet.
		if f, err := restrain(i, pid); err == nil {
			release = append(release, f)
		} else if w.Cluster.PID(i) == pid && !errors.Is(err, syscall.ESRCH) && !errors.Is(err, fs.ErrNotExist) {
			return fault{role, servers, nil}, err
		}
	}
	return fault{role, servers, func() error {
		for i, f := range release {
			if err := f(); err != nil {
				return fmt.Errorf("server %d keeps its limits: %w", servers[i], err)
			}
		}
		return start(w, servers) // whoever has ended by it
	}}, nil
}

func lessCPU(w *World, r *rand.Rand) (fault, error) {
	role, servers := victims(w, r, "one", "leader", "all")
	percent := 5 + r.IntN(16)
	return limited(w, fmt.Sprintf("%s: %d %%", role, percent), servers, func(server, pid int) (func() error, error) {
		return inGroup("cpu", server, pid, cpuLimit(percent))
	})
}

func lessMemory(w *World, r *rand.Rand) (fault, error) {
	role, servers := victims(w, r, "one", "leader")
	more := int64(2+r.IntN(30)) << 20
	return limited(w, fmt.Sprintf("%s: %d MiB more", role, more>>20), servers, func(server, pid int) (func() error, error) {
		used, err := resident(pid)
		if err != nil {
			return nil, err
		}
		return inGroup("memory", server, pid, memoryLimit(used+more))
	})
}

func fewerFiles(w *World, r *rand.Rand) (fault, error) {
	role, servers := victims(w, r, "one", "leader")
	more := r.IntN(12)
	return limited(w, fmt.Sprintf("%s: %d more", role, more), servers, func(_, pid int) (func() error, error) { return limitFiles(pid, more) })
}

func blockLog(w *World, r *rand.Rand) (fault, error) {
	role, servers := victims(w, r, "one", "leader", "all")
	for _, i := range servers {
		w.Cluster.BlockLog(i)
	}
	return fault{role, servers, func() error {
		for _, i := range servers {
			w.Cluster.UnblockLog(i)
		}
		return nil
	}}, nil
}
