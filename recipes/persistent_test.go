package recipes

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/zkdtest"
)

func closeNode(t testing.TB, n *PersistentNode) {
	t.Helper()
	require.NoError(t, n.Close(testContext(t)))
}

func TestPersistentNodeIsMadeAgain(t *testing.T) {
	for _, mode := range []client.CreateMode{
		client.ModePersistent, client.ModeEphemeral, client.ModePersistentSequential, client.ModeEphemeralSequential,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			r := newRig(t)
			c, other := r.dial(), r.dial()
			n := NewPersistentNode(c, "/dir/node", mode, []byte("x"))
			require.NoError(t, n.Await(testContext(t)))
			path := n.Path()
			stat := func() client.Stat {
				s, ok, err := other.Exists(testContext(t), path, client.Fresh())
				require.NoError(t, err)
				if !ok {
					return client.Stat{}
				}
				return s
			}
			first := stat().Czxid
			require.NotZero(t, first)
			remove(t, other, path)
			eventually(t, "it is made again", func() bool { return stat().Czxid > first })
			second := stat().Czxid
			old := c.SessionID()
			r.srv.ExpireSession(old)
			if mode.Ephemeral() {
				eventually(t, "it is made again", func() bool { s := stat(); return s.Czxid > second && s.EphemeralOwner == c.SessionID() })
			}
			require.NoError(t, n.SetData(testContext(t), []byte("y")))
			remove(t, other, path)
			eventually(t, "it is made again with the new data", func() bool {
				data, _, err := other.Get(testContext(t), path, client.Fresh())
				return err == nil && string(data) == "y"
			})
			require.Equal(t, path, n.Path())
			closeNode(t, n)
			require.Error(t, n.Err())
			require.Zero(t, stat())
		})
	}
}

func TestPersistentNodeWaitsForItsPlace(t *testing.T) {
	r := newRig(t)
	a, b := r.dial(), r.dial()
	na := NewPersistentNode(a, "/node", client.ModeEphemeral, []byte("a"))
	require.NoError(t, na.Await(testContext(t)))
	nb := NewPersistentNode(b, "/node", client.ModeEphemeral, []byte("b"))
	eventually(t, "b waits", func() bool { return b.Stats().Watches == 1 })
	closeNode(t, na)
	require.NoError(t, nb.Await(testContext(t)))

	na = NewPersistentNode(a, "/node", client.ModeEphemeral, []byte("a"))
	eventually(t, "a waits", func() bool { return a.Stats().Watches == 1 })
	closeNode(t, na) // and does not delete b's node
	stat, ok, err := a.Exists(testContext(t), "/node", client.Fresh())
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, b.SessionID(), stat.EphemeralOwner)
	closeNode(t, nb)
}

func TestPersistentNodeTakesOver(t *testing.T) {
	r := newRig(t)
	a, b := r.dial(), r.dial()
	_, _, err := a.Create(testContext(t), "/node", []byte("of the last run"), client.ModeEphemeral, nil)
	require.NoError(t, err)
	n := NewPersistentNode(b, "/node", client.ModeEphemeral, []byte("b"), TakeOver())
	require.NoError(t, n.Await(testContext(t)))
	data, stat, err := a.Get(testContext(t), "/node", client.Fresh())
	require.NoError(t, err)
	require.Equal(t, "b", string(data))
	require.Equal(t, b.SessionID(), stat.EphemeralOwner)
	closeNode(t, n)
}

func TestPersistentNodeSaysWhyItCannotBeMade(t *testing.T) {
	r := newRig(t)
	r.stays("/closed")
	c := r.dial()
	_, _, err := c.Create(testContext(t), "/closed", nil, client.ModePersistent, client.WorldACL(client.PermRead))
	require.NoError(t, err)
	n := NewPersistentNode(c, "/closed/node", client.ModeEphemeral, nil)
	require.ErrorIs(t, n.Await(testContext(t)), client.ErrNoAuth)
	require.ErrorIs(t, n.SetData(testContext(t), nil), client.ErrNoAuth)
	closeNode(t, n)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	n = NewPersistentNode(c, "/node", client.ModeEphemeral, nil)
	require.NoError(t, n.Await(testContext(t)))
	_ = n.Close(ctx) // it goes in the background
}

