package client

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/zkd-project/zkd/wire"
)

func TestPathsAreCheckedBeforeTheyAreSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got seen
		f := newFake(t, recorded(&got, nil))
		c := f.client()
		for _, bad := range []string{"", "a", "/a/", "//", "/a//b", "/.", "/a/../b", "/a/.", "/\x00", "/a\x1fb", "/\u0085", "/\ue000", "/\ufffd", "/\U0001f600", "/\xff"} {
			_, _, err := c.Get(testContext(t), bad)
			require.ErrorIs(t, err, ErrBadArguments, "%q", bad)
			_, err = c.Multi().Set(bad, nil, 1).Commit(testContext(t))
			var m *MultiError
			require.ErrorAs(t, err, &m, "%q", bad)
			_, err = c.MultiRead().Get(bad).Do(testContext(t))
			require.ErrorIs(t, err, ErrBadArguments, "%q", bad)
		}
		require.Empty(t, got.ops())
		for _, good := range []string{"/", "/a", "/a/b", "/...", "/.a", "/a.", "/ ", "/\u00a0", "/\uf900", "/ä"} {
			_, _, err := c.Get(testContext(t), good)
			require.NoError(t, err, "%q", good)
		}
		for path, ok := range map[string]bool{"/a/": true, "/a/.": true, "/a//": false, "/": true, "/a/./": false} {
			_, _, err := c.Create(testContext(t), path, nil, ModePersistentSequential, nil)
			require.Equal(t, ok, err == nil, "sequential %q: %v", path, err)
		}
		_, _, err := c.Chroot("bad").Get(testContext(t), "/a")
		require.ErrorIs(t, err, ErrBadArguments)
	})
}

func TestChrootIsInvisible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got seen
		f := newFake(t, recorded(&got, func(c *fakeConn, r fakeRequest) bool {
			switch r.Op {
			case wire.OpSync:
				c.event(EventDataChanged, r.path)
			case wire.OpGetEphemerals:
				c.reply(r, wire.OK, wire.AppendStrings(nil, []string{"/app/x/1", "/app/xy", "/app/x"}))
				return true
			case wire.OpSetACL:
				c.reply(r, wire.NoNode)
				return true
			}
			return false
		}))
		base, err := Dial(testContext(t), "127.0.0.1:1/app", f.options()...)
		require.NoError(t, err)
		defer abandonClient(base)
		c := base.Chroot("/x")
		ctx := testContext(t)
		require.Equal(t, "/app/x", c.Root())
		require.Same(t, c, c.Chroot("/"))
		path, _, err := c.Create(ctx, "/n", nil, ModePersistent, nil)
		require.NoError(t, err)
		require.Equal(t, "/n", path)
		require.Equal(t, "/app/x/n", new(got.last(wire.OpCreate2)).path)
		for local, server := range map[string]string{"/": "/app/x", "/n": "/app/x/n"} {
			_, _, w, err := c.GetW(ctx, local)
			require.NoError(t, err)
			require.Equal(t, server, new(got.last(wire.OpGetData)).path)
			require.NoError(t, c.Sync(ctx, local))
			require.Equal(t, Event{Type: EventDataChanged, Path: local}, <-w.C())
		}
		paths, err := c.Ephemerals(ctx, "")
		require.NoError(t, err)
		require.Equal(t, []string{"/1"}, paths)
		_, err = c.SetACL(ctx, "/n", nil, 1)
		require.ErrorContains(t, err, "setACL /n:")
		require.Equal(t, "/", strip("/app", "/app"))
		require.Equal(t, "/apple", strip("/app", "/apple"), "not below it")
	})
}

