// Command fencing shows why a lock alone does not protect a resource outside of the servers,
// and how a fencing token does.
//
//	go run ./examples/fencing -server 127.0.0.1:2181
//
// A first holder is stopped by force, as a long pause would, and writes after a second one has got
// the lock. The storage remembers the highest token that it has seen and refuses the late write.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
)

// A storage stands for a database, a file server, a printer: it knows nothing of locks.
type storage struct {
	mu      sync.Mutex
	highest int64
	data    string
}

var errStale = errors.New("the token is older than one that was seen: the lock has passed on")

func (s *storage) write(token int64, data string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if token < s.highest {
		return errStale
	}
	s.highest, s.data = token, data
	return nil
}

func main() {
	servers := flag.String("server", "127.0.0.1:2181", "the servers, host:port,host:port/chroot")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, *servers); err != nil {
		fmt.Fprintln(os.Stderr, "fencing:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, servers string) error {
	c, err := client.Dial(ctx, servers)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	var disk storage
	m := recipes.NewMutex(c, "/examples/fencing")
	first, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	if err := disk.write(first.Token(), "from the first"); err != nil {
		return err
	}
	// An operator thinks that the first holder is dead.
	who, err := m.Participants(ctx)
	if err != nil {
		return err
	}
	if err := m.Break(ctx, who[0].Node); err != nil {
		return err
	}
	err = m.Do(ctx, func(_ context.Context, l recipes.Lease) error {
		fmt.Println("tokens:", first.Token(), "and then", l.Token())
		return disk.write(l.Token(), "from the second")
	})
	if err != nil {
		return err
	}
	// It was not dead, it only slept, and goes on where it was.
	if err := disk.write(first.Token(), "from the first, late"); !errors.Is(err, errStale) {
		return fmt.Errorf("the late write was not refused: %v", err)
	}
	fmt.Println("the late write was refused; the storage holds the data", disk.data)
	return first.Release(ctx)
}
