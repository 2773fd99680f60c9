// Command leader runs a job in one of many processes at a time.
//
//	go run ./examples/leader -server 127.0.0.1:2181 -id a
//
// Start it several times with different ids: one works, the others wait. Stop that one, or cut
// its connection, and another takes over, when the first has certainly stopped.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
)

func main() {
	servers := flag.String("server", "127.0.0.1:2181", "the servers, host:port,host:port/chroot")
	id := flag.String("id", "", "who this process is in the election")
	flag.Parse()
	if *id == "" {
		fmt.Fprintln(os.Stderr, "leader: say by -id who this process is, for example -id a")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *servers, *id); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "leader:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, servers, id string) error {
	c, err := client.Dial(ctx, servers)
	if err != nil {
		return err
	}
	defer goodbye(c)
	e := recipes.NewElection(c, "/examples/leader", recipes.ElectionID(id), recipes.AutoRequeue())
	return e.Run(ctx, func(ctx context.Context, l recipes.Lease) error {
		fmt.Println(id, "leads, with the token", l.Token())
		defer fmt.Println(id, "leads no longer")
		return work(ctx, c, l)
	})
}

// work does one step a second. ctx ends with the leadership; what is written carries the guard
// besides, so that a step which is late for any reason is refused by the server.
func work(ctx context.Context, c *client.Client, l recipes.Lease) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for step := 1; ; step++ {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		data := fmt.Appendf(nil, "step %d under the token %d", step, l.Token())
		_, err := c.Multi().Add(l.Guard()...).Set("/examples", data, client.AnyVersion).Commit(ctx)
		if err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
	}
}

// goodbye ends the session, so that the next leader need not wait for it to expire.
func goodbye(c *client.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := c.Close(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "leader: close:", err)
	}
}