func TestMultiNamesTheOperationThatFailed(t *testing.T) {
	for _, tc := range []struct {
		codes []wire.Code
		index int
		want  wire.Code
	}{
		{[]wire.Code{wire.OK, wire.BadVersion, wire.RuntimeInconsistency}, 1, wire.BadVersion},
		{[]wire.Code{wire.NoNode, wire.RuntimeInconsistency, wire.RuntimeInconsistency}, 0, wire.NoNode},
		{[]wire.Code{wire.OK, wire.OK, wire.NotEmpty}, 2, wire.NotEmpty},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
				if r.Op != wire.OpMulti {
					return false
				}
				var results []wire.MultiResult
				for _, code := range tc.codes {
					results = append(results, wire.MultiResult{Op: wire.OpError, Code: code})
				}
				c.reply(r, wire.OK, wire.AppendMultiResults(nil, results))
				return true
			}))
			c := f.client()
			_, err := c.Multi().Check("/a", 1).Set("/b", nil, 2).Delete("/c", 3).Commit(testContext(t))
			var m *MultiError
			require.ErrorAs(t, err, &m)
			require.Equal(t, tc.index, m.Index)
			require.ErrorIs(t, err, tc.want)
			require.Equal(t, []string{"/a", "/b", "/c"}[tc.index], m.Err.Path)
			require.NotErrorIs(t, err, ErrUncertain)
		})
	}
}

func TestMultiRepliesThatDoNotFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
			if r.Op == wire.OpMulti || r.Op == wire.OpMultiRead {
				c.reply(r, wire.OK, wire.AppendMultiResults(nil, make([]wire.MultiResult, 0, 3)))
				n++
				return true
			}
			return false
		}))
		c := f.client()
		_, err := c.Multi().Check("/a", 1).Commit(testContext(t))
		require.ErrorIs(t, err, ErrMarshalling)
		_, err = c.MultiRead().Get("/a").Children("/b").Do(testContext(t))
		require.ErrorIs(t, err, ErrMarshalling)
		results, err := c.Multi().Commit(testContext(t))
		require.NoError(t, err, "an empty one")
		require.Empty(t, results)
	})
}

// oldServer answers what it does not know as ZooKeeper does: -6, and then the end; or as old
// Keepers do: the end.
func oldServer(silent bool, unknown ...wire.OpCode) func(*fakeConn) {
	return server(func(c *fakeConn, r fakeRequest) bool {
		for _, op := range unknown {
			if r.Op == op {
				if !silent {
					c.reply(r, wire.Unimplemented)
				}
				panic(errEnded)
			}
		}
		if r.Op == wire.OpMulti {
			d := wire.NewDecoder(r.body)
			ops, err := wire.DecodeMulti(&d, wire.IsMultiWrite, 0)
			results := make([]wire.MultiResult, len(ops))
			for i, o := range ops {
				if err == nil && o.Op != wire.OpCreate {
					c.reply(r, wire.Unimplemented)
					panic(errEnded)
				}
				results[i] = wire.MultiResult{Op: wire.OpCreate, Path: o.Create.Path}
			}
			c.reply(r, wire.OK, wire.AppendMultiResults(nil, results))
			return true
		}
		return false
	})
}

var newOps = []wire.OpCode{wire.OpCreate2, wire.OpCreateContainer, wire.OpAddWatch, wire.OpMultiRead, wire.OpSetWatches2, wire.OpRemoveWatches}

func TestOldServersAreServedWithOldOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, oldServer(false, newOps...))
		c := f.client()
		ctx := testContext(t)
		for range 2 {
			path, stat, err := c.Create(ctx, "/a", nil, ModePersistent, nil)
			require.NoError(t, err)
			require.Equal(t, "/a", path)
			require.Equal(t, int64(1), stat.Czxid, "by exists")
			_, _, err = c.CreateContainer(ctx, "/c", nil, nil)
			require.NoError(t, err)
			reads, err := c.MultiRead().Get("/a").Children("/b").Do(ctx)
			require.NoError(t, err)
			require.Equal(t, "data", string(reads[0].Data))
			_, err = c.Multi().Create("/m", nil, ModePersistent, nil).Commit(ctx)
			require.NoError(t, err)
		}
		_, _, w, err := c.GetW(ctx, "/a")
		require.NoError(t, err)
		require.NoError(t, w.Remove(ctx))
		require.NoError(t, c.Sync(ctx, "/"))
		dials := f.dials()
		_, _, w, err = c.GetW(ctx, "/a")
		require.NoError(t, err)
		require.NoError(t, w.Remove(ctx))
		require.NoError(t, c.Sync(ctx, "/"))
		require.Equal(t, dials, f.dials(), "each gap in its knowledge costs one connection, once")
		_, _, err = c.CreateTTL(ctx, "/t", nil, ModePersistent, time.Hour, nil)
		require.NoError(t, err)
	})
}

