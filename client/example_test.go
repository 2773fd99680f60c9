package client_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zkd-project/zkd/client"
)

func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, "a:2181,b:2181,c:2181/app")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close(ctx)

	data, stat, err := c.Get(ctx, "/config")
	switch {
	case errors.Is(err, client.ErrNoNode):
		_, _, err = c.Create(ctx, "/config", []byte("first"), client.ModePersistent, nil)
	case err == nil:
		_, err = c.Set(ctx, "/config", append(data, " and more"...), stat.Version)
	}
	if errors.Is(err, client.ErrUncertain) {
		fmt.Println("it may have happened or not; look before doing it again")
	}
}

// A Subscription feeds a cache: an EventReset or ErrLagged says when to read everything.
func ExampleClient_Watch() {
	var c *client.Client // from Dial
	ctx := context.Background()
	for ev, err := range c.Watch(ctx, "/services", client.Recursive) {
		switch {
		case errors.Is(err, client.ErrLagged), err == nil && ev.Type == client.EventReset:
			// read the whole tree
		case err != nil:
			return // the context or the client has ended
		default:
			// read ev.Path, or forget it
		}
	}
}

// What hangs on an ephemeral node asks the Session whether it may still believe in it, and
// guards its writes with a check of the node.
func ExampleSession() {
	var c *client.Client // from Dial
	ctx := context.Background()
	session := c.Session()
	node, _, err := c.ProtectedCreate(ctx, "/locks/lock-", nil, client.ModeEphemeralSequential, nil, client.In(session))
	if err != nil {
		return
	}
	// … node is the first in the queue, so the lock is ours …
	for session.Valid() {
		_, err := c.Multi().Check(node, client.AnyVersion).Set("/result", []byte("mine"), client.AnyVersion).Commit(ctx)
		if errors.Is(err, client.ErrNoNode) {
			break // lost, although nobody had told us yet
		}
	}
	_ = c.SureDelete(ctx, node, client.AnyVersion)
}
