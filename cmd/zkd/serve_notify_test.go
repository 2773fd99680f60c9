package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/freeport"
)

// supervisor is systemd's end of the socket.
type supervisor struct {
	t    *testing.T
	name string
	conn *net.UnixConn

	mu   sync.Mutex
	got  []string // lines
	more chan struct{}
}

func newSupervisor(t *testing.T) *supervisor {
	t.Helper()
	dir, err := os.MkdirTemp("", "zkd-notify-") // a socket's path must be short
	require.NoError(t, err)
	s := &supervisor{t: t, name: filepath.Join(dir, "notify"), more: make(chan struct{}, 1)}
	s.conn, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: s.name, Net: "unixgram"})
	require.NoError(t, err)
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = s.conn.Close()
		<-done
		_ = os.RemoveAll(dir)
	})
	go func() {
		defer close(done)
		b := make([]byte, 4096)
		for {
			n, err := s.conn.Read(b)
			if err != nil {
				return
			}
			s.mu.Lock()
			s.got = append(s.got, strings.Split(string(b[:n]), "\n")...)
			s.mu.Unlock()
			select {
			case s.more <- struct{}{}:
			default:
			}
		}
	}()
	return s
}

// lines takes what has come so far, but for status lines that are not asked for.
func (s *supervisor) count(line string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.got {
		if strings.HasPrefix(l, line) {
			n++
		}
	}
	return n
}

// await waits until a line has come so often.
func (s *supervisor) await(line string, times int) {
	s.t.Helper()
	deadline := time.After(patience)
	for s.count(line) < times {
		select {
		case <-s.more:
		case <-deadline:
			s.mu.Lock()
			defer s.mu.Unlock()
			s.t.Fatalf("%s did not come %d times, but: %v", line, times, s.got)
		}
	}
}

// mark sends a line of the test itself, and waits until it has come behind all that was sent before.
func (s *supervisor) mark(line string) {
	s.t.Helper()
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: s.name, Net: "unixgram"})
	require.NoError(s.t, err)
	defer c.Close()
	_, err = c.Write([]byte(line))
	require.NoError(s.t, err)
	s.await(line, 1)
}

// A fakeSubject is as it is told to be.
type fakeSubject struct {
	mu     sync.Mutex
	loaded bool
	mode   string
	stands error
	pulses int
}

func (f *fakeSubject) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

func (f *fakeSubject) Loaded() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.loaded
}

func (f *fakeSubject) Mode() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mode
}

func (f *fakeSubject) Pulse(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pulses++
	return f.stands
}

func (f *fakeSubject) pulsesSoFar() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pulses
}

// notifierTo is one that systemd has started.
func notifierTo(t *testing.T, s *supervisor, usec string) *notifier {
	n := newNotifier(func(name string) string {
		return map[string]string{"NOTIFY_SOCKET": s.name, "WATCHDOG_USEC": usec}[name]
	}, slog.New(slog.DiscardHandler))
	require.NotNil(t, n)
	t.Cleanup(n.close)
	return n
}

// A member of a cluster is ready before there is a leader, and alive without one; a server whose
// loops stand gives no signs of life, and gives them again when they move.
func TestSystemdHearsHowAMemberIs(t *testing.T) {
	s := newSupervisor(t)
	n := notifierTo(t, s, "30000")
	f := &fakeSubject{}
	ctx, end := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.attend(ctx, f, true)
	}()
	s.await("STATUS=loading the data", 1)
	require.Zero(t, s.count("READY=1"))
	f.change(func() { f.loaded = true })
	s.await("READY=1", 1)
	s.await("STATUS=waiting for a leader", 1)
	s.await("WATCHDOG=1", s.count("WATCHDOG=1")+3)
	f.change(func() { f.mode = "follower" })
	s.await("STATUS=serving as follower", 1)

	f.change(func() { f.stands = errors.New("stands") })
	first := f.pulsesSoFar()
	require.Eventually(t, func() bool { return f.pulsesSoFar() > first+1 }, patience, time.Millisecond)
	s.mark("MARK=1")
	before := s.count("WATCHDOG=1")
	first = f.pulsesSoFar()
	require.Eventually(t, func() bool { return f.pulsesSoFar() > first+3 }, patience, time.Millisecond)
	s.mark("MARK=2")
	require.Equal(t, before, s.count("WATCHDOG=1"))
	f.change(func() { f.stands = nil })
	s.await("WATCHDOG=1", before+1)
	end()
	<-done
	n.stopping()
	s.await("STOPPING=1", 1)
	require.Equal(t, 1, s.count("READY=1"))
}

func TestWithoutSystemdNobodyIsTold(t *testing.T) {
	n := newNotifier(func(string) string { return "" }, slog.New(slog.DiscardHandler))
	require.Nil(t, n)
	n.ready()
	n.reloading()
	n.stopping()
	n.attend(t.Context(), &fakeSubject{}, true)
	n.close()
	require.Nil(t, newNotifier(func(string) string { return "/no/such/socket" }, slog.New(slog.DiscardHandler)))
}

func TestWatchdogOfAnotherProcessIsNotOurs(t *testing.T) {
	s := newSupervisor(t)
	for pid, want := range map[string]time.Duration{"1": 0, "": time.Second} {
		n := newNotifier(func(name string) string {
			return map[string]string{"NOTIFY_SOCKET": s.name, "WATCHDOG_USEC": "1000000", "WATCHDOG_PID": pid}[name]
		}, slog.New(slog.DiscardHandler))
		require.Equal(t, want, n.every, pid)
		n.close()
	}
}

func TestSystemdHearsOfAServer(t *testing.T) {
	s := newSupervisor(t)
	t.Setenv("NOTIFY_SOCKET", s.name)
	t.Setenv("WATCHDOG_USEC", "300000")
	p := start(t, filepath.Join(t.TempDir(), "data"), freeport.Addr(t))
	s.await("READY=1", 1)
	s.await("STATUS=serving as standalone", 1)
	s.await("WATCHDOG=1", 2)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGHUP))
	s.await("RELOADING=1", 1)
	s.await("MONOTONIC_USEC=", 1)
	s.await("READY=1", 2)
	require.NoError(t, p.stop(syscall.SIGTERM))
	s.await("STOPPING=1", 1)
}