func TestLegacyOptionAvoidsWhatOldKeepersHangUpOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, oldServer(true, newOps...))
		c := f.client(WithLegacyServer())
		ctx := testContext(t)
		_, _, err := c.Create(ctx, "/a", nil, ModePersistent, nil)
		require.NoError(t, err)
		_, err = c.MultiRead().Get("/a").Do(ctx)
		require.NoError(t, err)
		s, err := c.Subscribe(ctx, "/a", Persistent)
		require.NoError(t, err)
		s.Close()
		require.Equal(t, 1, f.dials())
	})
}

func TestServerThatHangsUpOnAnOperationIsUnderstood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, oldServer(true, newOps...))
		c := f.client()
		ctx := testContext(t)
		s, err := c.Subscribe(ctx, "/a", Recursive)
		require.NoError(t, err)
		s.Close()
		tries := 0
		for _, _, err = c.Create(ctx, "/a", nil, ModePersistent, nil); err != nil; tries++ {
			require.ErrorIs(t, err, ErrUncertain, "nobody can know")
			require.Less(t, tries, 5)
			_, _, err = c.Create(ctx, "/a", nil, ModePersistent, nil)
		}
	})
}

func TestCredentialsAreSentAgainBeforeWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got seen
		f := newFake(t, recorded(&got, nil))
		c := f.client(WithAuth("digest", []byte("a:1")))
		ctx := testContext(t)
		require.NoError(t, c.AddAuth(ctx, "digest", []byte("b:2")))
		require.NoError(t, c.AddAuth(ctx, "digest", []byte("b:2")), "twice is once")
		_, _, _, err := c.GetW(ctx, "/a")
		require.NoError(t, err)
		before := len(got.ops())
		f.cut()
		require.NoError(t, c.Sync(ctx, "/"))
		require.Equal(t, []wire.OpCode{wire.OpAuth, wire.OpAuth, wire.OpSetWatches, wire.OpSync}, got.ops()[before:])
	})
}

func refuseAuth(c *fakeConn, r fakeRequest) bool {
	if r.Op == wire.OpAuth {
		c.reply(r, wire.AuthFailed)
		panic(errEnded)
	}
	return false
}

func TestRefusedCredentialsOfDialEndTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, server(refuseAuth))
		_, err := Dial(testContext(t), "127.0.0.1:1", f.options(WithAuth("digest", []byte("a:1")))...)
		require.ErrorIs(t, err, ErrAuthFailed)
		require.ErrorContains(t, err, "scheme digest")
		require.Equal(t, 1, f.dials())
	})
}

func TestRefusedCredentialsOfAddAuthAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, server(refuseAuth))
		c := f.client()
		require.ErrorIs(t, c.AddAuth(testContext(t), "digest", []byte("a:1")), ErrAuthFailed)
		require.NoError(t, c.Sync(testContext(t), "/"))
		require.Equal(t, StateConnected, c.State())
	})
}

