package cluster

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/jepsen/netem"
)

// A Driver is the place in which the servers of a cluster run.
type Driver interface {
	// Name is what reports call it.
	Name() string
	// Listen are the addresses that a server binds: clients, peers.
	Listen(server int) (client, peer string)
	// PeerAddr is where a server finds another one.
	PeerAddr(from, to int) string
	// Command is what runs args as the server.
	Command(server int, args ...string) *exec.Cmd
	// Dial connects a client to a server, through the faults.
	Dial(ctx context.Context, server int) (net.Conn, error)
	// DialPeer connects a stranger to a server's port for the other servers.
	DialPeer(ctx context.Context, server int) (net.Conn, error)
	// Look connects the harness to a server's client port, around the faults.
	Look(ctx context.Context, server int) (net.Conn, error)
	// Table rules the faults of the network.
	Table() *netem.Table
	// Cut resets the connections between two hosts.
	Cut(a, b int)
	// Up and Down say that a server's process runs or not.
	Up(server int) error
	Down(server int)
	// Carried says whether traffic between two servers went where faults can reach it.
	Carried(a, b int) bool
	// Lossy says whether it heeds Loss and Double.
	Lossy() bool
	Close() error
}

// Options say what a cluster is made of.
type Options struct {
	Servers  int
	Dir      string // one folder for each server is made in it
	Binary   string
	Settings []string // more lines of zoo.cfg
	// Env has more variables for a server's process; nil: none.
	Env func(server int) []string
	// PipeLogs has servers log into a pipe, so that BlockLog can have nobody read it.
	PipeLogs bool
	// DataDir gives the folder of a server's data; nil: one in Dir.
	DataDir func(server int) string
}

// AddEnv gives servers one more variable, as NAME=VALUE.
func (o *Options) AddEnv(f func(server int) string) {
	before := o.Env
	o.Env = func(server int) []string {
		var all []string
		if before != nil {
			all = before(server)
		}
		return append(all, f(server))
	}
}

// TickMs is the tickTime of the servers: short, so that sessions time out soon enough for a
// run of seconds.
const TickMs = 500

// A Cluster is running servers, numbered from 1. Its methods may be called from any
// goroutine, but not two for one server at a time.
type Cluster struct {
	o Options
	d Driver

	mu    sync.Mutex
	procs []*process // guarded by mu; nil while not running
	ends  []End      // guarded by mu: processes that ended without being told to
}

// An End is that of a process which nobody had told to end.
type End struct {
	Server int
	Status string // as the system has it
	Said   string // the last line that it wrote
}

var errOrderly = errors.New("exit status 0")

type process struct {
	cmd    *exec.Cmd
	sink   *sink         // nil: it logs into a file
	done   chan struct{} // closed when it has ended
	told   bool          // guarded by Cluster.mu: it was told to end
	paused bool          // guarded by Cluster.mu
}

// New writes the configurations; nothing runs yet.
func New(o Options, d Driver) (*Cluster, error) {
	c := &Cluster{o: o, d: d, procs: make([]*process, o.Servers)}
	for i := 1; i <= o.Servers; i++ {
		if err := c.configure(i); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *Cluster) configure(i int) error {
	client, peer := c.d.Listen(i)
	host, port, err := net.SplitHostPort(client)
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "tickTime=%d\ninitLimit=20\nsyncLimit=10\nmaxClientCnxns=0\n4lw.commands.whitelist=*\n", TickMs)
	fmt.Fprintf(&b, "admin.enableServer=false\nzkd.peerInsecure=true\ndataDir=%s\nclientPort=%s\nclientPortAddress=%s\n", c.Data(i), port, host)
	for j := 1; j <= c.o.Servers; j++ {
		at := peer
		if j != i {
			at = c.d.PeerAddr(i, j)
		}
		fmt.Fprintf(&b, "server.%d=%s:1\n", j, at)
	}
	for _, line := range c.o.Settings {
		b.WriteString(line + "\n")
	}
	if err := os.MkdirAll(c.Data(i), 0o700); err != nil {
		return err
	}
	if err := os.MkdirAll(c.dir(i), 0o700); err != nil {
		return err
	}
	if err := c.writeMyID(i); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(c.dir(i), "zoo.cfg"), []byte(b.String()), 0o600)
}

