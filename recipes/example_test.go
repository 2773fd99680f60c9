package recipes_test

import (
	"context"
	"fmt"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
)

// A lock around a change of several nodes. The guard makes the server refuse a write that comes
// after the lock was lost.
func ExampleMutex_Do() {
	var c *client.Client // from Dial
	m := recipes.NewMutex(c, "/locks/index")
	err := m.Do(context.Background(), func(ctx context.Context, l recipes.Lease) error {
		_, err := c.Multi().Add(l.Guard()...).Set("/index", []byte("new"), client.AnyVersion).Commit(ctx)
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
}

// A lock that is waited for no longer than a second, and entered twice by the same owner.
func ExampleMutex_Lock() {
	var c *client.Client // from Dial
	m := recipes.NewMutex(c, "/locks/index", recipes.MaxHold(time.Minute))
	ctx, cancel := context.WithTimeout(recipes.WithOwner(context.Background(), "job 7"), time.Second)
	defer cancel()
	outer, err := m.Lock(ctx)
	if err != nil {
		return // somebody else has it
	}
	defer outer.Release(context.Background())
	inner, err := m.Lock(ctx) // at once, for it is the same owner
	if err != nil {
		return
	}
	defer inner.Release(context.Background())
	// … outer.Token() goes with every write to a storage that remembers the highest token …
}

// A worker that runs in one process at a time, for as long as this process lives.
func ExampleElection_Run() {
	var c *client.Client // from Dial
	e := recipes.NewElection(c, "/election", recipes.ElectionID("node-a"), recipes.AutoRequeue())
	err := e.Run(context.Background(), func(ctx context.Context, l recipes.Lease) error {
		<-ctx.Done() // the work, until the leadership is lost
		return nil
	})
	fmt.Println(err)
}

// Who leads, now and from now on.
func ExampleElection_Observe() {
	var c *client.Client // from Dial
	e := recipes.NewElection(c, "/election")
	for p, err := range e.Observe(context.Background()) {
		switch {
		case err != nil:
			return
		case p.Node == "":
			fmt.Println("nobody leads")
		default:
			fmt.Println(p.ID(), "leads")
		}
	}
}

// A configuration that follows the server.
func ExampleNewTreeCache() {
	var c *client.Client // from Dial
	conf := recipes.NewTreeCache(c, "/config", recipes.Text())
	defer conf.Close()
	for ev, err := range conf.Events(context.Background()) {
		if err != nil {
			return
		}
		fmt.Println(ev.Type, ev.Path(), ev.New.Value)
	}
}

// Work that is handed on when its worker dies.
func ExampleQueue_Hold() {
	var c *client.Client // from Dial
	ctx := context.Background()
	q := recipes.NewQueue(c, "/jobs", recipes.QueueKazooLocking, recipes.Text())
	defer q.Close()
	for {
		job, err := q.Hold(ctx)
		if err != nil {
			return
		}
		fmt.Println("working on", job.Values)
		if err := job.Finish(ctx); err != nil {
			fmt.Println("somebody else will do it again:", err)
		}
	}
}
