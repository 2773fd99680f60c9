package replication

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/vfs"
)

// A dyingFS is a disk that stands still at a sync of the log, and then fails it.
type dyingFS struct {
	hookedFS
	mu    sync.Mutex
	tried chan struct{} // guarded by mu: a sync waits; nil: the disk is in order
	die   chan struct{}
}

func newDyingFS(disk vfs.FS) *dyingFS {
	s := &dyingFS{die: make(chan struct{})}
	s.hookedFS = hookedFS{FS: disk, sync: s.wait}
	return s
}

func (s *dyingFS) wait() error {
	s.mu.Lock()
	tried := s.tried
	s.mu.Unlock()
	if tried == nil {
		return nil
	}
	select {
	case tried <- struct{}{}:
	default:
	}
	<-s.die
	return errors.New("the disk has died")
}

// A server that led holds an entry that its disk refuses to store. Its successor, which asks for the
// entry, must not hear that it is there.
func TestAnEntryThatCannotBeSyncedIsNotAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := diskTrio(t)
		disks := make([]*dyingFS, 3)
		for i, v := range c.members {
			disks[i] = newDyingFS(v.fs)
			v.fs = disks[i]
		}
		c.start(1, 2, 3)
		c.sessions()
		leader := c.leader()
		leader.write()
		leader.settled()
		played, id := c.play(leader, c.members[leader.number%3])

		disk := disks[leader.number-1]
		die := sync.OnceFunc(func() { close(disk.die) })
		t.Cleanup(die)
		disk.mu.Lock()
		disk.tried = make(chan struct{}, 1)
		disk.mu.Unlock()
		leader.fatal = true
		last := leader.append()
		<-disk.tried
		node := leader.node
		var entry, before raft.Log
		require.NoError(t, node.stores.log.GetLog(last, &entry))
		require.NoError(t, node.stores.log.GetLog(last-1, &before))
		require.Less(t, node.durability.log.Durable(), last)

		var response raft.AppendEntriesResponse
		answered := make(chan error, 1)
		go func() {
			to := node.stores.id.serverID()
			answered <- played.AppendEntries(to, raft.ServerAddress(to), &raft.AppendEntriesRequest{
				RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(id), Addr: []byte(id)}, Term: entry.Term + 1,
				PrevLogEntry: before.Index, PrevLogTerm: before.Term, Entries: []*raft.Log{&entry},
			}, &response)
		}()
		awaitCondition(t, "its end as the leader", func() bool { return node.raft().State() != raft.Leader })
		die()
		<-node.Dead()
		var err error
		select {
		case err = <-answered:
		case <-time.After(300 * time.Millisecond): // an untrue answer would have come
			leader.stop()
			err = <-answered
		}
		require.Error(t, err, fmt.Sprintf("it answered %+v, and the entry is not on its disk", response))
	})
}