func (c *Cluster) writeMyID(i int) error {
	return writeDurably(filepath.Join(c.Data(i), "myid"), fmt.Appendf(nil, "%d\n", i))
}

// Wipe empties the disk of a server that does not run.
func (c *Cluster) Wipe(i int) error {
	if err := os.RemoveAll(c.Data(i)); err != nil {
		return err
	}
	if err := os.MkdirAll(c.Data(i), 0o700); err != nil {
		return err
	}
	return c.writeMyID(i)
}

// writeDurably writes a file that a power cut leaves alone: it is not the server's.
func writeDurably(path string, b []byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	for dir := path; err == nil && len(dir) > 1; {
		dir = filepath.Dir(dir)
		var d *os.File
		if d, err = os.Open(dir); err == nil {
			err = errors.Join(d.Sync(), d.Close())
		}
		if strings.HasPrefix(filepath.Base(dir), "server-") {
			break
		}
	}
	return err
}

func (c *Cluster) dir(i int) string { return filepath.Join(c.o.Dir, fmt.Sprintf("server-%d", i)) }

// Data is the folder of a server's data.
func (c *Cluster) Data(i int) string {
	if c.o.DataDir != nil {
		return c.o.DataDir(i)
	}
	return filepath.Join(c.dir(i), "data")
}

// LogFile has what a server has written to standard error, over all of its processes.
func (c *Cluster) LogFile(i int) string { return filepath.Join(c.dir(i), "stderr.log") }

// Size is the number of servers.
func (c *Cluster) Size() int { return c.o.Servers }

// Driver is what the servers run in.
func (c *Cluster) Driver() Driver { return c.d }

// Start starts a server that does not run, and returns at once.
func (c *Cluster) Start(i int) error {
	log, err := os.OpenFile(c.LogFile(i), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := c.d.Command(i, c.o.Binary, "serve", "--config", filepath.Join(c.dir(i), "zoo.cfg"))
	sink, err := c.sink(log)
	if err != nil {
		return err
	}
	cmd.Stderr = log
	if sink != nil {
		cmd.Stderr = sink.in
	}
	if c.o.Env != nil {
		cmd.Env = append(os.Environ(), c.o.Env(i)...)
	}
	// A harness that is killed takes its servers with it.
	cmd.SysProcAttr = DeathSignal()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.procs[i-1] != nil {
		return sink.close()
	}
	if err := cmd.Start(); err != nil {
		return errors.Join(err, sink.close())
	}
	p := &process{cmd: cmd, sink: sink, done: make(chan struct{})}
	c.procs[i-1] = p
	go c.reap(i, p)
	return c.d.Up(i)
}

// reap waits for a process to end and notes an end that nobody asked for.
func (c *Cluster) reap(i int, p *process) {
	err := cmp.Or(p.cmd.Wait(), errOrderly)
	_ = p.sink.close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.d.Down(i)
	c.procs[i-1] = nil
	if !p.told {
		c.ends = append(c.ends, End{Server: i, Status: err.Error(), Said: lastLine(c.LogFile(i))})
	}
	close(p.done)
}

// signal sends a signal to a running process; ending says that it should end by it.
func (c *Cluster) signal(i int, s syscall.Signal, ending bool) *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.procs[i-1]
	if p == nil {
		return nil
	}
	p.told = p.told || ending
	switch s {
	case syscall.SIGSTOP:
		p.paused = true
	case syscall.SIGCONT:
		p.paused = false
	}
	_ = p.cmd.Process.Signal(s)
	return p
}

// Kill ends a server without warning and waits for that.
func (c *Cluster) Kill(i int) {
	if p := c.signal(i, syscall.SIGKILL, true); p != nil {
		<-p.done
	}
}

// stopPatience is for a server that hands over, answers its clients and closes its files, on a machine that
// may be busy with other things.
const stopPatience = 2 * time.Minute

