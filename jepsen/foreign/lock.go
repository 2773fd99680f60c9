package foreign

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/zkd-project/zkd/jepsen/check"
	"github.com/zkd-project/zkd/jepsen/history"
	"github.com/zkd-project/zkd/jepsen/workload"
)

const (
	lockClients = 3
	lockTimeout = 1500 * time.Millisecond // of sessions, so that several end in a run of seconds
	// acquireSeconds is for those who are before it in the queue, and for some of them to expire.
	acquireSeconds = 20
	// lastSeconds is the same at the end, where to wait in vain is a finding, on a machine that is busy with
	// other things.
	lastSeconds = 60
	// sequenceDigits end the name of a sequential node.
	sequenceDigits = 10
)

func (l *Client) lockWorkload() workload.Workload {
	return workload.Workload{
		Name:  "lock",
		Doc:   "the recipe of a lock, with clients that are stopped while they hold it: never two holders, and its watches wake it",
		Setup: l.setup,
		Run: func(ctx context.Context, e *workload.Env) {
			l.each(ctx, e, lockClients, lockTimeout, func(ctx context.Context, c *child) error { return c.lockOnce(ctx) })
		},
		Final:    l.finalLock,
		Common:   common,
		Checkers: []check.Checker{check.Lock},
	}
}

var errGivenUp = errors.New("its place in the queue goes with its session")

// lockOnce takes the lock, holds it and lets it go. Whatever goes wrong, the client is given up.
func (c *child) lockOnce(ctx context.Context) error {
	got, err := c.told(question{Do: "acquire", Path: root, Value: strconv.Itoa(c.id), Seconds: acquireSeconds})
	if err != nil || got.Lost != "" || got.Code != 0 {
		return errors.Join(errGivenUp, err)
	}
	number, err := strconv.ParseInt(got.Value[max(0, len(got.Value)-sequenceDigits):], 10, 64)
	if err != nil {
		c.e.Rec.Add(history.Op{Begin: got.begin, Kind: history.Info, F: "broken", Proc: c.id, Note: "the name of a sequential node: " + got.Value})
		return errGivenUp
	}
	// Who is first in the queue is so while its node is there, which belongs to the session that holds.
	node := root + "/" + got.Value
	seen, err := c.ask(question{Do: "exists", Path: node})
	if err != nil || seen.Lost != "" || seen.Code != 0 || seen.Owner != c.session || seen.Session != c.session {
		return errors.Join(errGivenUp, err)
	}
	return c.hold(ctx, node, number, seen)
}

// told asks, and records the operation.
func (c *child) told(q question) (answer, error) {
	a, err := c.ask(q)
	c.e.Rec.Add(c.line(q, &a))
	return a, err
}

// hold keeps the lock for a moment; one in eight is stopped for longer than its session can live.
func (c *child) hold(ctx context.Context, node string, number int64, seen answer) error {
	session, begin, alive := c.session, seen.end, seen.begin
	if c.rand.IntN(8) == 0 {
		c.stall(ctx, lockTimeout*time.Duration(12+c.rand.IntN(8))/10)
	}
	var err error
	for range c.rand.IntN(4) {
		workload.Pause(ctx, time.Duration(c.rand.IntN(40))*time.Millisecond)
		var a answer
		if a, err = c.ask(question{Do: "exists", Path: node}); err != nil {
			break
		}
		if a.Lost == "" && a.Code == 0 && a.Owner == session && a.Session == session {
			alive = a.begin
		}
	}
	now := c.e.Rec.Now()
	held := history.Op{
		Begin: begin, End: min(now, alive+int64(lockTimeout)), Kind: history.Info, F: "held",
		Proc: c.id, Session: session, Key: root, Arg: number,
	}
	c.e.Rec.Add(held)
	held.F, held.End = "held-blindly", now
	c.e.Rec.Add(held)
	if err != nil {
		return err
	}
	if a, err := c.told(question{Do: "release", Path: root}); err != nil || a.Lost != "" || a.Code != 0 {
		return errors.Join(errGivenUp, err)
	}
	return nil
}

// finalLock has clients queue for the lock without any fault: whoever waits for a watch that is lost
// never gets it.
func (l *Client) finalLock(ctx context.Context, e *workload.Env) error {
	// How soon the cluster must be back is judged before. To start three programs may take longer.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startPatience+lastSeconds*time.Second)
	defer cancel()
	results := make(chan error)
	for range lockClients {
		go func() { results <- l.takeTurn(ctx, e) }()
	}
	var err error
	for range lockClients {
		err = errors.Join(err, <-results)
	}
	return err
}

// takeTurn takes the lock and lets it go. A client whose session ends on the way, because the machine
// has no time for it, is replaced; one that has waited in vain is not.
func (l *Client) takeTurn(ctx context.Context, e *workload.Env) error {
	for {
		lost, err := l.takeOnce(ctx, e)
		if err == nil && lost == "" {
			return nil
		}
		if strings.Contains(lost, "LockTimeout") || ctx.Err() != nil {
			return errors.Join(fmt.Errorf("a client does not get the lock: %s", lost), err)
		}
		workload.Pause(ctx, 100*time.Millisecond)
	}
}

func (l *Client) takeOnce(ctx context.Context, e *workload.Env) (lost string, err error) {
	c, err := l.start(ctx, e, lockTimeout)
	if err != nil {
		return "", err
	}
	defer c.close()
	for _, q := range []question{{Do: "acquire", Path: root, Value: "last", Seconds: lastSeconds}, {Do: "release"}} {
		if a, err := c.ask(q); err != nil || a.Lost != "" || a.Code != 0 {
			return fmt.Sprintf("%s: %s, code %d", q.Do, a.Lost, a.Code), err
		}
	}
	return "", nil
}
