package peer

import (
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// raft alone pauses up to 10 s between two attempts once a member has been away for long, so one of
// the members that come back at different moments of such a pause would wait for most of it.
func TestAMemberThatWasAwayForLongGetsEntriesAtOnce(t *testing.T) {
	for _, away := range []time.Duration{time.Minute, 64 * time.Second, 68 * time.Second} {
		t.Run(fmt.Sprint(away), func(t *testing.T) {
			inMemory(t, setup{}, func(t *testing.T, r *rig) {
				leader := r.leader()
				gone, other := r.followers(leader)[0], r.followers(leader)[1]
				gone.stop()
				leader.apply("while one is away")
				time.Sleep(away) // virtual
				require.Same(t, leader, r.leader(leader, other))
				gone.open()
				gone.start()
				began := time.Now()
				r.await(leader.apply("and back"), gone)
				require.Less(t, time.Since(began), 2*time.Second)
			})
		})
	}
}

func TestWhoLeadsNoMoreWaitsForNobody(t *testing.T) {
	leads := make(chan bool, 1)
	leads <- true
	asked := func(o *Options) {
		o.Leads = func(uint64) bool {
			l := <-leads
			leads <- l
			return l
		}
	}
	play(t, 2, asked, func(t *testing.T, s *script) {
		s.net.Crash("2")
		send := func(r *raft.AppendEntriesRequest) <-chan error {
			r.RPCHeader, r.Term = header(3, s.all[0].idBytes), 4
			failed := make(chan error, 1)
			go func() { failed <- s.all[0].AppendEntries(serverID(2), "", r, &raft.AppendEntriesResponse{}) }()
			return failed
		}
		waits := func(failed <-chan error, d time.Duration) {
			t.Helper()
			select {
			case err := <-failed:
				require.Fail(t, "it has not waited", err)
			case <-time.After(d): // virtual
			}
		}
		began := time.Now()
		require.Error(t, <-send(&raft.AppendEntriesRequest{}))
		require.Less(t, time.Since(began), 2*time.Second, "a heartbeat does not wait")

		hurried := send(&raft.AppendEntriesRequest{PrevLogEntry: 4, PrevLogTerm: 3})
		waits(hurried, 30*time.Second)
		s.all[0].Hurry()
		require.Error(t, <-hurried)

		given := send(&raft.AppendEntriesRequest{Entries: entries(1, 4)})
		waits(given, absentPatience-time.Second)
		require.Error(t, <-given)

		deposed := send(&raft.AppendEntriesRequest{LeaderCommitIndex: 1})
		waits(deposed, 30*time.Second)
		<-leads
		leads <- false
		began = time.Now()
		require.Error(t, <-deposed)
		require.Less(t, time.Since(began), 2*absentInterval+2*time.Second)
	})
}
