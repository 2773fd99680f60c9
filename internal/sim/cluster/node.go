package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/internal/sim/disk"
	"github.com/zkd-project/zkd/server"
	"github.com/zkd-project/zkd/server/replication"
)

// dataDir is where a server keeps its data on its own disk.
const dataDir = "/data"

// A node is one server: its disk stays, its process comes and goes.
type node struct {
	w        *World
	number   int          // from 1
	observer bool         // has no vote
	clock    atomic.Int64 // nanoseconds by which its wall clock is wrong

	rotten   atomic.Bool // bits of its disk were flipped
	out      atomic.Bool // it is no member, or will be none soon
	lostData atomic.Bool // it has noticed; the next process finds an empty disk

	mu   sync.Mutex
	disk *disk.Disk    // guarded by mu: of the process that runs, or what the next one finds
	proc *process      // guarded by mu; nil while it is down
	gone chan struct{} // guarded by mu: closed when the process before it has ended; nil: there was none
}

// A process is one life of a server.
type process struct {
	srv     *server.Server
	disk    *disk.Disk
	started chan struct{} // closed when Start has returned
	giveUp  func()        // ends Start
}

// An ending is how a process ends, and with it what the next one finds on the disk.
type ending uint8

const (
	inOrder  ending = iota // as SIGTERM does
	killed                 // as kill -9 does: what was written is there, synced or not
	powerCut               // what was not synced is lost, or some of it
)

func (e ending) String() string { return [...]string{"stop", "kill", "power cut"}[e] }

func newNode(w *World, number int) *node {
	return &node{w: w, number: number, disk: w.blankDisk()}
}

// blankDisk is an empty disk with a folder for data.
func (w *World) blankDisk() *disk.Disk {
	d := disk.New()
	d.SyncTime = w.syncTime
	_ = d.MkdirAll(dataDir, 0o700) // a new disk has no faults
	_ = d.SyncDir("/")
	return d
}

// start starts a server if it is down. It does not wait until it serves. Several may try: the
// nemesis, who replaces members, and who waits for all to serve.
func (n *node) start() error {
	cfg, err := n.config()
	if err != nil {
		return err
	}
	n.awaitEnd()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc != nil || n.gone != nil && !isDone(n.gone) {
		return nil // somebody was faster; if its process has ended already, that is as a crash
	}
	if n.lostData.Swap(false) {
		n.disk = n.w.blankDisk()
	}
	host := n.w.net.Host(name("node", n.number))
	p := &process{disk: n.disk, started: make(chan struct{})}
	p.srv, err = server.New(server.Options{
		Config: cfg, FS: p.disk, SegmentBytes: n.w.segment, Logger: n.logger(),
		Listen: host.Listen, PeerNetwork: host, Now: n.now,
		Fatal: func(err error) { n.fatal(p, err) },
		Space: func(string) (free, total uint64, err error) {
			f, t := p.disk.Space()
			return uint64(f), uint64(t), nil
		},
	})
	if err != nil {
		return err
	}
	var ctx context.Context
	ctx, p.giveUp = context.WithCancel(context.Background())
	n.proc = p
	go func() { // ends with the server at the latest
		defer close(p.started)
		defer p.giveUp()
		if _, err := p.srv.Start(ctx); err != nil {
			n.fatal(p, err)
		}
	}()
	return nil
}

// now is the server's wall clock, which may be wrong.
func (n *node) now() time.Time { return time.Now().Add(time.Duration(n.clock.Load())) }

// fatal is told that a process cannot go on. If its disk has failed it, or was tampered with, that
// is right, and the process ends.
func (n *node) fatal(p *process, err error) {
	switch {
	case n.process() != p: // it was ended, and Start or a store noticed
	case n.rotten.Load() && errors.As(err, new(*replication.DamageError)):
		n.w.stats.count("damage found")
		n.rotten.Store(false)
		n.lostData.Store(true)
		go n.end(p, killed)
	case p.disk.Failures() > 0:
		n.w.stats.count("given up")
		go n.end(p, killed) // who calls this must go on before the server can end
	case !n.w.isEnding():
		n.w.fail("server %d cannot go on: %w", n.number, err)
	}
}

