package recipes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/client"
)

// create makes a persistent node that is not there.
func create(t testing.TB, c *client.Client, path, data string) {
	t.Helper()
	for again := false; ; again = true {
		_, _, err := c.Create(testContext(t), path, []byte(data), client.ModePersistent, nil, client.MakeParents())
		switch {
		case errors.Is(err, client.ErrUncertain): // a cluster has lost its leader
			continue
		case !again || !errors.Is(err, client.ErrNodeExists):
			require.NoError(t, err)
		}
		return
	}
}

func set(t testing.TB, c *client.Client, path, data string) {
	t.Helper()
	_, err := c.Set(testContext(t), path, []byte(data), client.AnyVersion)
	require.NoError(t, err)
}

func remove(t testing.TB, c *client.Client, path string) {
	t.Helper()
	require.NoError(t, c.Delete(testContext(t), path, client.AnyVersion))
}

// reading collects the events of a cache as text.
func reading[T any](t testing.TB, k *Cache[T]) (next func() string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ch := make(chan string, 10000)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ev, err := range k.Events(ctx) {
			if err != nil {
				ch <- "error " + err.Error()
				continue
			}
			line := strings.TrimSpace(fmt.Sprintf("%v %s", ev.Type, ev.Path()))
			if ev.New.Path != "" {
				line += fmt.Sprintf(" %v", ev.New.Value)
			}
			ch <- line
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return func() string {
		select {
		case s := <-ch:
			return s
		case <-time.After(testLimit):
			require.FailNow(t, "no event came")
			return ""
		}
	}
}

func TestNodeCacheFollowsOneNode(t *testing.T) {
	r := newRig(t)
	r.stays("/a")
	c, w := r.dial(), r.dial()
	k := NewNodeCache(c, "/a", Text())
	defer k.Close()
	require.NoError(t, k.Ready(testContext(t)))
	require.Zero(t, k.Len())
	next := reading(t, k)
	require.Equal(t, "Initialized", next())
	create(t, w, "/a", "1")
	require.Equal(t, "Created /a 1", next())
	create(t, w, "/a/child", "")
	set(t, w, "/a", "2")
	require.Equal(t, "Changed /a 2", next())
	e, ok := k.Get("/a")
	require.True(t, ok)
	require.Equal(t, "2", e.Value)
	require.Equal(t, int32(1), e.Stat.Version)
	remove(t, w, "/a/child")
	remove(t, w, "/a")
	require.Equal(t, "Deleted /a", next())
	create(t, w, "/a", "3")
	require.Equal(t, "Created /a 3", next())
	r.srv.ExpireSession(c.SessionID())
	set(t, w, "/a", "4")
	require.Equal(t, "Changed /a 4", next())
}

func TestChildrenCacheFollowsChildrenOnly(t *testing.T) {
	r := newRig(t)
	r.stays("/a")
	c := r.dial()
	create(t, c, "/a/x", "1")
	k := NewChildrenCache(c, "/a", Text())
	defer k.Close()
	next := reading(t, k)
	require.Equal(t, "Created /a/x 1", next())
	require.Equal(t, "Initialized", next())
	create(t, c, "/a/x/deep", "no")
	set(t, c, "/a", "no")
	create(t, c, "/a/y", "2")
	require.Equal(t, "Created /a/y 2", next())
	set(t, c, "/a/x", "3")
	require.Equal(t, "Changed /a/x 3", next())
	remove(t, c, "/a/y")
	require.Equal(t, "Deleted /a/y", next())
	require.Equal(t, 1, k.Len())
}

func TestTreeCacheFollowsEverything(t *testing.T) {
	r := newRig(t)
	r.stays("/a")
	c := r.dial()
	k := NewTreeCache(c, "/a", Decimal[int64]())
	defer k.Close()
	next := reading(t, k)
	require.Equal(t, "Initialized", next())
	create(t, c, "/a", "1")
	create(t, c, "/a/b", "2")
	create(t, c, "/a/b/c", "no number")
	require.Equal(t, "Created /a 1", next())
	require.Equal(t, "Created /a/b 2", next())
	require.Equal(t, "Created /a/b/c 0", next())
	e, _ := k.Get("/a/b/c")
	require.ErrorContains(t, e.Err, "decode /a/b/c")
	remove(t, c, "/a/b/c")
	require.Equal(t, "Deleted /a/b/c", next())
	late := reading(t, k)
	require.Equal(t, "Created /a 1", late())
	require.Equal(t, "Created /a/b 2", late())
	require.Equal(t, "Initialized", late())
}

func TestCacheHasBounds(t *testing.T) {
	r := newRig(t)
	r.stays("/a")
	c := r.dial()
	k := NewTreeCache(c, "/a", Text(), MaxEvents(10))
	defer k.Close()
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	lagged, seen := false, map[string]bool{}
	for ev, err := range k.Events(ctx) {
		switch {
		case errors.Is(err, client.ErrLagged):
			lagged, seen = true, map[string]bool{}
			continue
		case err != nil:
			require.NoError(t, err)
		case ev.Type == CacheInitialized && !lagged: // and now we are slow
			for i := range 50 {
				create(t, c, fmt.Sprintf("/a/%02d", i), "")
			}
			eventually(t, "the cache knows them", func() bool { return k.Len() == 51 })
		case ev.Type == CacheInitialized:
			cancel()
		default:
			seen[ev.Path()] = true
		}
		if ctx.Err() != nil {
			break
		}
	}
	require.True(t, lagged)
	require.Len(t, seen, 51)

	small := NewTreeCache(c, "/a", Text(), MaxNodes(20))
	await(t, "it ends", small.Done())
	require.ErrorContains(t, small.Err(), "more than 20 nodes")
	require.ErrorContains(t, small.Ready(testContext(t)), "more than 20 nodes")
	small.Close()
}

func TestCacheShowsNodesThatMayNotBeRead(t *testing.T) {
	r := newRig(t)
	r.stays("/a")
	c := r.dial()
	create(t, c, "/a", "1")
	_, _, err := c.Create(testContext(t), "/a/secret", []byte("x"), client.ModePersistent, client.WorldACL(client.PermDelete))
	require.NoError(t, err)
	k := NewTreeCache(c, "/a", Text())
	defer k.Close()
	require.NoError(t, k.Ready(testContext(t)))
	e, ok := k.Get("/a/secret")
	require.True(t, ok)
	require.ErrorIs(t, e.Err, client.ErrNoAuth)
}

// T14: writes by four clients while connections are cut; at the end the cache is the tree, and so
// is what the events lead to.
func TestCacheEqualsTheTree(t *testing.T) {
	writes := 400
	if testing.Short() {
		writes = 100
	}
	r := newRig(t)
	r.stays("/t")
	var p tap
	c := r.dial(p.option(), client.WithReconnect(client.BackoffFunc(func(int) (time.Duration, bool) { return time.Millisecond, true })))
	create(t, c, "/t", "")
	k := NewTreeCache(c, "/t", Text())
	defer k.Close()
	replayed := map[string]string{}
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	var mu sync.Mutex
	var reader sync.WaitGroup
	reader.Go(func() {
		for ev, err := range k.Events(ctx) {
			mu.Lock()
			replay(t, replayed, ev, err)
			mu.Unlock()
		}
	})
	var writers sync.WaitGroup
	for range 4 {
		w := r.dial()
		writers.Go(func() { scribble(t, w, writes) })
	}
	stop := make(chan struct{})
	var cutter sync.WaitGroup
	cutter.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(rand.IntN(10)) * time.Millisecond): // the rhythm of the faults
			}
			if i%10 == 9 {
				r.srv.ExpireSession(c.SessionID())
			}
			p.cut()
		}
	})
	writers.Wait()
	close(stop)
	cutter.Wait()
	want := map[string]string{}
	readTree(t, r.dial(), "/t", want)
	eventually(t, "the cache is the tree", func() bool {
		have := map[string]string{}
		for path, e := range k.All() {
			have[path] = e.Value
		}
		mu.Lock()
		defer mu.Unlock()
		return equal(have, want) && equal(replayed, want)
	})
	cancel()
	reader.Wait()
}