// Stop asks a server to end in order. It is killed if it takes too long, which is an error.
func (c *Cluster) Stop(i int) error {
	c.Resume(i)
	p := c.signal(i, syscall.SIGTERM, true)
	if p == nil {
		return nil
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(stopPatience):
		c.Kill(i)
		return fmt.Errorf("server %d did not end within %v of SIGTERM", i, stopPatience)
	}
}

// Pause stops a process where it stands, until Resume.
func (c *Cluster) Pause(i int) { c.signal(i, syscall.SIGSTOP, false) }

// Resume lets a paused process go on.
func (c *Cluster) Resume(i int) { c.signal(i, syscall.SIGCONT, false) }

// Running says whether a server has a process that is not paused.
func (c *Cluster) Running(i int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.procs[i-1] != nil && !c.procs[i-1].paused
}

// PID is the process of a server; 0 if it does not run.
func (c *Cluster) PID(i int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.procs[i-1] == nil {
		return 0
	}
	return c.procs[i-1].cmd.Process.Pid
}

// Ends are the processes that have ended by themselves so far.
func (c *Cluster) Ends() []End {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.ends)
}

func lastLine(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	b = bytes.TrimSpace(b)
	return string(b[bytes.LastIndexByte(b, '\n')+1:])
}

// Word asks a server a four-letter word, around the faults of the network; "" if it does not
// answer soon.
func (c *Cluster) Word(i int, word string) string {
	return c.WordWithin(i, word, 500*time.Millisecond)
}

// WordWithin is Word with as much time as the caller has, not what a look at a paused server may take.
func (c *Cluster) WordWithin(i int, word string, patience time.Duration) string {
	if !c.Running(i) {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	nc, err := c.d.Look(ctx, i)
	if err != nil {
		return ""
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(patience))
	_, _ = io.WriteString(nc, word)
	b, _ := io.ReadAll(nc)
	return string(b)
}

// Mode is the role of a server, "" if it has none or does not answer.
func (c *Cluster) Mode(i int) string { return modeOf(c.Word(i, "srvr")) }

// modeOf is the role in an answer to srvr.
func modeOf(answer string) string {
	for line := range strings.Lines(answer) {
		if mode, ok := strings.CutPrefix(line, "Mode: "); ok {
			return strings.TrimSpace(mode)
		}
	}
	return ""
}

// Leader is a server that says that it leads; 0 if none does.
func (c *Cluster) Leader() int {
	for i := 1; i <= c.o.Servers; i++ {
		if c.Mode(i) == "leader" {
			return i
		}
	}
	return 0
}

// StartAll starts all that do not run, and waits until all serve. One whose end was under way, by a fault
// that is over, is started again when it has come; what it ended with is among the Ends.
func (c *Cluster) StartAll(ctx context.Context) error {
	const tries = 3
	started := make([]int, c.o.Servers)
	for i := range started {
		c.Resume(i + 1)
	}
	return c.await(ctx, func() error {
		for i := range started {
			if started[i] == tries || c.PID(i+1) != 0 {
				continue
			}
			started[i]++
			if err := c.Start(i + 1); err != nil {
				return err
			}
		}
		return nil
	})
}

// awaitPatience is for one answer of a server that may stand still for a moment, for want of a processor.
const awaitPatience = 5 * time.Second

// AwaitAll waits until all servers serve and one leads.
func (c *Cluster) AwaitAll(ctx context.Context) error {
	return c.await(ctx, func() error { return nil })
}

// await is AwaitAll; help is called before each look.
func (c *Cluster) await(ctx context.Context, help func() error) error {
	for {
		if err := help(); err != nil {
			return err
		}
		waiting := 0
		leads := false
		for i := 1; i <= c.o.Servers && waiting == 0; i++ {
			switch modeOf(c.WordWithin(i, "srvr", awaitPatience)) {
			case "":
				waiting = i
			case "leader", "standalone":
				leads = true
			}
		}
		if waiting == 0 && leads {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("server %d does not serve: %w", max(waiting, 1), ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Close kills all and takes the place down.
func (c *Cluster) Close() error {
	for i := 1; i <= c.o.Servers; i++ {
		c.Kill(i)
	}
	return errors.Join(c.d.Close())
}
