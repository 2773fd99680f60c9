package main

import (
	"context"
	"testing"
	"time"

	"github.com/zkd-project/zkd/zkdtest"
)

func TestExample(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := run(ctx, zkdtest.Start(t).Addr()); err != nil {
		t.Error(err)
	}
}
