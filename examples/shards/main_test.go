package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/zkdtest"
)

func TestExample(t *testing.T) {
	srv := zkdtest.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- run(ctx, srv.Addr(), "a", 3, 10*time.Millisecond) }()
	c, err := client.Dial(t.Context(), srv.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	for {
		names, _, _ := c.Children(t.Context(), "/examples/shards/locks")
		if len(names) == 3 {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("the shards were not taken: %v", names)
		}
		time.Sleep(10 * time.Millisecond) // between two looks at the nodes
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