// roServer is a read-only server; rw decides what isro says.
func roServer(rw func() bool) func(*fakeConn) {
	return script(func(c *fakeConn) {
		var head [4]byte
		if _, err := c.nc.Read(head[:]); err != nil {
			return
		}
		if string(head[:]) == "isro" {
			if rw() {
				_, _ = c.nc.Write([]byte("rw"))
			} else {
				_, _ = c.nc.Write([]byte("ro"))
			}
			return
		}
		body := make([]byte, 45)
		if _, err := c.nc.Read(body); err != nil {
			return
		}
		var req wire.ConnectRequest
		d := wire.NewDecoder(body)
		req.Decode(&d)
		switch {
		case rw():
			id := req.SessionID
			if id == 0 {
				id = 0x500
			}
			c.welcome(id, req.TimeoutMs)
		case !req.ReadOnly || req.SessionID != 0:
			return
		default:
			c.answer(&wire.ConnectResponse{TimeoutMs: req.TimeoutMs, SessionID: 0x999, Password: make([]byte, 16), ReadOnly: true, HasReadOnly: true})
		}
		c.serve(func(r fakeRequest) bool {
			if !rw() && r.Op == wire.OpSetData {
				c.reply(r, wire.NotReadOnly)
				return true
			}
			return false
		})
	})
}

func TestReadOnlyServerIsUsedUntilAReadWriteOneComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		writable := true
		rw := func() bool { mu.Lock(); defer mu.Unlock(); return writable }
		set := func(b bool) { mu.Lock(); writable = b; mu.Unlock() }
		f := newFake(t, roServer(rw))
		c := f.client(WithReadOnly())
		next := collectStates(t, c)
		require.Equal(t, StateConnected, next().State)
		require.Equal(t, int64(0x500), c.SessionID())
		session := c.Session()
		_, _, w, err := c.GetW(testContext(t), "/a")
		require.NoError(t, err)

		set(false) // the quorum is gone
		f.cut()
		require.Equal(t, StateDisconnected, next().State)
		require.Equal(t, StateReadOnly, next().State)
		_, _, err = c.Get(testContext(t), "/a")
		require.NoError(t, err)
		_, err = c.Set(testContext(t), "/a", nil, AnyVersion)
		require.ErrorIs(t, err, ErrNotReadOnly)
		_, err = c.Set(testContext(t), "/a", nil, AnyVersion, In(session))
		require.ErrorIs(t, err, ErrNotReadOnly)
		require.Equal(t, int64(0x500), c.SessionID(), "the quorum's session is kept")
		deadline := c.Deadline()
		time.Sleep(time.Second)
		_, _, err = c.Get(testContext(t), "/a")
		require.NoError(t, err)
		require.Equal(t, deadline, c.Deadline(), "nothing that a read-only server says keeps it alive")
		require.Equal(t, StateLapsed, next().State)
		require.Equal(t, StateReadOnly, next().State)
		require.False(t, session.Valid())

		set(true)
		require.Equal(t, StateDisconnected, next().State)
		require.Equal(t, StateConnected, next().State)
		require.Equal(t, int64(0x500), c.SessionID())
		_, err = c.Set(testContext(t), "/a", nil, AnyVersion)
		require.NoError(t, err)
		require.Empty(t, w.C(), "the watch lives on")
	})
}

func TestReadOnlyServerIsNoUseToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, roServer(func() bool { return false }))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := Dial(ctx, "127.0.0.1:1", f.options()...)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "does not serve")
	})
}

// A recorder is a Tracer that remembers.
type recorder struct {
	mu   sync.Mutex
	ops  []string
	conn []ConnEventKind
	last OpOutcome
}

type tracedKey struct{}

func (r *recorder) OpStart(ctx context.Context, op OpInfo) context.Context {
	return context.WithValue(ctx, tracedKey{}, op.Op)
}

func (r *recorder) OpEnd(ctx context.Context, op OpInfo, o OpOutcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Value(tracedKey{}) == op.Op {
		r.ops = append(r.ops, op.Op.String()+" "+op.Path)
	}
	r.last = o
}

func (r *recorder) Connection(ev ConnEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conn = append(r.conn, ev.Kind)
}

func TestTracerIsToldOfEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cut := true
		f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
			if r.Op == wire.OpGetData && cut {
				cut = false
				time.Sleep(time.Second)
				panic(errEnded)
			}
			return false
		}))
		rec := &recorder{}
		c := f.client(WithTracer(rec))
		_, _, _, err := c.GetW(testContext(t), "/a")
		require.NoError(t, err)
		require.Equal(t, []string{"getData /a"}, rec.ops)
		require.Equal(t, 2, rec.last.Attempts)
		require.GreaterOrEqual(t, rec.last.Took, time.Second)
		require.Positive(t, rec.last.Bytes)
		require.Positive(t, rec.last.Zxid)
		require.NoError(t, c.Close(testContext(t)))
		require.Equal(t, []ConnEventKind{ConnAttempt, ConnEstablished, ConnLost, ConnAttempt, ConnEstablished, ConnLost}, rec.conn)
		require.Equal(t, int64(1), c.Stats().Retries)
	})
}

func TestSlogTracer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		l := slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug}))
		f := newFake(t, server(nil))
		c := f.client(WithTracer(SlogTracer(l)))
		_, _, _, err := c.GetW(testContext(t), "/a")
		require.NoError(t, err)
		f.cut()
		require.NoError(t, c.Sync(testContext(t), "/"))
		require.NoError(t, c.Close(testContext(t)))
		for _, want := range []string{"what=attempt", "what=established", "what=lost", "what=rewatched", "watches=1 frames=1", "op=getData path=/a"} {
			require.Contains(t, b.String(), want)
		}
	})
}

func TestErrorTexts(t *testing.T) {
	e := &Error{Op: "getData", Path: "/a", Err: ErrNoNode, Detail: "why"}
	require.Equal(t, "getData /a: node does not exist (NONODE): why", e.Error())
	require.Equal(t, wire.NoNode, e.Code())
	require.Equal(t, wire.OK, (&Error{Op: "x", Err: context.Canceled}).Code())
	m := &MultiError{Index: 3, Err: e}
	require.True(t, strings.HasPrefix(m.Error(), "multi, operation 3: getData /a"))
	u := &UncertainError{Op: "multi", Cause: context.Canceled}
	require.Equal(t, "multi: the request was sent and its outcome is unknown: context canceled", u.Error())
	require.True(t, errors.Is(u, ErrUncertain) && errors.Is(u, context.Canceled))
}

// Servers are upgraded: what one did not know is tried again some day.
func TestLacksAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, oldServer(false, newOps...), oldServer(false, newOps...), server(nil))
		c := f.client()
		ctx := testContext(t)
		_, _, err := c.Create(ctx, "/a", nil, ModePersistent, nil)
		require.NoError(t, err)
		require.True(t, c.k.lacks(lackCreate2))
		time.Sleep(lackMemory + time.Second)
		f.cut()
		require.NoError(t, c.Sync(context.Background(), "/"))
		require.False(t, c.k.lacks(lackCreate2))
		_, _, err = c.Create(context.Background(), "/a", nil, ModePersistent, nil)
		require.NoError(t, err)
	})
}

// Two crashes in a row do not prove anything once the operation has been answered.
func TestSuspicionIsRefutedByAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
			if r.Op == wire.OpCreate2 {
				if n++; n%2 == 1 {
					panic(errEnded)
				}
			}
			return false
		}))
		c := f.client()
		for range 5 {
			_, _, err := c.Create(testContext(t), "/a", nil, ModePersistent, nil, Idempotent())
			require.NoError(t, err)
		}
		require.False(t, c.k.lacks(lackCreate2))
	})
}

func TestSlowResolverIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, server(nil))
		first := true
		resolve := func(ctx context.Context, _ string) ([]string, error) {
			if first {
				first = false
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return []string{"10.0.0.1"}, nil
		}
		start := time.Now()
		c, err := Dial(testContext(t), "zk", f.options(WithResolver(resolve), WithTimeout(6*time.Second))...)
		require.NoError(t, err)
		defer abandonClient(c)
		require.InDelta(t, 6.0, time.Since(start).Seconds(), 1)
	})
}
