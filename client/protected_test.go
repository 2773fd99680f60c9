package client

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/zkd-project/zkd/wire"
)

// A parent is a fake directory that executes creates, deletes, lists and syncs.
type parent struct {
	mu       sync.Mutex
	children map[string]int64 // name to owner
	counter  int
	made     int
	session  int64 // that new nodes belong to
}

func (p *parent) names() (list []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n := range p.children {
		list = append(list, n)
	}
	return list
}

// apply executes a request and returns what to answer; ok is false where usual will do.
func (p *parent) apply(r fakeRequest) (code wire.Code, body [][]byte, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := r.path[strings.LastIndexByte(r.path, '/')+1:]
	d := wire.NewDecoder(r.body)
	switch r.Op {
	case wire.OpCreate2, wire.OpCreate:
		var req wire.CreateRequest
		req.Decode(&d)
		path := req.Path
		if req.Flags&2 != 0 {
			n := "0000000000" + itoa(p.counter)
			name += n[len(n)-10:]
			path += n[len(n)-10:]
			p.counter++
		}
		owner := int64(0)
		if req.Flags&1 != 0 {
			owner = p.session
		}
		p.children[name] = owner
		p.made++
		body = [][]byte{wire.AppendString(nil, path)}
		if r.Op == wire.OpCreate2 {
			body = append(body, statBytes(wire.Stat{Czxid: 1, EphemeralOwner: owner}))
		}
		return wire.OK, body, true
	case wire.OpDelete:
		if _, there := p.children[name]; !there {
			return wire.NoNode, nil, true
		}
		delete(p.children, name)
		return wire.OK, nil, true
	case wire.OpExists:
		owner, there := p.children[name]
		if !there {
			return wire.NoNode, nil, true
		}
		return wire.OK, [][]byte{statBytes(wire.Stat{Czxid: 1, EphemeralOwner: owner})}, true
	case wire.OpGetChildren, wire.OpGetChildren2:
		var list []string
		for n := range p.children {
			list = append(list, n)
		}
		body = [][]byte{wire.AppendStrings(nil, list)}
		if r.Op == wire.OpGetChildren2 {
			body = append(body, statBytes(wire.Stat{}))
		}
		return wire.OK, body, true
	}
	return 0, nil, false
}

// parentServer serves p; cut may end the connection before or after a request is executed.
func parentServer(p *parent, got *seen, cut func(r fakeRequest, executed bool) bool) func(*fakeConn) {
	return script(func(c *fakeConn) {
		c.hello()
		p.mu.Lock()
		session := p.session
		p.mu.Unlock()
		c.welcome(session, 10000)
		c.serve(func(r fakeRequest) bool {
			got.add(r)
			if cut != nil && cut(r, false) {
				panic(errEnded)
			}
			code, body, ok := p.apply(r)
			if cut != nil && cut(r, true) {
				panic(errEnded)
			}
			if ok {
				c.zxid++
				c.reply(r, code, body...)
			}
			return ok
		})
	})
}

func newParent() *parent { return &parent{children: map[string]int64{}, session: 0x77} }

func TestUUIDs(t *testing.T) {
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	a, b := NewUUID(), NewUUID()
	require.Regexp(t, form, a)
	require.NotEqual(t, a, b)
}

// T2: the reply of a create is lost, before or after it was executed.
func TestProtectedCreateMakesExactlyOneNode(t *testing.T) {
	for _, mode := range []CreateMode{ModeEphemeralSequential, ModePersistentSequential, ModeEphemeral, ModePersistent} {
		for cuts := range 4 {
			for _, executed := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					p, left := newParent(), cuts
					var got seen
					f := newFake(t, parentServer(p, &got, func(r fakeRequest, after bool) bool {
						if r.Op == wire.OpCreate2 && after == executed && left > 0 {
							left--
							return true
						}
						return false
					}))
					c := f.client()
					path, stat, err := c.ProtectedCreate(testContext(t), "/locks/lock-", nil, mode, nil)
					require.NoError(t, err)
					require.Len(t, p.names(), 1)
					require.Equal(t, "/locks/"+p.names()[0], path)
					require.Regexp(t, `^/locks/_c_[0-9a-f-]{36}-lock-(\d{10})?$`, path)
					require.Equal(t, mode.Ephemeral(), stat.EphemeralOwner == c.SessionID())
					if cuts > 0 {
						require.Positive(t, got.count(wire.OpSync), "it looks behind a sync")
					}
				})
			}
		}
	}
}

// After the reconnect the client meets a follower that lags: it shows the node only after a sync.
func TestProtectedCreateFindsItsNodeOnALaggingServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParent()
		conns := 0
		f := newFake(t, script(func(c *fakeConn) {
			conns++
			first, synced := conns == 1, false
			c.accept()
			c.serve(func(r fakeRequest) bool {
				switch {
				case r.Op == wire.OpSync:
					synced = true
				case !first && !synced && r.Op == wire.OpGetChildren2:
					return false // an empty list
				}
				code, body, ok := p.apply(r)
				if first && r.Op == wire.OpCreate2 {
					panic(errEnded)
				}
				if ok {
					c.reply(r, code, body...)
				}
				return ok
			})
		}))
		_, _, err := f.client().ProtectedCreate(testContext(t), "/l/n-", nil, ModeEphemeralSequential, nil)
		require.NoError(t, err)
		require.Equal(t, 1, p.made)
	})
}

func TestProtectedCreateStartsAgainInANewSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParent()
		var got seen
		lost := false
		serve := parentServer(p, &got, func(r fakeRequest, after bool) bool {
			if r.Op == wire.OpCreate2 && after && !lost {
				lost = true
				p.mu.Lock()
				p.session = 0x78 // the next connection gets another session
				p.mu.Unlock()
				return true
			}
			return false
		})
		f := newFake(t, serve)
		c := f.client()
		path, stat, err := c.ProtectedCreate(testContext(t), "/l/n-", nil, ModeEphemeralSequential, nil)
		require.NoError(t, err)
		require.Equal(t, int64(0x78), stat.EphemeralOwner)
		require.Equal(t, []string{strings.TrimPrefix(path, "/l/")}, p.names(), "the dead session's node is gone")
		require.Equal(t, 2, p.made)
	})
}

// Cancelled at every step, also with the reply still to come: no node stays.
func TestCancelledProtectedCreateLeavesNoNode(t *testing.T) {
	for _, mode := range []CreateMode{ModeEphemeralSequential, ModePersistent} {
		for ms := 0; ms < 500; ms += 7 {
			synctest.Test(t, func(t *testing.T) {
				p := newParent()
				var got seen
				creates := 0
				f := newFake(t, parentServer(p, &got, func(r fakeRequest, after bool) bool {
					time.Sleep(30 * time.Millisecond) // each request, twice
					if r.Op == wire.OpCreate2 && after {
						creates++
						return creates%2 == 1
					}
					return false
				}))
				c := f.client()
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(ms)*time.Millisecond)
				defer cancel()
				path, _, err := c.ProtectedCreate(ctx, "/l/n-", nil, mode, nil)
				if err == nil {
					require.Len(t, p.names(), 1)
					require.NoError(t, c.SureDelete(testContext(t), path, AnyVersion))
				} else {
					require.ErrorIs(t, err, context.DeadlineExceeded)
				}
				eventually(t, "the background is done", func() bool { return c.Stats().Background == 0 })
				require.Empty(t, p.names(), "cancelled after %d ms", ms)
				require.NoError(t, c.Close(testContext(t)))
			})
		}
	}
}

func TestProtectedCreateMakesParentsIfAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := map[string]bool{"/": true}
		var order []string
		f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
			switch r.Op {
			case wire.OpCreate2, wire.OpCreateContainer:
				up, _ := split(r.path)
				switch {
				case !made[up]:
					c.reply(r, wire.NoNode)
				case made[r.path]:
					c.reply(r, wire.NodeExists)
				default:
					made[r.path] = true
					order = append(order, r.Op.String()+" "+r.path)
					return false
				}
				return true
			}
			return false
		}))
		c := f.client()
		_, _, err := c.ProtectedCreate(testContext(t), "/a/b/c/n", nil, ModeEphemeral, nil, Unique())
		require.ErrorIs(t, err, ErrNoNode)
		_, _, err = c.ProtectedCreate(testContext(t), "/a/b/c/n", nil, ModeEphemeral, nil, Unique(), MakeParents())
		require.NoError(t, err)
		require.Equal(t, []string{"createContainer /a", "createContainer /a/b", "createContainer /a/b/c", "create2 /a/b/c/n"}, order)
	})
}

func TestProtectedCreateInASessionThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParent()
		var got seen
		lost := false
		f := newFake(t, parentServer(p, &got, func(r fakeRequest, after bool) bool {
			if r.Op == wire.OpCreate2 && after && !lost {
				lost = true
				return true
			}
			return false
		}))
		c := f.client()
		s := c.Session()
		go func() {
			eventually(t, "cut", func() bool { return c.State() == StateDisconnected })
			c.k.mu.Lock()
			c.k.lapsed()
			c.k.mu.Unlock()
		}()
		_, _, err := c.ProtectedCreate(testContext(t), "/l/n-", nil, ModeEphemeralSequential, nil, In(s))
		require.ErrorIs(t, err, ErrSessionLapsed)
		eventually(t, "clean", func() bool { return len(p.names()) == 0 })
	})
}

