package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A notifier tells systemd how the server is, as sd_notify(3) describes: datagrams of lines to
// the socket in NOTIFY_SOCKET. A nil one tells nobody.
type notifier struct {
	conn  net.Conn
	log   *slog.Logger
	every time.Duration // WATCHDOG_USEC; 0: nobody waits for signs of life

	mu     sync.Mutex
	status string // guarded by mu: the last that was told
}

// newNotifier connects to systemd, if it has started this process and wants to know.
func newNotifier(getenv func(string) string, log *slog.Logger) *notifier {
	name := getenv("NOTIFY_SOCKET")
	if name == "" {
		return nil
	}
	if name[0] == '@' { // of the abstract name space
		name = "\x00" + name[1:]
	}
	conn, err := net.Dial("unixgram", name)
	if err != nil {
		log.Warn("systemd cannot be told that the server is ready", "error", err)
		return nil
	}
	n := &notifier{conn: conn, log: log}
	usec, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64)
	pid := getenv("WATCHDOG_PID")
	if err == nil && usec > 0 && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		n.every = time.Duration(usec) * time.Microsecond
	}
	return n
}

// tell sends lines in one datagram.
func (n *notifier) tell(lines ...string) {
	if n == nil {
		return
	}
	// The socket is local, but systemd may be slow: better untold than late ourselves.
	_ = n.conn.SetWriteDeadline(time.Now().Add(time.Second))
	if _, err := n.conn.Write([]byte(strings.Join(lines, "\n"))); err != nil {
		n.log.Debug("systemd was not told", "lines", lines, "error", err)
	}
}

// tellStatus tells what `systemctl status` shows, when it has changed.
func (n *notifier) tellStatus(status string) {
	if n == nil {
		return
	}
	n.mu.Lock()
	same := n.status == status
	n.status = status
	n.mu.Unlock()
	if !same {
		n.tell("STATUS=" + status)
	}
}

// ready says that the start, or a reload, is over.
func (n *notifier) ready() { n.tell("READY=1") }

// reloading says that a reload begins; ready ends it.
func (n *notifier) reloading() {
	if n == nil {
		return
	}
	n.tell("RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", monotonicUsec()))
}

func (n *notifier) stopping() {
	n.tellStatus("stopping; sessions stay for their clients")
	n.tell("STOPPING=1")
}

func (n *notifier) close() {
	if n != nil {
		_ = n.conn.Close()
	}
}

// A subject is what the notifier tells of: a *server.Server.
type subject interface {
	Loaded() bool
	Mode() string
	Pulse(ctx context.Context) error
}

// lookEvery is the time between two looks at the server.
const lookEvery = 500 * time.Millisecond

// attend tells of the server until ctx ends. A member of a cluster is ready when it has its data
// and the others can reach it: were it to wait for a leader, the first of three that are started
// one after the other would never be ready. One that is alone is ready when it serves, which the
// caller says. Signs of life are given, twice as often as is asked, while the server's loops
// move; see server.Server.Pulse.
func (n *notifier) attend(ctx context.Context, s subject, member bool) {
	if n == nil {
		return
	}
	if n.every > 0 {
		done := make(chan struct{})
		defer func() { <-done }()
		go func() {
			defer close(done)
			n.keepAlive(ctx, s)
		}()
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for told := false; ; {
		if !told && member && s.Loaded() {
			told = true
			n.ready()
		}
		n.tellStatus(statusOf(s))
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func statusOf(s subject) string {
	switch mode := s.Mode(); {
	case !s.Loaded():
		return "loading the data"
	case mode == "":
		return "waiting for a leader"
	default:
		return "serving as " + mode
	}
}

// keepAlive gives signs of life.
func (n *notifier) keepAlive(ctx context.Context, s subject) {
	tick := time.NewTicker(n.every / 3)
	defer tick.Stop()
	for {
		look, cancel := context.WithTimeout(ctx, n.every/3)
		err := s.Pulse(look)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			n.tell("WATCHDOG=1")
		default:
			n.log.Error("the server does not move; systemd restarts it if that goes on", "reason", err, "after", n.every)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