// T14: what is changed, made and deleted while there is no connection is told after it.
func TestCacheLearnsWhatItHasMissed(t *testing.T) {
	r := newRig(t)
	r.stays("/t")
	w := r.dial()
	for _, path := range []string{"/t", "/t/kept", "/t/changed", "/t/deleted"} {
		create(t, w, path, "old")
	}
	var p tap
	k := NewTreeCache(r.dial(p.option(), fastReconnect()), "/t", Text())
	defer k.Close()
	require.NoError(t, k.Ready(testContext(t)))
	p.down.Store(true)
	p.cut()
	set(t, w, "/t/changed", "new")
	remove(t, w, "/t/deleted")
	create(t, w, "/t/made", "new")
	p.down.Store(false)
	want := map[string]string{"/t": "old", "/t/kept": "old", "/t/changed": "new", "/t/made": "new"}
	eventually(t, "the cache is the tree", func() bool {
		have := map[string]string{}
		for path, e := range k.All() {
			have[path] = e.Value
		}
		return equal(have, want)
	})
}

// replay applies an event to what the events before it have led to.
func replay(t *testing.T, state map[string]string, ev CacheEvent[string], err error) {
	old, known := state[ev.Path()]
	switch {
	case errors.Is(err, client.ErrLagged):
		clear(state)
	case err != nil:
	case ev.Type == CacheCreated:
		if known {
			t.Errorf("%s is created twice", ev.Path())
		}
		state[ev.Path()] = ev.New.Value
	case ev.Type == CacheChanged:
		if !known || old != ev.Old.Value {
			t.Errorf("%s is changed from %q, and was %q", ev.Path(), ev.Old.Value, old)
		}
		state[ev.Path()] = ev.New.Value
	case ev.Type == CacheDeleted:
		if !known {
			t.Errorf("%s is deleted and was not there", ev.Path())
		}
		delete(state, ev.Path())
	}
}