func TestSureDelete(t *testing.T) {
	for name, tc := range map[string]struct {
		start    int64 // owner; -1: no node
		cut      func(r fakeRequest, after bool) bool
		replaced bool
	}{
		"there":     {},
		"not there": {start: -1},
		"lost":      {cut: func(r fakeRequest, after bool) bool { return r.Op == wire.OpDelete && !after }},
		"executed":  {cut: func(r fakeRequest, after bool) bool { return r.Op == wire.OpDelete && after }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newParent()
				if tc.start >= 0 {
					p.children["n"] = tc.start
				}
				var got seen
				cuts := 3
				f := newFake(t, parentServer(p, &got, func(r fakeRequest, after bool) bool {
					if tc.cut != nil && cuts > 0 && tc.cut(r, after) {
						cuts--
						return true
					}
					return false
				}))
				c := f.client()
				require.NoError(t, c.SureDelete(testContext(t), "/l/n", AnyVersion))
				require.Empty(t, p.names())
			})
		})
	}
}

// The context ends, the deletion does not.
func TestSureDeleteGoesOnInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParent()
		p.children["n"] = 0x77
		var got seen
		cuts := 3
		f := newFake(t, parentServer(p, &got, func(r fakeRequest, after bool) bool {
			if r.Op == wire.OpDelete && !after && cuts > 0 {
				cuts--
				return true
			}
			return false
		}))
		c := f.client()
		f.setRefuse(errors.New("unreachable"))
		f.cut()
		eventually(t, "disconnected", func() bool { return c.State() == StateDisconnected })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, c.SureDelete(ctx, "/l/n", AnyVersion), context.DeadlineExceeded)
		require.Equal(t, 1, c.Stats().Background)
		f.setRefuse(nil)
		eventually(t, "deleted", func() bool { return len(p.names()) == 0 && c.Stats().Background == 0 })
	})
}

func TestBackgroundDeletionEndsWithItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got seen
		f := newFake(t, server(nil), script(refused), script(func(c *fakeConn) {
			c.hello()
			c.welcome(0x78, 10000)
			c.serve(func(r fakeRequest) bool { got.add(r); return false })
		}))
		c := f.client()
		f.setRefuse(errors.New("unreachable"))
		f.cut()
		eventually(t, "disconnected", func() bool { return c.State() == StateDisconnected })
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, c.SureDelete(ctx, "/l/n", AnyVersion), context.Canceled)
		f.setRefuse(nil)
		eventually(t, "renewed", func() bool { return c.Stats().Connections == 2 })
		eventually(t, "given up", func() bool { return c.Stats().Background == 0 })
		require.Zero(t, got.count(wire.OpDelete), "in the new session the name may be another's")
	})
}

// The create of a node is under way and given up when the node is to be deleted: it is deleted all the
// same. One that the session makes later, or another session, stays.
func TestSureDeleteFindsWhatWasStillUnderWay(t *testing.T) {
	for _, tt := range []struct {
		name  string
		czxid int64
		owner int64
		gone  bool
	}{
		{"made by what was under way", 150, 0x77, true},
		{"made by another session", 150, 0x99, false},
		{"made later", 250, 0x77, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got seen
				var late *fakeRequest
				f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
					got.add(r)
					switch r.Op {
					case wire.OpCreate, wire.OpCreate2:
						late = &r
						return true
					case wire.OpSync:
						if late != nil {
							c.zxid = 200
							c.reply(*late, wire.NodeExists)
							late = nil
						}
					case wire.OpExists:
						stat := wire.Stat{Czxid: tt.czxid, EphemeralOwner: tt.owner}
						c.reply(r, wire.OK, stat.Append(nil))
						return true
					}
					return false
				}))
				c := f.client()
				require.NoError(t, c.Sync(testContext(t), "/"))
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error)
				go func() {
					_, _, err := c.Create(ctx, "/a", nil, ModeEphemeral, nil)
					done <- err
				}()
				eventually(t, "it is under way", func() bool { return got.count(wire.OpCreate)+got.count(wire.OpCreate2) == 1 })
				cancel()
				require.ErrorIs(t, <-done, ErrUncertain)
				require.ErrorIs(t, c.SureDelete(ctx, "/a", AnyVersion), context.Canceled)
				eventually(t, "it is decided", func() bool { return c.Stats().Background == 0 })
				require.Equal(t, tt.gone, got.count(wire.OpDelete) == 1)
			})
		})
	}
}

// Another client has made the node again since: it stays.
func TestSureDeleteSparesAnothersNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{exists: true, stat: wire.Stat{Czxid: 50}}
		f := newFake(t, versionedServer(n, wire.OpDelete, true, func() {
			n.exists, n.stat = true, wire.Stat{Czxid: 300}
		}))
		c := f.client()
		require.NoError(t, c.Sync(testContext(t), "/"))
		require.NoError(t, c.SureDelete(testContext(t), "/a", AnyVersion))
		require.True(t, n.exists)
	})
}

func TestSureDeleteReportsARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
			if r.Op == wire.OpDelete {
				c.reply(r, wire.NotEmpty)
				return true
			}
			return false
		}))
		c := f.client()
		require.ErrorIs(t, c.SureDelete(testContext(t), "/a", AnyVersion), ErrNotEmpty)
		require.Zero(t, c.Stats().Background)
	})
}
