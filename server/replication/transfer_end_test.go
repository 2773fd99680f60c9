package replication

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// A heldLog is a log whose disk stands still while it is held, and with it raft's main loop.
type heldLog struct {
	logStore
	mu      sync.Mutex
	held    chan struct{} // guarded by mu: nil, or closed when it may go on
	waiting chan struct{} // closed when somebody waits
}

func (l *heldLog) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held, l.waiting = make(chan struct{}), make(chan struct{})
}

func (l *heldLog) StoreLogs(entries []*raft.Log) error {
	l.mu.Lock()
	held := l.held
	if held != nil {
		select {
		case <-l.waiting:
		default:
			close(l.waiting)
		}
	}
	l.mu.Unlock()
	if held != nil {
		<-held
	}
	return l.logStore.StoreLogs(entries)
}

// raft may end before it has looked at a transfer that was asked for, and never answers then.
func TestATransferThatNeverBeganEndsWithTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTrio(t, 3)
		logs := make([]*heldLog, 3)
		ready := make(chan error, 3)
		for i, v := range c.members {
			v.tuned(func(o *Options) { o.ClosePatience = 100 * time.Millisecond })
			v.open()
			logs[i] = &heldLog{logStore: v.node.stores.log}
			v.node.stores.log = logs[i]
			go func() { ready <- v.node.WaitReady(testContext(t)) }()
		}
		for range c.members {
			require.NoError(t, <-ready)
		}
		c.sessions()
		leader := c.leader()
		log := logs[leader.number-1]
		log.hold()
		release := sync.OnceFunc(func() { close(log.held) })
		defer release()
		leader.write()
		<-log.waiting

		node := leader.node
		engine := node.engine.Load()
		handed := make(chan error, 1)
		go func() { handed <- node.StepDown(context.Background()) }()
		awaitCondition(t, "a transfer that waits for raft", func() bool {
			buf := make([]byte, 1<<20)
			all := strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
			return slices.ContainsFunc(all, func(stack string) bool {
				return strings.Contains(stack, ".stepDown") && strings.Contains(stack, "raft.(*deferError).Error")
			})
		})
		closed := make(chan error, 1)
		leader.node = nil
		go func() { closed <- node.Close() }()
		<-engine.over
		release()
		require.NoError(t, <-closed)
		select {
		case err := <-handed:
			require.ErrorIs(t, err, raft.ErrRaftShutdown)
		case <-time.After(patience):
			t.Fatal("whoever asked waits for ever")
		}
	})
}

// Two of five that are not to lead, for lack of room on their disks for example, do not give the
// leadership to each other for ever.
func TestLeadershipLeavesThoseThatDoNotWantIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTrio(t, 5)
		c.start(1, 2, 3, 4, 5)
		c.sessions()
		for range 5 {
			c.fit(1)
			_, err := c.leader().node.Transfer(testContext(t), 1)
			require.NoError(t, err)
			awaitCondition(t, "a leader that has none of the reasons", func() bool {
				leader := c.leader()
				if leader.number > 2 {
					return true
				}
				for _, v := range c.others(leader) { // nobody is behind: all are as good
					if leader.node.ackedBy(v.nodeID()) < leader.node.raft().LastIndex() {
						return false
					}
				}
				_ = leader.node.StepDown(testContext(t)) // it may have lost the leadership meanwhile
				return false
			})
		}
		c.same()
	})
}

// A change of the membership is committed while the applier is busy, and raft ends: nobody answers any more.
func TestAChangeOfTheMembershipEndsWithRaft(t *testing.T) {
	for range 2 {
		c := newTrio(t, 3)
		c.start(1, 2, 3)
		c.sessions()
		leader := c.leader()
		leader.write()
		leader.settled()
		n, victim := leader.node, c.others(leader)[0].nodeID()
		e := n.engine.Load()
		n.RLock() // the applier is busy
		before := e.LastIndex()
		leader.write()
		awaitCondition(t, "the write", func() bool { return e.LastIndex() > before })
		before = e.LastIndex()
		answered := make(chan error, 1)
		go func() {
			d := &tender{n: n}
			_, err := d.take(&plan{}, &change{what: "remove", begin: func() raft.IndexFuture { return e.DemoteVoter(victim, 0, stepTimeout) }})
			answered <- err
		}()
		awaitCondition(t, "the change", func() bool { return e.LastIndex() > before && e.CommitIndex() > before })
		down := e.down()
		n.RUnlock()
		require.NoError(t, down.Error())
		select {
		case <-answered:
		case <-time.After(patience):
			t.Fatal("raft has ended, and the change is never answered")
		}
		for _, v := range c.members {
			v.stop()
		}
	}
}
