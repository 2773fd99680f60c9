package main

import (
	"context"
	"errors"
	"strings"
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
	go func() { done <- run(ctx, srv.Addr(), "a") }()
	c, err := client.Dial(t.Context(), srv.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	for {
		data, _, _ := c.Get(t.Context(), "/examples")
		if strings.HasPrefix(string(data), "step ") { // seldom a later one than the first
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("no step was taken: %q", data)
		}
		time.Sleep(10 * time.Millisecond) // between two looks at the node
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
