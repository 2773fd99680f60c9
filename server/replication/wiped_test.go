package replication

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// Why a server that has lost its disk must not be taken for the voter that it was: three voters,
// one of which lags; a write that the other two have stored, and that was acknowledged; one of
// them loses its disk, the other one its power. Whoever trusts the empty server has a majority
// without the write.

// emptyButTrusted is a disk on which nothing is left but the name of the server: what a wiped
// server would be if its incarnation were not drawn anew.
func emptyButTrusted(before *MemoryStores) *MemoryStores {
	m := NewMemoryStores()
	m.id = before.id
	m.id.state, m.id.cluster = stateNew, ""
	return m
}

// emptyAndNew is what the rule makes of a wiped server.
func emptyAndNew(*MemoryStores) *MemoryStores { return NewMemoryStores() }

// A bereft is a cluster in that schedule: the write is acknowledged, who has acknowledged it is
// gone, and the other one that had stored it has an empty disk.
type bereft struct {
	*trio
	gone, wiped, lagging *voice
	write                string          // the node that was acknowledged
	rounds               [4]atomic.Int32 // of elections in which a member has stood in vain, by its number
	ready                chan error      // of the wiped server
}

func newBereft(t *testing.T, wipe func(*MemoryStores) *MemoryStores) *bereft {
	t.Helper()
	b := &bereft{trio: newTrio(t, 3), ready: make(chan error, 1)}
	for _, v := range b.members {
		v.tuned(func(o *Options) { o.Logger = slog.New(inVain{o.Logger.Handler(), &b.rounds[v.number]}) })
	}
	b.start(1, 2, 3)
	b.sessions()
	for _, v := range b.members {
		v.write()
		v.settled()
	}
	b.same()
	b.lagging = b.others(b.leader())[0]
	for _, v := range b.others(b.lagging) {
		b.net.Partition([]string{v.host()}, []string{b.lagging.host()})
	}
	b.gone, b.wiped = b.others(b.lagging)[0], b.others(b.lagging)[1]
	b.gone.write()
	b.gone.settled() // two have stored it, and the third one has not even heard of it
	b.write = fmt.Sprintf("/m%d-%06d", b.gone.number, b.gone.next)

	for _, v := range []*voice{b.gone, b.wiped} {
		b.net.Crash(v.host())
		v.stop()
		b.net.Cut(v.host(), b.lagging.host()) // what is still on its way is lost with the machines
	}
	b.net.Heal()
	b.wiped.stores = wipe(b.wiped.stores)
	b.wiped.open()
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		b.ready <- b.wiped.node.WaitReady(ctx)
	}()
	return b
}

// has says whether a member has a node.
func (v *voice) has(path string) bool {
	v.node.RLock()
	defer v.node.RUnlock()
	return v.node.Machine().Tree().Lookup(path) != nil
}

// inVain counts the elections of a server that come to no end, by the words of raft.
type inVain struct {
	slog.Handler
	rounds *atomic.Int32
}

func (h inVain) Enabled(context.Context, slog.Level) bool { return true }

func (h inVain) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "Election timeout reached, restarting election" {
		h.rounds.Add(1)
	}
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h inVain) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.Handler = h.Handler.WithAttrs(attrs)
	return h
}

func TestATrustedWipedServerLosesAnAcknowledgedWrite(t *testing.T) {
	b := newBereft(t, emptyButTrusted)
	require.NoError(t, <-b.ready, "the two of them are a majority")
	b.lagging.write()
	b.lagging.settled()
	b.start(b.gone.number)
	b.same()
	for _, v := range b.members {
		require.False(t, v.has(b.write), "the schedule is none in which trust does harm: member %d has the write", v.number)
	}
}

func TestAWipedServerThatIsRecognisedLosesNothing(t *testing.T) {
	b := newBereft(t, emptyAndNew)
	rounds := &b.rounds[b.lagging.number]
	before := rounds.Load()
	awaitCondition(t, "elections of the server that lags", func() bool { return rounds.Load() >= before+3 })
	require.False(t, b.lagging.node.Leads() || b.wiped.node.Leads(), "they are no majority")
	require.NotContains(t, b.lagging.node.voters(), b.wiped.node.stores.id.serverID())
	b.start(b.gone.number)
	require.NoError(t, <-b.ready)
	b.lagging.write()
	b.lagging.settled()
	b.same()
	for _, v := range b.members {
		require.True(t, v.has(b.write), "member %d lacks an acknowledged write", v.number)
	}
}
