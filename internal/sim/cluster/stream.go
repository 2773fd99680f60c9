package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/wire"
)

// The workload stream: clients watch all nodes of the workload watch with one recursive,
// persistent watch, which they set on every connection anew.

func streamScript(ctx context.Context, c *Client) {
	var watched *Link
	for {
		l := c.Link(ctx)
		if l == nil {
			return
		}
		if l != watched {
			if _, ok := l.Do(Op{Code: wire.OpAddWatch, Path: watchRoot, Flags: wire.AddWatchPersistentRecursive}); ok {
				watched = l
			}
			continue
		}
		l.Do(Op{Code: wire.OpGetData, Path: watchPath(c.Rand.Intn(watchNodes))})
		if c.Rand.OneIn(40) {
			l.Break()
		}
		pause(ctx, time.Duration(c.Rand.Intn(300))*time.Millisecond)
	}
}

// A stream is what came over one connection since its watch was set.
type stream struct {
	link int
	from int64          // the zxid of the reply that set it
	told int64          // of the last event
	all  map[int64]bool // zxids of the events
	seen int            // how many of the changes were looked for
}

// checkStream demands of persistent watches: no event comes twice or out of order, and each change
// has its event before a reply shows a state that contains it, as long as the connection lasts.
func checkStream(entries []Entry) []error {
	changes := changesBelow(entries, watchRoot+"/")
	var errs []error
	streams := map[int]*stream{} // by client
	for i := range entries {
		e := &entries[i]
		s := streams[e.Client]
		switch {
		case e.Kind == Replied && e.Op.Code == wire.OpAddWatch && e.Result.Err == wire.OK:
			n, _ := slices.BinarySearchFunc(changes, e.Result.Zxid+1, byZxid)
			streams[e.Client] = &stream{link: e.Link, from: e.Result.Zxid, all: map[int64]bool{}, seen: n}
		case s == nil || e.Link != s.link:
		case e.Kind == Notified:
			if e.Result.Zxid <= max(s.told, s.from) {
				errs = append(errs, fmt.Errorf("stream: after the event with zxid %x comes\n%v", max(s.told, s.from), e))
			}
			s.told = e.Result.Zxid
			s.all[s.told] = true
		case e.Kind == Replied:
			for ; s.seen < len(changes) && changes[s.seen].Result.Zxid <= e.Result.Zxid; s.seen++ {
				if c := changes[s.seen]; !s.all[c.Result.Zxid] {
					errs = append(errs, fmt.Errorf("stream: there was no event of\n%v\nbefore\n%v", c, e))
				}
			}
		}
	}
	return errs
}

func byZxid(e *Entry, zxid int64) int { return cmp.Compare(e.Result.Zxid, zxid) }

// changesBelow returns the acknowledged changes of nodes, in the order of their zxids.
func changesBelow(entries []Entry, below string) []*Entry {
	var list []*Entry
	for i := range entries {
		e := &entries[i]
		if e.Kind == Replied && isWrite(e.Op.Code) && e.Result.Err == wire.OK && strings.HasPrefix(e.Op.Path, below) {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b *Entry) int { return cmp.Compare(a.Result.Zxid, b.Result.Zxid) })
	return list
}
