package nemesis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zkd-project/zkd/jepsen/cluster"
)

// A Fault is one that was injected.
type Fault struct {
	Kind    string `json:"kind"`
	What    string `json:"what"` // shape, targets
	Begin   int64  `json:"begin"`
	End     int64  `json:"end"`
	Targets []int  `json:"targets"`
	Err     string `json:"error,omitempty"`
}

// Groups of nemeses that would undo each other's work and therefore take turns.
const (
	groupNetwork = "network"
	groupProcess = "process"
)

// A Nemesis is one kind of fault.
type Nemesis struct {
	Name  string
	Doc   string
	group string
	// Longest is the longest duration of one fault.
	longest time.Duration
	// Needs says why the cluster cannot have this fault; "" if it can.
	needs func(w *World) string
	// machine says why this machine cannot; "" if it can.
	machine func() string
	// Alone says that no other fault may come beside it.
	Alone bool
	// Inject begins the fault and returns what it is, whom it hits and what ends it. It must
	// not wait for longer than it takes to begin.
	inject func(w *World, r *rand.Rand) (fault, error)
}

type fault struct {
	what    string
	targets []int
	heal    func() error
}

// World is what nemeses act on.
type World struct {
	Cluster *cluster.Cluster
	// Disks are the file systems of the servers; nil if they have none of their own.
	Disks Disks
	// Members changes the membership; nil if it cannot be changed.
	Members Members
	// Longest bounds the duration of every fault; 0: as each kind has it.
	Longest time.Duration
	// Points tells a server what to do at its failpoints; nil if it has none.
	Points func(server int, line string) error
	// Clock shifts a server's wall clock; nil if it cannot be.
	Clock func(server int, by time.Duration) error
}

// Disks are file systems of which each belongs to one server.
type Disks interface {
	// Fill leaves no room on it.
	Fill(server int) error
	// Empty takes back what Fill has done.
	Empty(server int) error
	// PowerCut loses what was not synced. The server must not run.
	PowerCut(server int) error
	// Abort makes it read-only, as an error of the device does.
	Abort(server int) error
	// Mend repairs it after that. The server must not run.
	Mend(server int) error
}

// All are the nemeses by name.
func All() []Nemesis {
	all := slices.Concat(processes(), networks(), disks(), abuses(), members(), injected(), damages(), leaderships(), clients(), resources())
	slices.SortFunc(all, func(a, b Nemesis) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Find returns the nemeses of the names.
func Find(names []string) ([]Nemesis, error) {
	var found []Nemesis
	for _, name := range names {
		i := slices.IndexFunc(All(), func(n Nemesis) bool { return n.Name == name })
		if i < 0 {
			var known []string
			for _, n := range All() {
				known = append(known, n.Name)
			}
			return nil, fmt.Errorf("there is no nemesis %q; there are %s", name, strings.Join(known, ", "))
		}
		found = append(found, All()[i])
	}
	return found, nil
}

// Unavailable says why a world cannot have the fault; "" if it can.
func (n *Nemesis) Unavailable(w *World) string {
	if why := n.Machine(); why != "" || n.needs == nil {
		return why
	}
	return n.needs(w)
}

// Machine says why this machine cannot have the fault, as far as that depends on nothing else.
func (n *Nemesis) Machine() string {
	if n.machine == nil {
		return ""
	}
	return n.machine()
}

// A Log collects faults. Its clock is that of the history.
type Log struct {
	Now func() int64
	// OnFault is called with each fault when it is over.
	OnFault func(Fault)

	mu     sync.Mutex
	faults []Fault // guarded by mu
}

// Faults are those that are over.
func (l *Log) Faults() []Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.faults)
}

func (l *Log) add(f Fault) {
	l.mu.Lock()
	l.faults = append(l.faults, f)
	l.mu.Unlock()
	if l.OnFault != nil {
		l.OnFault(f)
	}
}

// Run injects faults until ctx ends. All that it began is over when it returns.
func Run(ctx context.Context, w *World, nemeses []Nemesis, seed uint64, l *Log) {
	byGroup := map[string][]Nemesis{}
	for _, n := range nemeses {
		byGroup[n.group] = append(byGroup[n.group], n)
	}
	var wg sync.WaitGroup
	for group, list := range byGroup {
		var salt uint64
		for _, b := range []byte(group) {
			salt = salt*31 + uint64(b)
		}
		r := rand.New(rand.NewPCG(seed, salt))
		wg.Go(func() { runGroup(ctx, w, list, r, l) })
	}
	wg.Wait()
}

func runGroup(ctx context.Context, w *World, list []Nemesis, r *rand.Rand, l *Log) {
	pause := func(d time.Duration) bool {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-ctx.Done():
			return false
		case <-t.C:
			return true
		}
	}
	// The first operations should meet a healthy cluster, and every fault a recovering one.
	for pause(between(r, 200*time.Millisecond, w.limit(2*time.Second))) {
		n := list[r.IntN(len(list))]
		// Drawn before the fault, so that the plan does not depend on what it finds.
		length := between(r, 50*time.Millisecond, w.limit(n.longest))
		own := rand.New(rand.NewPCG(r.Uint64(), r.Uint64()))
		f := Fault{Kind: n.Name, Begin: l.Now()}
		began, err := n.inject(w, own)
		f.What, f.Targets = began.what, began.targets
		if err == nil {
			pause(length)
			err = began.heal()
		}
		if err != nil {
			f.Err = err.Error()
		}
		f.End = l.Now()
		l.add(f)
	}
}

func (w *World) limit(d time.Duration) time.Duration {
	if w.Longest > 0 {
		return min(d, w.Longest)
	}
	return d
}

// between draws a duration; short ones as often as long ones.
func between(r *rand.Rand, low, high time.Duration) time.Duration {
	for span := high / low; span > 4; span /= 4 {
		if r.IntN(3) == 0 {
			high /= 4
		}
	}
	return low + time.Duration(r.Int64N(int64(max(high-low, 1))))
}

// victims draws servers by role.
func victims(w *World, r *rand.Rand, roles ...string) (role string, servers []int) {
	size := w.Cluster.Size()
	role = roles[r.IntN(len(roles))]
	order := r.Perm(size)
	one := order[0] + 1
	switch role {
	case "leader":
		if leader := w.Cluster.Leader(); leader != 0 {
			return role, []int{leader}
		}
		return "one", []int{one}
	case "minority":
		servers = order[:(size-1)/2]
	case "majority":
		servers = order[:size/2+1]
	case "all":
		servers = order
	default:
		servers = order[:1]
	}
	servers = slices.Clone(servers)
	for i := range servers {
		servers[i]++
	}
	return role, servers
}
