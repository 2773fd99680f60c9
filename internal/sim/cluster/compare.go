package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/zkd-project/zkd/wire"
)

// digestEvery is how many transactions lie between two digests that a server keeps.
const digestEvery = 128

// compare ends the clients, lets the sessions of those that are gone end, within settleLimit, and compares the
// servers: all that they tell of their state must be equal, and nothing left of dead sessions.
func (w *World) compare(stopClients func(), done *sync.WaitGroup) error {
	stopClients()
	done.Wait()
	ctx, cancel := context.WithCancel(context.Background())
	var last sync.WaitGroup
	defer last.Wait()
	defer cancel()
	c := w.addClient(ctx, &last)
	limit, cancelLimit := context.WithTimeout(ctx, settleLimit)
	defer cancelLimit()
	if c.Link(limit) == nil {
		return fmt.Errorf("the cluster does not serve its last client")
	}
	// A leader that began a moment ago grants every session its whole time, and some more.
	for limit.Err() == nil && !w.alone() {
		pause(limit, 10*time.Millisecond)
	}
	if err := w.lastList(limit, c); err != nil {
		return err
	}
	for {
		zxid, err := w.align(limit, c)
		if err != nil {
			return err
		}
		// A server that has just installed a snapshot has not counted up to here.
		if all, err := w.agree(limit, zxid); all || err != nil {
			return err
		}
	}
}

// alone says whether no server has a session but that of the last client.
func (w *World) alone() bool {
	return !slices.ContainsFunc(w.nodes, func(n *node) bool { return n.server().SessionCount() != 1 })
}

// align writes until the servers keep a digest, and returns its zxid.
func (w *World) align(ctx context.Context, c *Client) (int64, error) {
	for {
		l := c.Link(ctx)
		if l == nil {
			return 0, fmt.Errorf("the cluster does not serve its last client")
		}
		r, ok := l.Do(Op{Code: wire.OpSetData, Path: registerRoot, Version: -1})
		if ok && r.Err == wire.OK && r.Zxid%digestEvery == 0 {
			return r.Zxid, nil
		}
	}
}

// agree waits until all servers are there, and compares. all: each of them has its digest of the
// zxid.
func (w *World) agree(ctx context.Context, zxid int64) (all bool, err error) {
	for _, n := range w.nodes {
		for n.server().Face().Status().Zxid < zxid {
			if ctx.Err() != nil {
				return false, fmt.Errorf("server %d stays behind: it has zxid %x, not %x", n.number, n.server().Face().Status().Zxid, zxid)
			}
			pause(ctx, 10*time.Millisecond)
		}
	}
	digests := map[int64]uint64{} // by zxid
	for _, n := range w.nodes {
		face := n.server().Face()
		found := false
		for d := range face.Digests() {
			if other, ok := digests[d.Zxid]; ok && other != d.Digest {
				return false, fmt.Errorf("server %d has another digest than those before it at zxid %x", n.number, d.Zxid)
			}
			digests[d.Zxid] = d.Digest
			found = found || d.Zxid == zxid
		}
		if !found {
			return false, nil
		}
		for owner, paths := range face.Ephemerals().Each {
			w.fail("server %d still has %v of session %x, whose client is gone", n.number, paths, uint64(owner))
		}
		if count := n.server().SessionCount(); count != 1 {
			w.fail("server %d has %d sessions; the last client has the only one", n.number, count)
		}
	}
	return true, nil
}
