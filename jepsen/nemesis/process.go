package nemesis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

func processes() []Nemesis {
	return []Nemesis{
		{Name: "kill", Doc: "kill -9 one, the leader, a majority or all", group: groupProcess, longest: 3 * time.Second, inject: kill},
		{Name: "pause", Doc: "stop and continue one, the leader or a majority", group: groupProcess, longest: 6 * time.Second, inject: stall},
		{Name: "restart", Doc: "an orderly end and a new start", group: groupProcess, longest: time.Second, inject: restart},
		{Name: "rolling", Doc: "restart all, one after the other", group: groupProcess, longest: 100 * time.Millisecond, inject: rolling},
		{Name: "crash-loop", Doc: "kill -9 a server again and again, before it is ready", group: groupProcess, longest: 100 * time.Millisecond, inject: crashLoop},
		{Name: "blackout", Doc: "all servers go down together, with their power where they have disks of their own, and come back, again and again", group: groupProcess, longest: 100 * time.Millisecond, inject: blackout},
		{Name: "lag", Doc: "a follower is away for so long that it needs a snapshot when it comes back", group: groupProcess, longest: 8 * time.Second, inject: lag},
	}
}

func kill(w *World, r *rand.Rand) (fault, error) {
	role, servers := victims(w, r, "one", "leader", "leader", "majority", "all")
	for _, i := range servers {
		w.Cluster.Kill(i)
	}
	return fault{role, servers, func() error { return start(w, servers) }}, nil
}

func start(w *World, servers []int) error {
	var err error
	for _, i := range servers {
		err = errors.Join(err, w.Cluster.Start(i))
	}
	return err
}

func stall(w *World, r *rand.Rand) (fault, error) {
	role, servers := victims(w, r, "one", "leader", "leader", "majority")
	for _, i := range servers {
		w.Cluster.Pause(i)
	}
	return fault{role, servers, func() error {
		for _, i := range servers {
			w.Cluster.Resume(i)
		}
		return nil
	}}, nil
}

func restart(w *World, r *rand.Rand) (fault, error) {
	role, servers := victims(w, r, "one", "leader", "majority", "all")
	var err error
	for _, i := range servers {
		err = errors.Join(err, w.Cluster.Stop(i))
	}
	return fault{role, servers, func() error { return start(w, servers) }}, err
}

// rolling is over when the last server serves again, or half a minute has passed.
func rolling(w *World, r *rand.Rand) (fault, error) {
	_, servers := victims(w, r, "all")
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for _, i := range servers {
		if err := w.Cluster.Stop(i); err != nil {
			return fault{"rolling", servers, nil}, err
		}
		if err := w.Cluster.Start(i); err != nil {
			return fault{"rolling", servers, nil}, err
		}
		if err := w.Cluster.AwaitAll(ctx); err != nil {
			// With other faults at work this is no finding: the end of the run judges.
			break
		}
	}
	return fault{"rolling", servers, func() error { return nil }}, nil
}

func crashLoop(w *World, r *rand.Rand) (fault, error) {
	role, servers := victims(w, r, "one", "leader", "all")
	rounds := 3 + r.IntN(6)
	for range rounds {
		for _, i := range servers {
			w.Cluster.Kill(i)
		}
		if err := start(w, servers); err != nil {
			return fault{role, servers, nil}, err
		}
		time.Sleep(time.Duration(r.IntN(120)) * time.Millisecond)
	}
	return fault{fmt.Sprintf("%s, %d times", role, rounds), servers, func() error { return nil }}, nil
}

// blackout is over when all serve again, or half a minute has passed: then the end of the run
// judges.
func blackout(w *World, r *rand.Rand) (fault, error) {
	_, servers := victims(w, r, "all")
	what := "processes"
	if w.Disks != nil && r.IntN(2) == 0 {
		what = "power"
	}
	rounds := 1 + r.IntN(2)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for range rounds {
		var err error
		for _, i := range servers {
			w.Cluster.Kill(i)
		}
		for _, i := range servers {
			if what == "power" {
				err = errors.Join(err, w.Disks.PowerCut(i))
			}
		}
		if err = errors.Join(err, start(w, servers)); err != nil {
			return fault{what, servers, nil}, err
		}
		if w.Cluster.AwaitAll(ctx) != nil {
			break
		}
		time.Sleep(time.Duration(50+r.IntN(400)) * time.Millisecond)
	}
	return fault{fmt.Sprintf("%s of all, %d times", what, rounds), servers, func() error { return nil }}, nil
}

func lag(w *World, r *rand.Rand) (fault, error) {
	_, all := victims(w, r, "all")
	leader := w.Cluster.Leader()
	all = slices.DeleteFunc(all, func(i int) bool { return i == leader })
	one := all[:1]
	w.Cluster.Kill(one[0])
	return fault{"a follower", one, func() error {
		if err := start(w, one); err != nil {
			return err
		}
		// The next one is spared until this one serves again; the end of the run judges whether.
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		_ = w.Cluster.AwaitAll(ctx)
		return nil
	}}, nil
}
