package workload

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zkd-project/zkd/jepsen/check"
	"github.com/zkd-project/zkd/jepsen/history"
	proto "github.com/zkd-project/zkd/wire"
)

// queueAtMost is how many items wait before a producer pauses.
const queueAtMost = 300

// queueWorkload has a queue with several consumers, and one with a single consumer that must
// get the items of each producer in order.
func queueWorkload() Workload {
	return Workload{
		Name:     "queue",
		Doc:      "sequential items that are taken by a multi of deletion and receipt: each exactly once, in order for a single consumer",
		Setup:    setupQueues,
		Run:      runQueues,
		Final:    finalQueues,
		Checkers: []check.Checker{check.Queue, check.Sequence},
	}
}

var queuePaths = []string{"/queue-many", "/queue-one"}

func setupQueues(ctx context.Context, e *Env) error {
	for _, path := range queuePaths {
		for _, at := range []string{path, path + "/items", path + "/receipts"} {
			if err := e.Root(ctx, at); err != nil {
				return err
			}
		}
	}
	return nil
}

func runQueues(ctx context.Context, e *Env) {
	var wg sync.WaitGroup
	begin := func(n int, f func(ctx context.Context, p *Proc)) {
		for range n {
			p := e.NewProc(0)
			wg.Go(func() {
				defer p.Close()
				f(ctx, p)
			})
		}
	}
	for i, path := range queuePaths {
		begin(2, func(ctx context.Context, p *Proc) { p.produce(ctx, path) })
		begin([]int{3, 1}[i], func(ctx context.Context, p *Proc) { p.consume(ctx, path) })
	}
	wg.Wait()
}

func (p *Proc) produce(ctx context.Context, path string) {
	for n := 0; ctx.Err() == nil; n++ {
		o := p.Create(ctx, path+"/items/i-", fmt.Sprintf("%d.%d", p.ID, n), proto.FlagPersistentSequential)
		length := 0
		if o.Kind == history.OK && n%32 == 0 {
			length = len(p.Children(ctx, path+"/items", false).Parts)
		}
		Pause(ctx, time.Duration(1+p.Rand.IntN(8))*time.Millisecond)
		for ; length > queueAtMost && ctx.Err() == nil; length -= queueAtMost / 4 {
			Pause(ctx, 100*time.Millisecond)
		}
		if p.Rand.IntN(50) == 0 {
			_, _ = p.Move(ctx, 1+p.Rand.IntN(p.e.Servers))
		}
	}
}

// consume takes the first item of each list, and, where others compete, some of the next ones.
func (p *Proc) consume(ctx context.Context, path string) {
	for ctx.Err() == nil {
		list := p.Children(ctx, path+"/items", false)
		var names []string
		for _, c := range list.Parts {
			names = append(names, c.Key)
		}
		slices.Sort(names)
		for _, name := range names[:min(8, len(names))] {
			if o, ok := p.take(ctx, path, name); !ok || o.Kind != history.OK {
				break // what became of it is not known: look again
			}
		}
		if p.Rand.IntN(40) == 0 {
			_, _ = p.Move(ctx, 1+p.Rand.IntN(p.e.Servers))
		}
		if len(names) == 0 {
			Pause(ctx, time.Duration(5+p.Rand.IntN(20))*time.Millisecond)
		}
	}
}

// take reads an item and takes it; ok says that there was one to read.
func (p *Proc) take(ctx context.Context, path, name string) (o history.Op, ok bool) {
	item := path + "/items/" + name
	read := p.Get(ctx, item, false)
	if read.Kind != history.OK || read.Code != 0 {
		return read, read.Kind == history.OK
	}
	ops := []proto.MultiOp{
		{Op: proto.OpDelete, Delete: proto.DeleteRequest{Path: item, Version: -1}},
		{Op: proto.OpCreate, Create: proto.CreateRequest{Path: path + "/receipts/" + name, Data: []byte(read.Value), ACL: world}},
	}
	if strings.HasSuffix(name, "7") { // either order is all or nothing
		slices.Reverse(ops)
	}
	o, d, sent := p.do(ctx, history.Op{F: "take", Key: item, Value: read.Value}, proto.OpMulti, proto.AppendMulti(nil, ops))
	if o.Kind == history.OK && o.Code == 0 {
		o.Code = firstError(&d)
	}
	return p.record(o, &d, sent), true
}

func finalQueues(ctx context.Context, e *Env) error {
	for _, path := range queuePaths {
		// The items twice: what is taken only now, by a request that was held up, is in neither or in
		// both of two lists of different moments.
		for _, list := range []string{path + "/items", path + "/receipts", path + "/items"} {
			if err := e.finalLists(ctx, list); err != nil {
				return err
			}
		}
	}
	return nil
}
