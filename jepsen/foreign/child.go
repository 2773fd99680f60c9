package foreign

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/jepsen/cluster"
	"github.com/zkd-project/zkd/jepsen/history"
	"github.com/zkd-project/zkd/jepsen/workload"
)

const (
	// startPatience is for the program, its library and a session, on a busy machine.
	startPatience = time.Minute
	// answerPatience is more than anything may take that a child is asked to do.
	answerPatience = 90 * time.Second
)

// A child is a process with one client. It belongs to one goroutine.
type child struct {
	e       *workload.Env
	id      int
	rand    *rand.Rand
	road    *road
	timeout time.Duration // of its sessions
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	session int64
	alive   int64 // when the newest question was asked that the session has answered; 0: not known
}

// start begins a child with a session; it fails if none comes about until ctx ends.
func (l *Client) start(ctx context.Context, e *workload.Env, timeout time.Duration) (*child, error) {
	r, err := newRoad(e)
	if err != nil {
		return nil, err
	}
	c := &child{e: e, id: e.NextProc(), road: r, timeout: timeout}
	c.rand = rand.New(rand.NewPCG(e.Seed, uint64(c.id)))
	line := append(l.command(e.Dir), r.hosts, fmt.Sprint(timeout.Milliseconds()))
	c.cmd = exec.Command(line[0], line[1:]...)
	c.cmd.SysProcAttr = cluster.DeathSignal()
	c.cmd.Dir = e.Dir // for what it may leave when it crashes
	said, err := os.OpenFile(filepath.Join(e.Dir, "foreign.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		r.close()
		return nil, err
	}
	defer said.Close()
	c.cmd.Stderr = said
	began := e.Rec.Now() // before it can have said anything
	if c.in, err = c.cmd.StdinPipe(); err == nil {
		var out io.ReadCloser
		if out, err = c.cmd.StdoutPipe(); err == nil {
			c.out = bufio.NewReader(out)
			err = c.cmd.Start()
		}
	}
	if err != nil {
		r.close()
		return nil, err
	}
	starting, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	stop := context.AfterFunc(starting, c.kill)
	first, err := receive(c.out)
	if err == nil && first.Session == 0 {
		err = errors.New("its connection was gone again")
	}
	if !stop() || err != nil {
		c.close()
		return nil, fmt.Errorf("a client has not come to a session: %w", errors.Join(starting.Err(), err))
	}
	c.session, c.alive = first.Session, began
	c.info("new")
	return c, nil
}

func (c *child) kill() { _ = c.cmd.Process.Kill() }

// close ends the process; its session is left to expire.
func (c *child) close() {
	c.kill()
	_ = c.in.Close()
	_ = c.cmd.Wait()
	c.road.close()
}

// stall stops the process where it stands.
func (c *child) stall(ctx context.Context, d time.Duration) {
	_ = c.cmd.Process.Signal(syscall.SIGSTOP)
	workload.Pause(ctx, d)
	_ = c.cmd.Process.Signal(syscall.SIGCONT)
}

// ask has the child do something. An error means that the child is of no use any more, and that
// nobody knows what it has done.
func (c *child) ask(q question) (a answer, err error) {
	begin := c.e.Rec.Now()
	late := time.AfterFunc(answerPatience, c.kill)
	defer late.Stop()
	if err = q.send(c.in); err == nil {
		a, err = receive(c.out)
	}
	a.begin, a.end = begin, c.e.Rec.Now()
	if err != nil {
		a.Lost = err.Error()
		return a, err
	}
	c.heard(&a)
	return a, nil
}

// heard notes what an answer says of the session. When the client has got another one, its former one
// was over, or the client has given it up: Curator does so when it had no connection for a timeout.
func (c *child) heard(a *answer) {
	answered := a.Lost == ""
	switch {
	case a.Session == 0:
	case a.Session != c.session:
		c.info("expired")
		c.session, c.alive = a.Session, 0
		if answered {
			c.alive = a.begin
		}
		c.info("new")
	case answered:
		c.alive = a.begin
	}
}

// info records something of the session, as the checker of sessions reads it.
func (c *child) info(what string) {
	c.e.Rec.Add(history.Op{
		Begin: c.alive, Kind: history.Info, F: what, Proc: c.id, Session: c.session, Arg: int64(c.timeout),
	})
}

// each keeps n children at work until ctx ends; f returns an error when its child is of no use any
// more, and is called again with another one.
func (l *Client) each(ctx context.Context, e *workload.Env, n int, timeout time.Duration, f func(ctx context.Context, c *child) error) {
	done := make(chan struct{})
	for range n {
		go func() {
			defer func() { done <- struct{}{} }()
			for ctx.Err() == nil {
				c, err := l.start(ctx, e, timeout)
				if err != nil {
					workload.Pause(ctx, 100*time.Millisecond)
					continue
				}
				for err == nil && ctx.Err() == nil {
					err = f(ctx, c)
				}
				c.close()
			}
		}()
	}
	for range n {
		<-done
	}
}