func (n *node) logger() *slog.Logger {
	if n.w.o.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return n.w.o.Logger.With("server", n.number)
}

func (n *node) config() (*config.Config, error) {
	host := name("node", n.number)
	settings := [][2]string{
		{"clientPortAddress", host},
		{"clientPort", strconv.Itoa(clientPort)},
		{"admin.enableServer", "false"},
		{"initLimit", "10"},
		{"syncLimit", "10"},
		{"maxClientCnxns", "0"},
		{"reconfigEnabled", "true"},
		{"skipACL", "yes"}, // who may change the members is not what is tested here
		{"zkd.peerInsecure", "true"},
		{"tickTime", strconv.FormatInt(n.w.tick.Milliseconds(), 10)},
		{"snapCount", strconv.Itoa(n.w.snap)},
		{"autopurge.snapRetainCount", "3"},
	}
	for _, other := range n.w.nodes {
		settings = append(settings, [2]string{name("server.", other.number), other.line()})
	}
	overrides := make([]config.Override, 0, len(settings))
	for _, s := range settings {
		overrides = append(overrides, config.Override{Key: s[0], Value: s[1], Origin: "simulation"})
	}
	// In memory there is no file with the number of a server; the folders are named afterwards.
	cfg, _, err := config.Load(config.Sources{InMemory: true, Overrides: overrides, MyID: n.number})
	if err == nil {
		cfg.InMemory, cfg.DataDir, cfg.DataLogDir = false, dataDir, dataDir
	}
	return cfg, err
}

// line is what a configuration says of the server.
func (n *node) line() string {
	line := fmt.Sprintf("%s:%d:3888", name("node", n.number), peerPort)
	if n.observer {
		line += ":observer"
	}
	return line
}

// process returns the running process, or nil.
func (n *node) process() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.proc
}

// server returns the running server, or nil.
func (n *node) server() *server.Server {
	if p := n.process(); p != nil {
		return p.srv
	}
	return nil
}

// store returns the disk.
func (n *node) store() *disk.Disk {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.disk
}

// serves says whether the server has started.
func (n *node) serves() bool {
	p := n.process()
	return p != nil && isDone(p.started)
}

// stop ends the process, if there is one, and returns when all its goroutines are gone. seed
// decides what a power cut leaves of what was not synced.
func (n *node) stop(how ending, seed uint64) {
	if p := n.process(); p != nil {
		n.endWith(p, how, seed)
	}
}

func (n *node) end(p *process, how ending) { n.endWith(p, how, 0) }

func (n *node) endWith(p *process, how ending, seed uint64) {
	n.mu.Lock()
	if n.proc != p { // somebody else does it
		n.mu.Unlock()
		return
	}
	gone := make(chan struct{})
	defer close(gone)
	n.proc, n.gone = nil, gone
	end := p.srv.Close
	if how != inOrder {
		end = p.srv.Kill
		n.w.net.Crash(name("node", n.number))
		p.disk.PowerCut() // nothing of this process counts from here on
		if n.disk = p.disk.AfterKill(); how == powerCut {
			n.disk = p.disk.AfterCrash(seed)
		}
	}
	n.mu.Unlock()
	// A Start under way closes the server itself. It must have done so before: whoever ends a
	// server a second time waits on a mutex, and that stops virtual time.
	if !isDone(p.started) {
		p.giveUp()
		<-p.started
	}
	if err := end(); err != nil && how == inOrder && p.disk.Failures() == 0 {
		n.w.fail("server %d ends with an error: %w", n.number, err)
	}
}

// awaitEnd returns when the goroutines of a process that is ending are gone.
func (n *node) awaitEnd() {
	n.mu.Lock()
	gone := n.gone
	n.mu.Unlock()
	if gone != nil {
		<-gone
	}
}

// fileSize takes apart what disk.Files says of a file.
func fileSize(line string) (name string, size int) {
	name, digits, _ := strings.Cut(line, " ")
	size, _ = strconv.Atoi(digits)
	return name, size
}

func isDone(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
