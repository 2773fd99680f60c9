package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/zkd-project/zkd/wire"
)

// The workload watch: some clients change nodes, others watch them with one-shot watches, and read
// them also without.

const (
	watchRoot  = "/watch"
	watchNodes = 4
)

func watchPath(n int) string { return fmt.Sprintf("%s/%d", watchRoot, n) }

// watchWriter changes, creates and deletes nodes.
func watchWriter(ctx context.Context, c *Client) {
	for n := 0; ; n++ {
		l := c.Link(ctx)
		if l == nil {
			return
		}
		l.Do(watchWrite(c, fmt.Sprintf("%d.%d", c.Number, n)))
		pause(ctx, time.Duration(c.Rand.Intn(400))*time.Millisecond)
	}
}

// watchScript reads with and without watches, and writes now and then: the event of a change of
// one's own comes before the reply, too.
func watchScript(ctx context.Context, c *Client) {
	for n := 0; ; n++ {
		l := c.Link(ctx)
		if l == nil {
			return
		}
		var calls []*Call
		for range 1 + c.Rand.Intn(3) {
			op := watchRead(c)
			if c.Rand.OneIn(8) {
				op = watchWrite(c, fmt.Sprintf("%d.%d", c.Number, n))
			}
			calls = append(calls, l.Start(op, 0))
		}
		for _, k := range calls {
			k.Wait()
		}
		if c.Rand.OneIn(40) {
			l.Break()
		}
		pause(ctx, time.Duration(c.Rand.Intn(300))*time.Millisecond)
	}
}

func watchWrite(c *Client, data string) Op {
	path := watchPath(c.Rand.Intn(watchNodes))
	switch c.Rand.Weighted([]int{6, 2, 1}) {
	case 0:
		return Op{Code: wire.OpSetData, Path: path, Data: data, Version: -1}
	case 1:
		return Op{Code: wire.OpCreate2, Path: path, Data: data}
	}
	return Op{Code: wire.OpDelete, Path: path, Version: -1}
}

func watchRead(c *Client) Op {
	path := watchPath(c.Rand.Intn(watchNodes))
	switch c.Rand.Weighted([]int{5, 2, 3, 1}) {
	case 0:
		return Op{Code: wire.OpGetData, Path: path, Watch: true}
	case 1:
		return Op{Code: wire.OpGetData, Path: path}
	case 2:
		return Op{Code: wire.OpExists, Path: path, Watch: true}
	}
	return Op{Code: wire.OpGetChildren2, Path: watchRoot, Watch: c.Rand.OneIn(2)}
}

// watchFinish looks at everything once more: a change without its event shows.
func watchFinish(ctx context.Context, c *Client) error {
	for n := range watchNodes {
		if _, err := lastRead(ctx, c, watchPath(n)); err != nil {
			return err
		}
	}
	l := c.Link(ctx)
	if l == nil {
		return ctx.Err()
	}
	if _, ok := l.Fresh(Op{Code: wire.OpGetChildren2, Path: watchRoot}); !ok {
		return fmt.Errorf("the connection was lost while listing %s", watchRoot)
	}
	return nil
}

// A sight is what a reply shows of a node: the zxid that changes with it, 0 if there is none.
type sight struct{ zxid int64 }

// A watched is a one-shot watch of a session, by path and whether it is for children.
type watched struct {
	path  string
	child bool
}

// A watcher is what the checker knows of a session.
type watcher struct {
	set   map[watched]sight // what was seen when the watch was set
	fired map[watched]sight // what was seen before the event that came, until something new is seen
}

// checkWatch demands: no event without a watch; between the reply that set a watch and one that
// shows a change there is the event, also over connections; after an event there was a change.
func checkWatch(entries []Entry) []error {
	var errs []error
	sessions := map[int64]*watcher{}
	streams := map[int64]bool{} // sessions with a persistent watch: see checkStream
	for i := range entries {
		e := &entries[i]
		streams[e.Session] = streams[e.Session] || e.Op.Code == wire.OpAddWatch
		if streams[e.Session] {
			continue
		}
		if e.Session == 0 || !strings.HasPrefix(e.Op.Path, watchRoot) {
			continue
		}
		w := sessions[e.Session]
		if w == nil {
			w = &watcher{map[watched]sight{}, map[watched]sight{}}
			sessions[e.Session] = w
		}
		var err error
		switch e.Kind {
		case Notified:
			err = w.notified(e)
		case Replied:
			err = w.replied(e)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("watch: %w\n%v", err, e))
		}
	}
	return errs
}

func (w *watcher) notified(e *Entry) error {
	used := false
	for _, k := range []watched{{e.Op.Path, false}, {e.Op.Path, true}} {
		ofChildren := e.Event == wire.EventNodeChildrenChanged
		if k.child != ofChildren && e.Event != wire.EventNodeDeleted {
			continue
		}
		if s, ok := w.set[k]; ok {
			used = true
			w.fired[k] = s
			delete(w.set, k)
		}
	}
	if !used {
		return fmt.Errorf("an event without a watch")
	}
	return nil
}

func (w *watcher) replied(e *Entry) error {
	k := watched{e.Op.Path, e.Op.Code == wire.OpGetChildren2}
	var s sight
	switch e.Op.Code {
	case wire.OpGetData, wire.OpExists, wire.OpSetData, wire.OpCreate2:
		s.zxid = e.Result.Mzxid
	case wire.OpGetChildren2:
		s.zxid = e.Result.Pzxid
	case wire.OpDelete:
	default:
		return nil
	}
	switch e.Result.Err {
	case wire.OK:
	case wire.NoNode:
		s.zxid = 0
	default:
		return nil // nothing is shown of the node
	}
	if was, ok := w.set[k]; ok && was != s {
		delete(w.set, k)
		return fmt.Errorf("the change from zxid %x to %x is shown before its event", was.zxid, s.zxid)
	}
	if was, ok := w.fired[k]; ok {
		delete(w.fired, k)
		if was == s && s.zxid != 0 {
			return fmt.Errorf("there was an event, but still it is zxid %x", s.zxid)
		}
	}
	if e.Op.Watch && (s.zxid != 0 || e.Op.Code == wire.OpExists) {
		w.set[k] = s
	}
	return nil
}
