// Command shards divides a set of shards among the processes that run.
//
//	go run ./examples/shards -server 127.0.0.1:2181 -id a
//
// Start and stop it with different ids: every shard is consumed by exactly one of them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
)

func main() {
	servers := flag.String("server", "127.0.0.1:2181", "the servers, host:port,host:port/chroot")
	id := flag.String("id", "", "who this process is, different from all others")
	shards := flag.Int("shards", 8, "how many shards there are, the same in all processes")
	flag.Parse()
	if *id == "" {
		fmt.Fprintln(os.Stderr, "shards: say by -id who this process is, different from all others, for example -id a")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *servers, *id, *shards, time.Second); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "shards:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, servers, id string, shards int, quiet time.Duration) error {
	c, err := client.Dial(ctx, servers)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = c.Close(ctx) // otherwise the session expires
	}()
	names := make([]string, shards)
	for i := range names {
		names[i] = fmt.Sprintf("shard-%02d", i)
	}
	var w workers
	defer w.stop()
	for p, err := range recipes.NewPartitioner(c, "/examples/shards", id, names, quiet).Run(ctx) {
		if err != nil {
			return err
		}
		fmt.Println(id, p.State, p.Items)
		switch p.State {
		case recipes.PartitionAcquired:
			w.start(ctx, p)
		case recipes.PartitionRelease, recipes.PartitionFailed:
			w.stop() // before others may begin
		}
	}
	return nil
}

// workers consume the shards that are ours.
type workers struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

func (w *workers) start(ctx context.Context, p recipes.Partition) {
	if p.Lease == nil {
		return // more members than shards
	}
	ctx, w.cancel = p.Lease.Context(ctx)
	for _, shard := range p.Items {
		w.wg.Go(func() { consume(ctx, shard) })
	}
}

func (w *workers) stop() {
	if w.cancel != nil {
		w.cancel()
	}
	w.wg.Wait()
}

// consume stands for the work on one shard.
func consume(ctx context.Context, shard string) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			fmt.Println("  working on", shard)
		}
	}
}