// The touch is renewed as long as the process lives, and both nodes go when it does not.
func TestTTLNodeLivesAsLongAsItIsTouched(t *testing.T) {
	r := newRig(t, zkdtest.Set("znode.container.checkIntervalMs", "50"))
	c, other := r.dial(), r.dial()
	const ttl = 300 * time.Millisecond
	n := NewPersistentTTLNode(c, "/node", ttl, []byte("x"))
	require.NoError(t, n.Await(testContext(t)))
	exists := func(path string) bool {
		_, ok, err := other.Exists(testContext(t), path, client.Fresh())
		require.NoError(t, err)
		return ok
	}
	version := func() int32 {
		stat, _, err := other.Exists(testContext(t), "/node/touch", client.Fresh())
		require.NoError(t, err)
		return stat.Version
	}
	eventually(t, "it was touched several times, and is there", func() bool { return version() >= 4 && exists("/node") })
	n.cancel() // the process is gone
	<-n.done
	eventually(t, "the server removes both", func() bool { return !exists("/node") })

	n = NewPersistentTTLNode(c, "/node", ttl, nil)
	require.NoError(t, n.Await(testContext(t)))
	closeNode(t, n)
	require.False(t, exists("/node"))
}

func TestGroupKnowsItsMembers(t *testing.T) {
	for name, form := range map[string]GroupForm{"curator": GroupCurator, "party": GroupParty, "shallow": GroupShallowParty} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			a, b, d := r.dial(), r.dial(), r.dial()
			ids := func(g *Group) []string {
				var out []string
				for _, m := range g.Members() {
					out = append(out, m.ID)
				}
				return out
			}
			look := WatchGroup(d, "/group", form)
			require.NoError(t, look.Await(testContext(t)))
			ga := JoinGroup(a, "/group", "anna", []byte("a"), form)
			require.NoError(t, ga.Await(testContext(t)))
			require.Equal(t, []string{"anna"}, ids(ga))
			gb := JoinGroup(b, "/group", "bert", []byte("b"), form)
			require.NoError(t, gb.Await(testContext(t)))
			both := func(g *Group) func() bool {
				return func() bool {
					have := ids(g)
					return len(have) == 2 && indexOf(have, "anna") >= 0 && indexOf(have, "bert") >= 0
				}
			}
			for _, g := range []*Group{ga, gb, look} {
				eventually(t, "it knows both", both(g))
			}
			old := b.SessionID()
			r.srv.ExpireSession(old)
			eventually(t, "bert is back", func() bool {
				for _, m := range look.Members() {
					if stat, ok, _ := d.Exists(testContext(t), m.Path); m.ID == "bert" && ok && stat.EphemeralOwner != old {
						return true
					}
				}
				return false
			})
			require.NoError(t, gb.Leave(testContext(t)))
			for m, err := range look.Changes(testContext(t)) {
				require.NoError(t, err)
				if len(m) == 1 && m[0].ID == "anna" {
					break
				}
			}
			if form == GroupCurator {
				require.NoError(t, ga.SetData(testContext(t), []byte("new")))
				eventually(t, "the data is new", func() bool { m := look.Members(); return len(m) == 1 && string(m[0].Data) == "new" })
			}
			require.Equal(t, "anna", ga.ID())
			require.NoError(t, ga.Leave(testContext(t)))
			require.NoError(t, look.Leave(testContext(t)))
		})
	}
}

func TestCodecs(t *testing.T) {
	b, err := BigEndian[int32]().Encode(-2)
	require.NoError(t, err)
	require.Equal(t, []byte{0xff, 0xff, 0xff, 0xfe}, b)
	b, err = BigEndian[int64]().Encode(258)
	require.NoError(t, err)
	require.Equal(t, []byte{0, 0, 0, 0, 0, 0, 1, 2}, b)
	for _, v := range []int64{0, 1, -1, 1 << 62, -1 << 63} {
		for _, k := range []Codec[int64]{BigEndian[int64](), Decimal[int64](), JSON[int64]()} {
			b, err := k.Encode(v)
			require.NoError(t, err)
			got, err := k.Decode(b)
			require.NoError(t, err)
			require.Equal(t, v, got)
		}
	}
	for _, k := range []Codec[int32]{BigEndian[int32](), Decimal[int32]()} {
		v, err := k.Decode(nil)
		require.NoError(t, err)
		require.Zero(t, v)
		_, err = k.Decode([]byte("not a number"))
		require.ErrorContains(t, err, "another format")
	}
	_, err = Decimal[int32]().Decode([]byte("3000000000"))
	require.Error(t, err)
}

func FuzzCodecs(f *testing.F) {
	f.Add([]byte("12"))
	f.Add([]byte{0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, k := range []Codec[int64]{BigEndian[int64](), Decimal[int64]()} {
			v, err := k.Decode(b)
			if err != nil {
				continue
			}
			again, err := k.Encode(v)
			if err != nil {
				t.Error(err)
			}
			if w, err := k.Decode(again); err != nil || v != w {
				t.Errorf("%d became %d: %v", v, w, err)
			}
		}
	})
}
