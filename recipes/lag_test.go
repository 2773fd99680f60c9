package recipes

import (
	"context"
	"encoding/binary"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/wire"
	"github.com/zkd-project/zkd/zkdtest"
)

// A laggard makes a server look like one of ZooKeeper's followers that lags. It loses the reply to the
// first write, and after the reconnect shows nothing of what is below the recipe's path until a sync
// has been answered on that connection. zkd itself is not like that: it takes a session in at a place
// in the log, and has applied everything before.
type laggard struct {
	mu     sync.Mutex
	lost   bool         // guarded by mu; the reply has been lost
	synced map[int]bool // guarded by mu; by connection
	lied   int          // guarded by mu
}

func (g *laggard) rule(f zkdtest.Frame) zkdtest.Action {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f.Direction != zkdtest.ToClient || f.Hello {
		return zkdtest.Pass()
	}
	switch f.Op {
	case wire.OpCreate2, wire.OpMulti:
		if !g.lost && wire.Code(binary.BigEndian.Uint32(f.Body[12:])) == wire.OK {
			g.lost = true
			return zkdtest.Cut()
		}
	case wire.OpSync:
		g.synced[f.Conn] = true
	case wire.OpGetChildren2, wire.OpExists, wire.OpGetData:
		if g.lost && !g.synced[f.Conn] {
			g.lied++
			return zkdtest.Garbage(staleReply(f))
		}
	}
	return zkdtest.Pass()
}

// staleReply is the answer of a server on which nothing is there yet: no children, no node.
func staleReply(f zkdtest.Frame) []byte {
	zxid := int64(binary.BigEndian.Uint64(f.Body[4:]))
	if f.Op != wire.OpGetChildren2 {
		return frame(wire.AppendReply(nil, f.Xid, zxid, wire.NoNode))
	}
	b := wire.AppendStrings(wire.AppendReply(nil, f.Xid, zxid, wire.OK), nil)
	stat := wire.Stat{}
	return frame(stat.Append(b))
}

// T2: the sync before the look after a lost reply matters. Without it a second node is made, a write
// done twice, or one waits for oneself.
func TestLostWriteIsFoundOnAServerThatLags(t *testing.T) {
	one := func(dir string, lock func(c *client.Client) func(context.Context) (Lease, error)) func(*testing.T, *rig, *client.Client) {
		return func(t *testing.T, r *rig, c *client.Client) {
			l := start(t, testContext(t), lock(c)).got()
			require.NoError(t, l.Verify(testContext(t)))
			names := r.children(r.clients[0], dir)
			require.Contains(t, names, base(l.Path()))
			require.Len(t, withoutPost(names), 1, "exactly one node of ours")
			release(t, l)
		}
	}
	for name, tc := range map[string]func(*testing.T, *rig, *client.Client){
		"mutex": one("/x", func(c *client.Client) func(context.Context) (Lease, error) { return NewMutex(c, "/x").Lock }),
		"kazoo": one("/x", func(c *client.Client) func(context.Context) (Lease, error) {
			return NewMutex(c, "/x", WithFormat(Kazoo)).Lock
		}),
		"unfair":   one("/x", func(c *client.Client) func(context.Context) (Lease, error) { return NewMutex(c, "/x", Unfair()).Lock }),
		"election": one("/x", func(c *client.Client) func(context.Context) (Lease, error) { return NewElection(c, "/x").Campaign }),
		"semaphore": one("/x", func(c *client.Client) func(context.Context) (Lease, error) {
			return permits(NewSemaphore(c, "/x", 1, WithFormat(Kazoo)), 1)
		}),
		"counter": func(t *testing.T, r *rig, c *client.Client) {
			create(t, r.clients[0], "/x/n", "\x00\x00\x00\x00\x00\x00\x00\x00")
			sum, err := NewCounter(c, "/x/n").AddOnce(testContext(t), 1)
			require.NoError(t, err)
			require.Equal(t, int64(1), sum)
			sum, err = NewCounter(r.clients[0], "/x/n").Get(testContext(t))
			require.NoError(t, err)
			require.Equal(t, int64(1), sum)
		},
		"item of a queue": func(t *testing.T, r *rig, c *client.Client) {
			q := NewQueue(r.clients[0], "/x/q", QueueKazooLocking, Text())
			require.NoError(t, q.Put(testContext(t), "a"))
			create(t, r.clients[0], "/x/q/taken", "")
			mine := NewQueue(c, "/x/q", QueueKazooLocking, Text())
			defer mine.Close()
			it, err := mine.Hold(testContext(t))
			require.NoError(t, err)
			require.NoError(t, it.Finish(testContext(t)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRigOf(t, 1)
			r.stays("/x")
			direct := r.dial()
			create(t, direct, "/x", "")
			if name == "semaphore" {
				set(t, direct, "/x", "1")
				create(t, direct, "/x-__lock__", "")
			}
			p := r.srv.(single).Proxy()
			c := r.dialTo(p.Addr(), fastReconnect())
			g := &laggard{synced: map[int]bool{}}
			p.On(g.rule)
			tc(t, r, c)
			g.mu.Lock()
			require.True(t, g.lost, "the test has lost no reply")
			g.mu.Unlock()
			r.close(c)
		})
	}
}

// withoutPost leaves out the node that all want in the unfair form: it belongs to the other one.
func withoutPost(names []string) (out []string) {
	for _, name := range names {
		if name != "lock" && name != "leader" {
			out = append(out, name)
		}
	}
	return out
}
