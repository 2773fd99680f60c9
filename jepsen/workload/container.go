package workload

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zkd-project/zkd/jepsen/check"
	"github.com/zkd-project/zkd/jepsen/history"
	proto "github.com/zkd-project/zkd/wire"
)

// containerLook is how often servers look for nodes that are due.
const containerLook = 200 * time.Millisecond

// containerWorkload has TTL nodes and containers of every fate, and an observer on every server.
func containerWorkload() Workload {
	return Workload{
		Name:     "ttl-container",
		Doc:      "TTL nodes and containers, with and without children: there exactly as long as they should be",
		Setup:    func(ctx context.Context, e *Env) error { return e.Root(ctx, "/kept") },
		Run:      runContainers,
		Final:    finalContainers,
		Checkers: []check.Checker{check.Containers},
		Without:  []string{"clock"}, // times to live are of the wall clock
		Settings: []string{
			"extendedTypesEnabled=true", fmt.Sprintf("znode.container.checkIntervalMs=%d", containerLook.Milliseconds()),
			"znode.container.maxPerMinute=60000",
		},
	}
}

func runContainers(ctx context.Context, e *Env) {
	var wg sync.WaitGroup
	for node := 1; node <= e.Servers; node++ {
		wg.Go(func() { e.observe(ctx, node, "/kept") })
	}
	for range 5 {
		p := e.NewProc(0)
		wg.Go(func() {
			defer p.Close()
			for n := 0; ctx.Err() == nil; n++ {
				p.keepOnce(ctx, fmt.Sprintf("/kept/%d-%d", p.ID, n))
				if p.Rand.IntN(8) == 0 {
					_, _ = p.Move(ctx, 1+p.Rand.IntN(e.Servers))
				}
			}
		})
	}
	wg.Wait()
}

// keepOnce makes a node that goes by itself, and has it live through one of its fates.
func (p *Proc) keepOnce(ctx context.Context, path string) {
	ttl := time.Duration(0)
	if p.Rand.IntN(2) == 0 {
		ttl = time.Duration(300+p.Rand.IntN(2500)) * time.Millisecond
	}
	made := p.createKept(ctx, path, ttl)
	if made.Kind != history.OK || made.Code != 0 {
		return
	}
	touches, children := p.Rand.IntN(3), p.Rand.IntN(3)
	if ttl == 0 {
		children = max(children, 1) // one that is never used is never removed
	}
	for i := range touches {
		if ttl > 0 {
			Pause(ctx, ttl/2)
		}
		p.Set(ctx, path, fmt.Sprintf("%d.%d", p.ID, i), -1)
	}
	flags := []int32{proto.FlagPersistent, proto.FlagEphemeral}
	for i := range children {
		p.Create(ctx, fmt.Sprintf("%s/%d", path, i), "v", flags[p.Rand.IntN(2)])
	}
	Pause(ctx, time.Duration(p.Rand.IntN(int(4*containerLook))))
	for i := range children {
		p.Delete(ctx, fmt.Sprintf("%s/%d", path, i), -1)
	}
}

// finalContainers frees what faults have kept from going, and waits until all is gone. A creation
// that was held up may come only now: then there is another turn, for that node alone.
func finalContainers(ctx context.Context, e *Env) error {
	freed := map[string]bool{}
	for {
		err := e.settle(ctx, func(ctx context.Context, p *Proc) error { return p.freeAll(ctx, freed) })
		if err != nil {
			return err
		}
		waiting, cancel := context.WithTimeout(ctx, 20*containerLook)
		err = e.awaitEmpty(waiting, "/kept", "it should have gone by itself")
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

// freeAll takes all children away, and gives one to nodes that have none, once.
func (p *Proc) freeAll(ctx context.Context, freed map[string]bool) error {
	list := p.SyncChildren(ctx, "/kept")
	if list.Kind != history.OK || list.Code != 0 {
		return errors.New("no list of /kept")
	}
	for _, node := range list.Parts {
		path := "/kept/" + node.Key
		below := p.SyncChildren(ctx, path)
		if below.Kind != history.OK {
			return errors.New("no list of " + path)
		}
		if len(below.Parts) == 0 && !freed[path] { // a container that nobody has used yet would stay
			if o := p.Create(ctx, path+"/last", "v", 0); o.Kind != history.OK {
				return errors.New("no answer to the creation of a child of " + path)
			}
			below.Parts = []history.Part{{Key: "last"}}
		}
		for _, child := range below.Parts {
			if o := p.Delete(ctx, path+"/"+child.Key, -1); o.Kind != history.OK {
				return errors.New("no answer to the deletion of a child of " + path)
			}
		}
		freed[path] = true
	}
	return nil
}

// createKept makes a TTL node, or a container where ttl is 0.
func (p *Proc) createKept(ctx context.Context, path string, ttl time.Duration) history.Op {
	line := history.Op{F: "create-ttl", Key: path, Value: "v", Arg: int64(ttl)}
	op, body := proto.OpCreateTTL, (&proto.CreateTTLRequest{Path: path, Data: []byte("v"), ACL: world, Flags: proto.FlagPersistentTTL, TTLMs: ttl.Milliseconds()}).Append(nil)
	if ttl == 0 {
		line.F = "create-container"
		op, body = proto.OpCreateContainer, (&proto.CreateRequest{Path: path, Data: []byte("v"), ACL: world, Flags: proto.FlagContainer}).Append(nil)
	}
	o, d, ok := p.do(ctx, line, op, body)
	if o.Kind == history.OK && o.Code == 0 {
		_ = d.String() // the path
		o.Stat = stat(&d)
	}
	return p.record(o, &d, ok)
}
