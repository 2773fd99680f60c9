package cluster

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zkd-project/zkd/internal/sim/rng"
)

// A nemesis breaks the cluster and heals it, again and again, as its random source says.
type nemesis struct {
	w       *World
	root    *rng.Rand
	r       *rng.Rand     // of the round
	lost    *node         // has lost its disk, and not yet its place among the others back
	gap     time.Duration // between two rounds, at most
	most    int           // faults in one round
	patient bool          // some rounds last long
}

func newNemesis(w *World) *nemesis {
	r := w.rand.Fork("nemesis")
	return &nemesis{
		w: w, root: r.Fork("rounds"), r: r, gap: rng.Pick(r, []time.Duration{time.Second, 3 * time.Second, 8 * time.Second}),
		most: 1 + r.Intn(3), patient: r.OneIn(2),
	}
}

// birth disturbs the servers while they become a cluster.
func (n *nemesis) birth() {
	for range n.r.Intn(12) {
		v := rng.Pick(n.r, n.w.nodes)
		switch n.r.Intn(4) {
		case 0:
			n.isolate()
		case 1:
			n.w.healNetwork()
		default:
			how := n.abruptly()
			n.note("%v at birth: %d", how, v.number)
			v.stop(how, n.r.Uint64())
			if n.r.OneIn(2) {
				continue
			}
			n.start(v)
		}
		time.Sleep(time.Duration(n.r.Intn(400)) * time.Millisecond)
	}
	n.heal()
}

// run makes rounds of faults until ctx ends; then all is healed and all servers run. Each round
// draws from a source of its own, so that one can be left out and the others stay as they are.
func (n *nemesis) run(ctx context.Context) {
	for round := 1; ctx.Err() == nil; round++ {
		n.r = n.root.Fork(strconv.Itoa(round))
		pause(ctx, n.gap/20+time.Duration(n.r.Intn(int(n.gap))))
		if ctx.Err() != nil {
			break
		}
		lasts := 50 + n.r.Intn(3000)
		if n.patient && n.r.OneIn(3) {
			lasts += n.r.Intn(15_000)
		}
		if !slices.Contains(n.w.o.Skip, round) {
			n.w.stats.Rounds = round
			n.say("round " + strconv.Itoa(round))
			for range 1 + n.r.Intn(n.most) {
				n.fault()
			}
		}
		pause(ctx, time.Duration(lasts)*time.Millisecond)
		n.heal()
	}
	n.heal()
}

func (n *nemesis) say(what string) {
	n.w.History.add(Entry{Kind: Fault, Note: what})
}

func (n *nemesis) note(format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	n.say(what)
	kind, _, _ := strings.Cut(what, ":")
	n.w.stats.count(kind)
}

// heal ends all faults, and starts who is down.
func (n *nemesis) heal() {
	n.w.healNetwork()
	for _, s := range n.w.nodes {
		d := s.store()
		d.Heal()
		d.SetCapacity(0)
		if srv := s.server(); srv == nil {
			n.start(s)
		} else if s.serves() {
			srv.Freeze(false)
		}
	}
	n.whole()
	n.say("healed")
}

// fault begins one.
func (n *nemesis) fault() {
	faults := []func(){
		n.crash, n.crashAll, n.isolate, n.halves, n.bridge, n.ring, n.oneWay, n.oneWay, n.pause, n.delay, n.cut,
		n.handOver, n.handOver, n.clients, n.clients, n.restart, n.flap, n.clock, n.lossy,
		n.slowDisk, n.slowDisk, n.diskError, n.diskError, n.fullDisk, n.wipe, n.rot,
	}
	rng.Pick(n.r, faults)()
}

// victim is the leader half of the time.
func (n *nemesis) victim() *node {
	if l := n.w.leader(); l != nil && n.r.OneIn(2) {
		return l
	}
	return rng.Pick(n.r, n.w.nodes)
}

func (n *nemesis) others(v *node) []string {
	var list []string
	for _, s := range n.w.nodes {
		if s != v {
			list = append(list, name("node", s.number))
		}
	}
	return list
}

func (n *nemesis) clientHosts() []string {
	var list []string
	for _, c := range n.w.clients {
		list = append(list, c.host)
	}
	return list
}

// isolate cuts a server off from the others; half of the clients stay with it.
func (n *nemesis) isolate() {
	v := n.victim()
	n.note("isolate: %d", v.number)
	n.w.net.Partition([]string{name("node", v.number)}, n.others(v))
}

// halves divides servers and clients.
func (n *nemesis) halves() {
	n.note("halves:")
	var sides [2][]string
	for _, s := range n.w.nodes {
		i := n.r.Intn(2)
		sides[i] = append(sides[i], name("node", s.number))
	}
	for _, host := range n.clientHosts() {
		i := n.r.Intn(2)
		sides[i] = append(sides[i], host)
	}
	n.w.net.Partition(sides[0], sides[1])
}