func equal(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			return false
		}
	}
	return true
}

func readTree(t testing.TB, c *client.Client, path string, into map[string]string) {
	data, _, err := c.Get(testContext(t), path, client.Fresh())
	require.NoError(t, err)
	into[path] = string(data)
	names, _, err := c.Children(testContext(t), path)
	require.NoError(t, err)
	for _, name := range names {
		readTree(t, c, join(path, name), into)
	}
}

// scribble writes at random below /t.
func scribble(t *testing.T, c *client.Client, writes int) {
	for i := range writes {
		path := "/t"
		for range 1 + rand.IntN(3) {
			path += fmt.Sprintf("/%d", rand.IntN(3))
		}
		var err error
		switch rand.IntN(4) {
		case 0:
			err = c.Delete(testContext(t), path, client.AnyVersion)
		case 1:
			_, err = c.Set(testContext(t), path, fmt.Append(nil, i), client.AnyVersion)
		default:
			_, _, err = c.Create(testContext(t), path, fmt.Append(nil, i), client.ModePersistent, nil)
		}
		expected := []error{client.ErrNoNode, client.ErrNodeExists, client.ErrNotEmpty}
		if err != nil && !slices.ContainsFunc(expected, func(e error) bool { return errors.Is(err, e) }) {
			t.Errorf("write: %v", err)
		}
	}
}

func TestCacheEndsWithItsClient(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	k := NewTreeCache(c, "/a", Bytes())
	require.NoError(t, k.Ready(testContext(t)))
	r.close(c)
	await(t, "it ends", k.Done())
	require.ErrorIs(t, k.Err(), client.ErrClosed)
	k.Close()
	require.NoError(t, k.Ready(testContext(t)), "it was ready once")
	for ev, err := range k.Events(testContext(t)) {
		if ev.Type != CacheInitialized {
			require.ErrorIs(t, err, client.ErrClosed)
		}
	}
}
