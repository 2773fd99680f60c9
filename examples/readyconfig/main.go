// Command readyconfig changes a configuration of several nodes so that nobody ever sees half of it.
//
//	go run ./examples/readyconfig -server 127.0.0.1:2181                        (prints what is in force)
//	go run ./examples/readyconfig -server 127.0.0.1:2181 -set "host=a,port=1"
//	add -at-once to both for the better way
//
// The old way (ready.go) is that of the paper on ZooKeeper, and works with any number of nodes and
// any server: the writer deletes a node "ready", writes, and makes it again; readers watch that node
// first. The better way (atonce.go) is one Multi: there is no moment without a configuration, and a
// writer that dies leaves the old one. It needs all nodes to fit into one request, some 1 MB.
//
// Writers take turns under a lock, and each write carries the lock's guard.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
)

// Where things are: the settings are the children of nodes.
const (
	base  = "/examples/readyconfig"
	nodes = base + "/nodes"
)

// settings are a configuration: the data of nodes by their names.
type settings map[string]string

// A way is how a configuration is written and read. change is called by the holder of the lock; follow
// hands out every configuration that it finds in force, until ctx ends.
type way struct {
	change func(ctx context.Context, c *client.Client, l recipes.Lease, s settings) error
	follow func(ctx context.Context, c *client.Client, found func(settings)) error
}

var (
	withReady = way{changeBehindReady, followReady}
	atOnce    = way{changeAtOnce, followVersion}
)

func main() {
	servers := flag.String("server", "127.0.0.1:2181", "the servers, host:port,host:port/chroot")
	set := flag.String("set", "", "the new configuration, name=value,name=value; otherwise it is followed")
	better := flag.Bool("at-once", false, "the better way; not to be mixed with the other")
	flag.Parse()
	how := withReady
	if *better {
		how = atOnce
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *servers, *set, how); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "readyconfig:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, servers, set string, how way) error {
	c, err := client.Dial(ctx, servers)
	if err != nil {
		return err
	}
	defer goodbye(c)
	if set == "" {
		return how.follow(ctx, c, func(s settings) { fmt.Println("in force:", s) })
	}
	s := settings{}
	for item := range strings.SplitSeq(set, ",") {
		name, value, ok := strings.Cut(item, "=")
		if !ok {
			return fmt.Errorf("%q is not of the form name=value", item)
		}
		s[name] = value
	}
	return publish(ctx, c, s, how)
}

// publish changes the configuration, when it is our turn.
func publish(ctx context.Context, c *client.Client, s settings, how way) error {
	return recipes.NewMutex(c, base+"/lock").Do(ctx, func(ctx context.Context, l recipes.Lease) error {
		if _, _, err := c.Create(ctx, nodes, nil, client.ModePersistent, nil, client.MakeParents()); err != nil && !errors.Is(err, client.ErrNodeExists) {
			return err
		}
		return how.change(ctx, c, l, s)
	})
}

// writes are the operations that make the nodes what s says. Nobody else changes them meanwhile: we
// hold the lock, and what we do with the operations carries its guard.
func writes(ctx context.Context, c *client.Client, s settings) (ops []client.Op, err error) {
	names, _, err := c.Children(ctx, nodes, client.Fresh())
	if err != nil {
		return nil, err
	}
	old := map[string]bool{}
	for _, name := range names {
		old[name] = true
		if _, ok := s[name]; !ok {
			ops = append(ops, c.OpDelete(nodes+"/"+name, client.AnyVersion))
		}
	}
	for name, value := range s {
		if old[name] {
			ops = append(ops, c.OpSet(nodes+"/"+name, []byte(value), client.AnyVersion))
		} else {
			ops = append(ops, c.OpCreate(nodes+"/"+name, []byte(value), client.ModePersistent, nil))
		}
	}
	return ops, nil
}

// goodbye ends the session, so that the lock is free at once.
func goodbye(c *client.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := c.Close(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "readyconfig: close:", err)
	}
}