// bridge leaves one server that sees both halves.
func (n *nemesis) bridge() {
	b := n.r.Intn(len(n.w.nodes))
	n.note("bridge: %d", b+1)
	var sides [2][]string
	for i, s := range n.w.nodes {
		if i != b {
			sides[i%2] = append(sides[i%2], name("node", s.number))
		}
	}
	n.w.net.Partition(sides[0], sides[1])
}

// ring leaves every server the sight of its neighbours alone; with three it cuts one pair.
func (n *nemesis) ring() {
	n.note("ring:")
	count := len(n.w.nodes)
	if count == 1 {
		return
	}
	if count == 3 {
		a := n.r.Intn(3)
		n.w.net.Partition([]string{name("node", a+1)}, []string{name("node", (a+1)%3+1)})
		return
	}
	for i := range count {
		for j := i + 2; j < count && (i != 0 || j != count-1); j++ {
			n.w.net.Partition([]string{name("node", i+1)}, []string{name("node", j+1)})
		}
	}
}

// oneWay makes a server deaf or mute, to all others or to one.
func (n *nemesis) oneWay() {
	v := n.victim()
	others := n.others(v)
	if len(others) > 0 && n.r.OneIn(2) {
		others = []string{rng.Pick(n.r, others)}
	}
	if n.r.OneIn(3) {
		others = append(others, n.clientHosts()...)
	}
	mute := n.r.OneIn(2)
	n.note("one way: %d, mute %v", v.number, mute)
	for _, o := range others {
		if mute {
			n.w.net.Block(name("node", v.number), o)
		} else {
			n.w.net.Block(o, name("node", v.number))
		}
	}
}

// pause makes a server silent to everybody.
func (n *nemesis) pause() {
	v := n.victim()
	n.note("pause: %d", v.number)
	if srv := v.server(); srv != nil && v.serves() {
		srv.Freeze(true)
	}
	n.w.net.Partition([]string{name("node", v.number)}, append(n.others(v), n.clientHosts()...))
}

// delay makes some ways slow.
func (n *nemesis) delay() {
	d := time.Duration(1+n.r.Intn(300)) * time.Millisecond
	n.note("delay: %v", d)
	hosts := append(n.others(nil), n.clientHosts()...)
	for _, from := range hosts {
		for _, to := range hosts {
			if from != to && n.r.OneIn(3) {
				n.w.net.Delay(from, to, time.Duration(1+n.r.Intn(int(d))))
			}
		}
	}
}

// cut resets connections.
func (n *nemesis) cut() {
	n.note("cut:")
	hosts := append(n.others(nil), n.clientHosts()...)
	for i, a := range hosts {
		for _, b := range hosts[i+1:] {
			if n.r.OneIn(4) {
				n.w.net.Cut(a, b)
			}
		}
	}
}

// lossy resets one connection after the other, as a line does that loses too much.
func (n *nemesis) lossy() {
	n.note("lossy:")
	hosts := append(n.others(nil), n.clientHosts()...)
	for range 5 + n.r.Intn(30) {
		n.w.net.Cut(rng.Pick(n.r, n.others(nil)), rng.Pick(n.r, hosts))
		time.Sleep(time.Duration(1+n.r.Intn(100)) * time.Millisecond)
	}
}

// flap cuts a server off and heals it, quickly and often.
func (n *nemesis) flap() {
	v := n.victim()
	n.note("flap: %d", v.number)
	for range 5 + n.r.Intn(20) {
		n.w.net.Partition([]string{name("node", v.number)}, n.others(v))
		time.Sleep(time.Duration(1+n.r.Intn(600)) * time.Millisecond)
		n.w.healNetwork()
		time.Sleep(time.Duration(1+n.r.Intn(100)) * time.Millisecond)
	}
}

// handOver has the leader give its place away.
func (n *nemesis) handOver() {
	l := n.w.leader()
	if l == nil {
		return
	}
	n.note("hand over: %d", l.number)
	if srv := l.server(); srv != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = srv.HandOver(ctx) // it need not succeed
	}
}

// clock sets the wall clock of some servers wrong, until the next time.
func (n *nemesis) clock() {
	n.note("clock:")
	for _, s := range n.w.nodes {
		if n.r.OneIn(2) {
			s.clock.Store(int64(n.r.Intn(int(2*time.Hour))) - int64(time.Hour))
		}
	}
}

// clients cuts some clients off from some servers, or from all.
func (n *nemesis) clients() {
	n.note("clients:")
	all := n.r.OneIn(2)
	for _, host := range n.clientHosts() {
		if !n.r.OneIn(3) {
			continue
		}
		for _, server := range n.others(nil) {
			if all || n.r.OneIn(2) {
				n.w.net.Partition([]string{host}, []string{server})
			}
		}
	}
}
