package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// T2: the connection is lost at every single reply of the procedure.
func TestRealProtectedCreateCutAtEveryReply(t *testing.T) {
	forEachServer(t, func(t *testing.T, s realServer) {
		watcher, ctx := s.dial(t), testContext(t)
		for n := range 12 {
			var count atomic.Int64
			p := newProxy(t, s.addr, func([]byte) bool { return count.Add(1) != int64(n+2) }) // the first is the handshake
			c := p.dial(t, fastRetry())
			dir := fmt.Sprintf("/t2-%d", n)
			path, stat, err := c.ProtectedCreate(ctx, dir+"/lock-", []byte("me"), ModeEphemeralSequential, nil, MakeParents())
			require.NoError(t, err)
			require.Equal(t, c.SessionID(), stat.EphemeralOwner)
			names, _, err := watcher.Children(ctx, dir, Fresh())
			require.NoError(t, err)
			require.Equal(t, []string{strings.TrimPrefix(path, dir+"/")}, names)
			require.NoError(t, c.SureDelete(ctx, path, AnyVersion))
			names, _, err = watcher.Children(ctx, dir, Fresh())
			require.NoError(t, err)
			require.Empty(t, names)
			require.NoError(t, c.Close(ctx))
		}
	})
}

// Versioned sets over connections that are lost all the time: every success is one step, every
// uncertain one at most one, and nothing else moves the counter.
func TestRealCounterIsExactOverLostConnections(t *testing.T) {
	forEachServer(t, func(t *testing.T, s realServer) {
		const clients, adds = 4, 60
		plain, ctx := s.dial(t), testContext(t)
		_, _, err := plain.Create(ctx, "/counter", []byte("0"), ModePersistent, nil)
		require.NoError(t, err)
		var sure, unsure atomic.Int64
		var running sync.WaitGroup
		for range clients {
			p := newProxy(t, s.addr, cutAtRandom(12))
			c := p.dial(t, fastRetry(), WithTimeout(30*time.Second))
			running.Go(func() {
				for range adds {
					switch err := add(ctx, c); {
					case err == nil:
						sure.Add(1)
					case errors.Is(err, ErrUncertain):
						unsure.Add(1)
					default:
						t.Errorf("add: %v", err)
						return
					}
				}
			})
		}
		running.Wait()
		data, _, err := plain.Get(ctx, "/counter", Fresh())
		require.NoError(t, err)
		n, err := strconv.ParseInt(string(data), 10, 64)
		require.NoError(t, err)
		t.Logf("%d sure, %d uncertain, counter %d", sure.Load(), unsure.Load(), n)
		require.GreaterOrEqual(t, n, sure.Load(), "a success that was none")
		require.LessOrEqual(t, n, sure.Load()+unsure.Load(), "an add that was done twice")
	})
}

func add(ctx context.Context, c *Client) error {
	for {
		data, stat, err := c.Get(ctx, "/counter")
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(data))
		if err != nil {
			return err
		}
		_, err = c.Set(ctx, "/counter", []byte(strconv.Itoa(n+1)), stat.Version)
		if errors.Is(err, ErrUncertain) || !errors.Is(err, ErrBadVersion) {
			return err
		}
	}
}

// A mirror follows a tree by a Subscription, as a cache does.
type mirror struct {
	mu    sync.Mutex
	nodes map[string]string
}

