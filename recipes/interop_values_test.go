package recipes

import (
	"context"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/client"
)

// takeAll takes as many items from a queue of texts as are wanted.
func takeAll(t *testing.T, c *client.Client, path string, form QueueForm, want ...string) {
	t.Helper()
	q := NewQueue(c, path, form, Text())
	defer q.Close()
	var got []string
	for range want {
		s, err := q.Take(testContext(t))
		require.NoError(t, err)
		got = append(got, s)
	}
	require.Equal(t, want, got, path)
}

// passBarrier goes through a double barrier with the program as the other member.
func passBarrier(t *testing.T, b *DoubleBarrier, p *program) {
	t.Helper()
	pass, err := b.Enter(testContext(t))
	require.NoError(t, err)
	require.Equal(t, "entered", p.answer(t))
	require.NoError(t, pass.Leave(testContext(t)))
	require.Equal(t, "left", p.answer(t))
}

func memberIDs(g *Group) []string {
	var ids []string
	for _, m := range g.Members() {
		ids = append(ids, m.ID)
	}
	slices.Sort(ids)
	return ids
}

func TestSharesValuesWithCurator(t *testing.T) {
	r := newRig(t)
	r.stays("/simple", "/plain", "/priority", "/id", "/delay", "/count", "/long", "/group", "/barrier", "/multi")
	c := r.dial()
	p := java(t, "testdata/Writer.java", r.srv.Addr())
	takeAll(t, c, "/simple", QueueSimple, "one")
	takeAll(t, c, "/plain", QueueCurator, "one", "two", "three")
	takeAll(t, c, "/priority", QueueCurator, "first", "second", "last")
	takeAll(t, c, "/delay", QueueCurator, "sooner", "later")
	ids := NewQueue(c, "/id", QueueCurator, Text())
	n, err := ids.Remove(testContext(t), "x/1")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	takeAll(t, c, "/id", QueueCurator, "b")

	count := NewSharedCount(c, "/count", 0)
	defer count.Close()
	require.NoError(t, count.Ready(testContext(t)))
	eventually(t, "the count is known", func() bool { return count.Get().Value == 17 })
	require.NoError(t, count.Set(testContext(t), 18))
	sum, err := NewCounter(c, "/long").Add(testContext(t), 50)
	require.NoError(t, err)
	require.Equal(t, int64(10), sum)
	g := JoinGroup(c, "/group", "go", nil, GroupCurator)
	eventually(t, "the group is complete", func() bool { return slices.Equal(memberIDs(g), []string{"go", "java"}) })
	passBarrier(t, NewDoubleBarrier(c, "/barrier", 2), p)
	q := NewQueue(c, "/simple", QueueSimple, Text())
	require.NoError(t, q.Put(testContext(t), "from us"))
	require.NoError(t, NewQueue(c, "/multi", QueueCurator, Text()).PutAll(testContext(t), []string{"a", "b", "c"}))
	_, err = io.WriteString(p.in, "\n")
	require.NoError(t, err)
	require.Equal(t, "from us abc 10 18 [go, java]", p.answer(t))
	require.NoError(t, g.Leave(testContext(t)))
}

func TestSharesValuesWithKazoo(t *testing.T) {
	r := newRig(t)
	r.stays("/queue", "/locking", "/counter", "/party", "/shallow", "/barrier", "/partition", "/lease", "/lease-of-go")
	c := r.dial()
	p := python(t, "testdata/writer.py", r.srv.Addr())
	takeAll(t, c, "/queue", QueueKazoo, "first", "last")
	locking := NewQueue(c, "/locking", QueueKazooLocking, Text())
	defer locking.Close()
	it, err := locking.Hold(testContext(t))
	require.NoError(t, err)
	require.Equal(t, []string{"one"}, it.Values)
	require.NoError(t, it.Finish(testContext(t)))
	sum, err := NewCounter(c, "/counter", Decimal[int64]()).Add(testContext(t), 2)
	require.NoError(t, err)
	require.Equal(t, int64(42), sum)
	party, shallow := JoinGroup(c, "/party", "go", nil, GroupParty), JoinGroup(c, "/shallow", "go", nil, GroupShallowParty)
	for _, g := range []*Group{party, shallow} {
		eventually(t, "the party is complete", func() bool { return slices.Equal(memberIDs(g), []string{"go", "python"}) })
	}
	passBarrier(t, NewDoubleBarrier(c, "/barrier", 2, WithFormat(Kazoo)), p)
	require.NoError(t, NewQueue(c, "/queue", QueueKazoo, Text()).Put(testContext(t), "from us"))
	require.NoError(t, locking.Put(testContext(t), "and this"))
	_, err = NewNonBlockingLease(c, "/lease", "go", time.Hour).Obtain(testContext(t))
	require.ErrorIs(t, err, ErrLocked)
	id, until, ok, err := NewNonBlockingLease(c, "/lease", "go", time.Hour).Holder(testContext(t))
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "python", id)
	require.Greater(t, time.Until(until), 30*time.Minute)
	_, err = NewNonBlockingLease(c, "/lease-of-go", "go", time.Hour).Obtain(testContext(t))
	require.NoError(t, err)
	require.Equal(t, "from us and this 42 ['go', 'python'] ['go', 'python'] False", p.ask(t, ""))
	require.NoError(t, party.Leave(testContext(t)))
	require.NoError(t, shallow.Leave(testContext(t)))

	// Both divide the items by the same rule.
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	ours := make(chan []string, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for part, err := range NewPartitioner(c, "/partition", "a", []string{"a", "b", "c", "d"}, 300*time.Millisecond).Run(ctx) {
			if err != nil {
				return
			}
			if part.State == PartitionAcquired {
				ours <- part.Items
			}
		}
	}()
	r.queued(c, "/partition/party", 1) // so that kazoo does not divide alone
	theirs := p.ask(t, "")
	for items := range ours {
		if len(items) == 2 {
			require.Equal(t, []string{"a", "c"}, items)
			break
		}
	}
	require.Equal(t, "['b', 'd']", theirs)
	_, err = io.WriteString(p.in, "\n")
	require.NoError(t, err)
	cancel()
	<-done
}
