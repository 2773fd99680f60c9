package local_test

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/internal/local"
	"github.com/zkd-project/zkd/server/state"
)

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// A backupRig is a cluster with a client at every server.
type backupRig struct {
	t     *testing.T
	c     *local.Cluster
	conns []*zk.Conn
}

func newBackupRig(t *testing.T) *backupRig {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	sum := sha1.Sum([]byte("super:secret"))
	c, err := local.Start(ctx, local.Options{Nodes: 3, Settings: []config.Override{
		{Key: "DigestAuthenticationProvider.superDigest", Value: "super:" + base64.StdEncoding.EncodeToString(sum[:])},
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	r := &backupRig{t: t, c: c}
	for n := range 3 {
		r.conns = append(r.conns, r.connect(n+1))
	}
	return r
}

func (r *backupRig) connect(number int) *zk.Conn {
	conn, events, err := zk.Connect([]string{r.c.Addr(number)}, 30*time.Second, zk.WithLogger(quiet{}))
	require.NoError(r.t, err)
	r.t.Cleanup(conn.Close)
	for e := range events {
		if e.State == zk.StateHasSession {
			break
		}
	}
	return conn
}

var open = zk.WorldACL(zk.PermAll)

// patience is for what must happen, on a machine that may be busy, or stand still, for long.
const patience = 2 * time.Minute

// lost says whether an error is that of a connection. A machine that stands still for a second costs
// a leader its place, and clients their connections.
func lost(err error) bool {
	return errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrNoServer)
}

// try repeats what a lost connection has kept from being answered.
func (r *backupRig) try(what string, f func() error) {
	r.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		err := f()
		if err == nil {
			return
		}
		require.True(r.t, lost(err) && time.Now().Before(deadline), "%s: %v", what, err)
	}
}

func (r *backupRig) create(path, data string, flags int32) {
	r.t.Helper()
	tries := 0
	r.try(path, func() error {
		_, err := r.conns[0].Create(path, []byte(data), flags, open)
		if tries++; tries > 1 && errors.Is(err, zk.ErrNodeExists) {
			return nil // the try before was done
		}
		return err
	})
}

func (r *backupRig) set(path, data string) {
	r.t.Helper()
	r.try(path, func() error {
		_, err := r.conns[0].Set(path, []byte(data), -1)
		return err
	})
}

func (r *backupRig) stat(path string) (found bool, stat *zk.Stat) {
	r.t.Helper()
	r.try(path, func() (err error) {
		found, stat, err = r.conns[0].Exists(path)
		return err
	})
	return found, stat
}

// save is what one of the servers gives to be saved.
func (r *backupRig) save(number int) []byte {
	in, zxid, size, err := r.c.Server(number).Face().SaveBackup(r.t.Context())
	require.NoError(r.t, err)
	defer in.Close()
	b, err := io.ReadAll(in)
	require.NoError(r.t, err)
	require.Len(r.t, b, int(size))
	require.Positive(r.t, zxid)
	return b
}

func (r *backupRig) restore(number int, backup []byte, from, into string) (state.Restored, error) {
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	return r.c.Server(number).Face().RestoreBackup(ctx, netip.Addr{}, bytes.NewReader(backup), from, into)
}

// A load writes and reads through all servers until it is stopped.
type load struct {
	stop    chan struct{}
	done    sync.WaitGroup
	writes  atomic.Int64
	errs    atomic.Int64
	mixed   atomic.Int64 // somebody saw the new tree, and then the old one
	lastErr atomic.Pointer[error]
}

// begin writes /load, and reads a pair of nodes of which a restore changes both.
func (r *backupRig) begin(first, last string) *load {
	l := &load{stop: make(chan struct{})}
	for i, conn := range r.conns {
		path := fmt.Sprintf("/load/%d", i)
		r.create(path, "", 0)
		l.run(func() error {
			_, err := conn.Set(path, []byte("x"), -1)
			l.writes.Add(1)
			return err
		})
		l.run(func() error {
			for _, pair := range [][2]string{{first, last}, {last, first}} {
				a, _, err := conn.Get(pair[0])
				if err != nil {
					return err
				}
				b, _, err := conn.Get(pair[1])
				if err != nil {
					return err
				}
				if string(a) == "saved" && string(b) != "saved" {
					l.mixed.Add(1)
				}
			}
			return nil
		})
	}
	return l
}

func (l *load) run(f func() error) {
	l.done.Go(func() {
		for {
			select {
			case <-l.stop:
				return
			default:
			}
			if err := f(); err != nil {
				l.errs.Add(1)
				l.lastErr.Store(&err)
				return
			}
		}
	})
}

// end stops the load and says whether anybody was disturbed.
func (l *load) end(t *testing.T) error {
	close(l.stop)
	l.done.Wait()
	require.Zero(t, l.mixed.Load(), "a client saw half of a restore")
	if err := l.lastErr.Load(); err != nil {
		return fmt.Errorf("%d clients were disturbed: %w", l.errs.Load(), *err)
	}
	require.Positive(t, l.writes.Load())
	return nil
}

const backupNodes = 200

func node(i int) string { return fmt.Sprintf("/app/n%03d", i) }

// fill makes a tree that needs several chunks, one of them for a single node.
func (r *backupRig) fill() {
	r.create("/load", "", 0)
	r.create("/app", "", 0)
	for i := range backupNodes {
		r.create(node(i), "saved", 0)
	}
	r.create("/app/large", string(bytes.Repeat([]byte("0123456789abcdef"), 40<<10)), 0)
	for i := range 5 {
		r.create(fmt.Sprintf("/app/large%d", i), string(bytes.Repeat([]byte{byte(i)}, 200<<10)), 0)
	}
}

// A restore disturbs no client. What stands still for too long does, and is not told from a restore:
// one of a few restores must disturb nobody.
func TestRestoreOfAServingCluster(t *testing.T) {
	const tries = 5
	for i := range tries {
		disturbed := restoreWhileServing(t)
		if disturbed == nil {
			return
		}
		require.True(t, lost(disturbed), "%v", disturbed)
		require.Less(t, i, tries-1, "%v", disturbed)
		t.Logf("again: %v", disturbed)
	}
}

// restoreWhileServing says how clients were disturbed by a restore.
func restoreWhileServing(t *testing.T) error {
	r := newBackupRig(t)
	r.fill()
	r.create("/app/own", "x", 0)
	acl := zk.DigestACL(zk.PermAll, "bob", "secret")
	r.try("the list of /app/own", func() error {
		_, err := r.conns[0].SetACL("/app/own", acl, -1)
		return err
	})
	backup := r.save(r.c.Leader()%3 + 1)

	for i := range backupNodes {
		r.set(node(i), "later")
	}
	super := r.connect(1)
	r.try("the superuser", func() error { return super.AddAuth("digest", []byte("super:secret")) })
	r.try("the open list of /app/own", func() error {
		_, err := super.SetACL("/app/own", open, -1)
		return err
	})
	r.try("the deletion of /app/large", func() error {
		if err := r.conns[0].Delete("/app/large", -1); !errors.Is(err, zk.ErrNoNode) { // by a try before
			return err
		}
		return nil
	})
	r.create("/app/new", "", 0)
	r.create("/app/alive", "", zk.FlagEphemeral)
	var changed, children <-chan zk.Event
	r.try("a watch", func() (err error) { _, _, changed, err = r.conns[1].GetW(node(0)); return err })
	r.try("a watch", func() (err error) { _, _, children, err = r.conns[2].ChildrenW("/app"); return err })
	_, before := r.stat("/app")

	l := r.begin(node(0), node(backupNodes-1))
	done, err := r.restore(r.c.Leader()%3+1, backup, "/app", "")
	disturbed := l.end(t)
	require.NoError(t, err)
	require.EqualValues(t, backupNodes+1, done.Changed)
	require.EqualValues(t, 1, done.Created)
	require.EqualValues(t, 1, done.Deleted)
	require.EqualValues(t, 1, done.Kept)
	for name, ch := range map[string]<-chan zk.Event{"data": changed, "children": children} {
		select {
		case e := <-ch:
			require.Contains(t, []zk.EventType{zk.EventNodeDataChanged, zk.EventNodeChildrenChanged}, e.Type)
		case <-time.After(patience):
			t.Errorf("the watch of %s was not told", name)
		}
	}
	r.isRestored(done, before)
	return disturbed
}

// isRestored checks that every server has what restoreWhileServing has restored.
func (r *backupRig) isRestored(done state.Restored, before *zk.Stat) {
	t := r.t
	t.Helper()
	for n, conn := range r.conns {
		r.try("a sync", func() error { _, err := conn.Sync("/app"); return err })
		for _, path := range []string{node(0), node(backupNodes - 1)} {
			var data []byte
			var stat *zk.Stat
			r.try(path, func() (err error) { data, stat, err = conn.Get(path); return err })
			require.Equal(t, "saved", string(data), "server %d", n+1)
			require.Equal(t, done.Zxid, stat.Mzxid, "one zxid on all servers")
			require.Greater(t, stat.Mzxid, before.Mzxid)
		}
		for path, want := range map[string]bool{"/app/large": true, "/app/new": false, "/app/alive": true, "/load/0": true} {
			var found bool
			r.try(path, func() (err error) { found, _, err = conn.Exists(path); return err })
			require.Equal(t, want, found, path)
		}
		r.try("a read without permission", func() error {
			_, _, err := conn.Get("/app/own")
			if !lost(err) {
				require.ErrorIs(t, err, zk.ErrNoAuth, "the list has come back")
				return nil
			}
			return err
		})
	}
}

func TestRestoreGoesOnWhileLeadersChange(t *testing.T) {
	r := newBackupRig(t)
	r.fill()
	backup := r.save(1)
	for i := range backupNodes {
		r.set(node(i), "later")
	}
	var restored atomic.Bool
	handed := make(chan int, 1)
	go func() {
		n := 0
		for !restored.Load() && n < 20 {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			if r.c.HandOver(ctx) == nil {
				n++
			}
			cancel()
		}
		handed <- n
	}()
	done, err := r.restore(2, backup, "/", "/")
	restored.Store(true)
	require.NoError(t, err)
	t.Logf("%d leaders", <-handed)
	require.EqualValues(t, backupNodes, done.Changed)
	for _, conn := range r.conns {
		require.Eventually(t, func() bool {
			_, err := conn.Sync("/app")
			if err != nil {
				return false
			}
			data, _, err := conn.Get(node(7))
			return err == nil && string(data) == "saved"
		}, patience, 5*time.Millisecond)
	}
	again, err := r.restore(3, backup, "/", "/")
	require.NoError(t, err)
	require.Zero(t, again.Changed+again.Created+again.Deleted, "what is as in the backup is not touched")
	require.Greater(t, again.Zxid, done.Zxid)
}

func TestBadBackupsChangeNothing(t *testing.T) {
	r := newBackupRig(t)
	r.create("/p", "saved", 0)
	backup := r.save(1)
	r.set("/p", "later")
	_, before := r.stat("/p")
	for name, tt := range map[string]struct {
		data       []byte
		from, into string
	}{
		"nothing":          {nil, "", ""},
		"no backup":        {bytes.Repeat([]byte("x"), 500), "", ""},
		"cut off":          {backup[:len(backup)-9], "", ""},
		"damaged":          {append(append(bytes.Clone(backup[:len(backup)/2]), backup[len(backup)/2]^1), backup[len(backup)/2+1:]...), "", ""},
		"no such node":     {backup, "/none", ""},
		"no parent":        {backup, "/p", "/none/p"},
		"a reserved place": {backup, "/p", "/zookeeper/p"},
	} {
		for deadline := time.Now().Add(patience); ; {
			_, err := r.restore(1, tt.data, tt.from, tt.into)
			require.Error(t, err, name)
			if errors.Is(err, state.ErrBadBackup) {
				break
			}
			// While nobody leads, nobody can tell.
			require.True(t, time.Now().Before(deadline), "%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the client has gone"))
	_, err := r.c.Server(1).Face().RestoreBackup(ctx, netip.Addr{}, bytes.NewReader(backup), "", "")
	require.Error(t, err)
	var data []byte
	var after *zk.Stat
	r.try("/p", func() (err error) { data, after, err = r.conns[0].Get("/p"); return err })
	require.Equal(t, "later", string(data))
	require.Equal(t, before.Mzxid, after.Mzxid)
}