// follow keeps the mirror up to date until ctx ends: after an EventReset it reads everything,
// after an event the node.
func (m *mirror) follow(ctx context.Context, c *Client, root string) error {
	for ev, err := range c.Watch(ctx, root, Recursive, Queue(50)) {
		switch {
		case errors.Is(err, ErrLagged), err == nil && ev.Type == EventReset:
			err = m.readAll(ctx, c, root)
		case err == nil:
			err = m.read(ctx, c, ev.Path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *mirror) read(ctx context.Context, c *Client, path string) error {
	data, stat, err := c.Get(ctx, path)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case errors.Is(err, ErrNoNode):
		delete(m.nodes, path)
		return nil
	case err == nil:
		m.nodes[path] = fmt.Sprintf("%s v%d", data, stat.Version)
	}
	return err
}

func (m *mirror) readAll(ctx context.Context, c *Client, root string) error {
	found, err := readTree(ctx, c, root)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.nodes = found
	return nil
}

func (m *mirror) text() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return fmt.Sprint(m.nodes)
}

func readTree(ctx context.Context, c *Client, path string) (map[string]string, error) {
	found := map[string]string{}
	data, stat, err := c.Get(ctx, path)
	if errors.Is(err, ErrNoNode) {
		return found, nil
	}
	if err != nil {
		return nil, err
	}
	found[path] = fmt.Sprintf("%s v%d", data, stat.Version)
	names, _, err := c.Children(ctx, path)
	if err != nil && !errors.Is(err, ErrNoNode) {
		return nil, err
	}
	for _, n := range names {
		below, err := readTree(ctx, c, join(path, n))
		if err != nil {
			return nil, err
		}
		for p, v := range below {
			found[p] = v
		}
	}
	return found, nil
}

// T14: four clients write at random while all connections are lost again and again. In the end
// two mirrors show the tree, one of them by an imitated subscription, and a chain of one-shot
// watches has seen the newest version of its node.
func TestRealWatchersMissNothingOverLostConnections(t *testing.T) {
	forEachServer(t, func(t *testing.T, s realServer) {
		plain, ctx := s.dial(t), testContext(t)
		_, _, err := plain.Create(ctx, "/t", nil, ModePersistent, nil)
		require.NoError(t, err)
		run, stop := context.WithCancel(ctx)
		defer stop()
		var watching, writing sync.WaitGroup
		mirrors := []*mirror{{nodes: map[string]string{}}, {nodes: map[string]string{}}}
		for i, m := range mirrors {
			p := newProxy(t, s.addr, cutAtRandom(40))
			opts := []Option{fastRetry(), WithTimeout(30 * time.Second)}
			if i == 1 {
				opts = append(opts, WithLegacyServer())
			}
			c := p.dial(t, opts...)
			watching.Go(func() {
				if err := m.follow(run, c, "/t"); !errors.Is(err, context.Canceled) {
					t.Errorf("mirror %d: %v", i, err)
				}
			})
		}
		var last atomic.Int32
		p := newProxy(t, s.addr, cutAtRandom(20))
		chain := p.dial(t, fastRetry(), WithTimeout(30*time.Second))
		watching.Go(func() { followOne(run, t, chain, "/t", &last) })
		for i := range 4 {
			p := newProxy(t, s.addr, cutAtRandom(30))
			c := p.dial(t, fastRetry(), WithTimeout(30*time.Second))
			writing.Go(func() { writeAtRandom(ctx, c, rand.New(rand.NewPCG(uint64(i), 1)), 200) })
		}
		writing.Wait()
		want, err := readTree(ctx, plain, "/t")
		require.NoError(t, err)
		_, stat, err := plain.Get(ctx, "/t")
		require.NoError(t, err)
		for i, m := range mirrors {
			t.Logf("the tree has %d nodes", len(want))
			defer func() {
				if m.text() != fmt.Sprint(want) {
					t.Logf("mirror %d shows\n%s\nand the tree is\n%v", i, m.text(), want)
				}
			}()
			eventually(t, fmt.Sprintf("mirror %d shows the tree", i), func() bool { return m.text() == fmt.Sprint(want) })
		}
		eventually(t, "the one-shot watches have led to the newest version", func() bool { return last.Load() == stat.Version })
		stop()
		watching.Wait()
	})
}

// followOne reads a node again whenever its watch fires. What it reads never goes back.
func followOne(ctx context.Context, t *testing.T, c *Client, path string, last *atomic.Int32) {
	for {
		_, stat, w, err := c.GetW(ctx, path)
		if err == nil {
			if stat.Version < last.Load() {
				t.Errorf("version %d after %d", stat.Version, last.Load())
			}
			last.Store(stat.Version)
			_, err = w.Wait(ctx)
		}
		if err != nil {
			if !errors.Is(err, context.Canceled) && !errors.Is(err, ErrSessionExpired) {
				t.Errorf("chain: %v", err)
			}
			if ctx.Err() != nil {
				return
			}
		}
	}
}

func writeAtRandom(ctx context.Context, c *Client, rnd *rand.Rand, n int) {
	for range n {
		path := "/t"
		for rnd.IntN(3) > 0 && len(path) < 8 {
			path += "/" + string(rune('a'+rnd.IntN(3)))
		}
		switch rnd.IntN(4) {
		case 0, 1:
			_, _, _ = c.Create(ctx, path, []byte{byte('0' + rnd.IntN(10))}, ModePersistent, nil)
		case 2:
			_, _ = c.Set(ctx, path, []byte{byte('0' + rnd.IntN(10))}, AnyVersion)
		case 3:
			if path != "/t" {
				_ = c.Delete(ctx, path, AnyVersion)
			}
		}
	}
}

// T3 in real time: the network goes silent; the holder knows it before the others can. Virtual time
// tells more of it, see TestSessionIsLostHereBeforeItIsLostThere; this is with servers that are none of ours, too.
func TestRealSilenceIsNoticedBeforeTheServerGivesUp(t *testing.T) {
	forEachServer(t, func(t *testing.T, s realServer) {
		plain, ctx := s.dial(t), testContext(t)
		var holders sync.WaitGroup
		for i := range 20 {
			p := newProxy(t, s.addr, nil)
			c := p.dial(t, WithTimeout(time.Second))
			path := fmt.Sprintf("/hold-%d", i)
			hold, w := holdOne(t, ctx, c, plain, path)
			holders.Go(func() {
				p.silent.Store(true)
				ev, err := w.Wait(ctx)
				valid := hold.Valid() // a matter of clocks; how early Done tells depends on how late a timer fires
				if err != nil || ev.Type != EventDeleted || valid {
					t.Errorf("%s: the others were told of %v, %v, and the holder thinks that it holds: %v", path, ev, err, valid)
				}
				<-hold.Done()
				if !errors.Is(hold.Err(), ErrSessionLapsed) {
					t.Errorf("%s: the hold ended with %v", path, hold.Err())
				}
			})
		}
		holders.Wait()
	})
}

// holdOne makes an ephemeral node that others watch, in a session that is so short that it may be over
// when all is ready: then it begins anew.
func holdOne(t *testing.T, ctx context.Context, c, others *Client, path string) (*Session, *Watch) {
	t.Helper()
	for {
		hold, err := c.AwaitSession(ctx)
		require.NoError(t, err)
		if _, _, err = c.ProtectedCreate(ctx, path, nil, ModeEphemeral, nil, Unique(), In(hold)); err == nil {
			_, exists, w, err := others.ExistsW(ctx, path, Fresh())
			require.NoError(t, err)
			if exists && hold.Valid() {
				return hold, w
			}
			require.NoError(t, w.Remove(ctx))
		}
		require.NoError(t, ctx.Err(), "%v", err)
	}
}

// pausedHolder is the other process of the next test: it holds an ephemeral node, and when a
// line comes in says whether it still thinks so, and what a guarded write does.
func pausedHolder(addr string) {
	ctx, cancel := context.WithTimeout(context.Background(), testLimit)
	defer cancel()
	c, err := Dial(ctx, addr, WithTimeout(2*time.Second))
	if err != nil {
		panic(err)
	}
	const path = "/held"
	var hold *Session
	for hold == nil || err != nil || !hold.Valid() { // it begins anew if the machine stands still meanwhile
		if hold, err = c.AwaitSession(ctx); err != nil {
			panic(err)
		}
		_, _, err = c.ProtectedCreate(ctx, path, nil, ModeEphemeral, nil, Unique(), In(hold))
	}
	guard := c.OpCheck(path, AnyVersion)
	fmt.Println("holding")
	bufio.NewScanner(os.Stdin).Scan()
	valid := hold.Valid() // before any timer had a chance to say so
	_, err = c.Multi().Add(guard).Set("/written", []byte("by the paused"), AnyVersion).Commit(ctx)
	fmt.Println(valid, err != nil)
}

// T4: a process is stopped for longer than its session lives.
func TestRealPausedProcessKnowsThatItLost(t *testing.T) {
	forEachServer(t, func(t *testing.T, s realServer) {
		c, ctx := s.dial(t), testContext(t)
		_, _, err := c.Create(ctx, "/written", []byte("by others"), ModePersistent, nil)
		require.NoError(t, err)
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "ZKD_PAUSED_HOLDER="+s.addr)
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
		lines := bufio.NewScanner(out)
		require.True(t, lines.Scan())
		require.Equal(t, "holding", lines.Text())

		require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
		_, held, w, err := c.ExistsW(ctx, "/held")
		require.NoError(t, err)
		if held {
			_, err = w.Wait(ctx) // the server gives the session up
			require.NoError(t, err)
		}
		_, err = fmt.Fprintln(in, "go on") // waits for the process in its pipe
		require.NoError(t, err)
		require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
		require.True(t, lines.Scan())
		require.Equal(t, "false true", lines.Text(), "not valid, and the guarded write failed")
		data, _, err := c.Get(ctx, "/written")
		require.NoError(t, err)
		require.Equal(t, "by others", string(data))
	})
}
