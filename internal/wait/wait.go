// Package wait is for who waits: for a while, or for somebody who may never answer.
package wait

import (
	"context"
	"time"
)

// Pause waits for d, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// WhileAlive returns a context that ends, with the cause gone, when so many looks in a row have
// found nobody alive. There is one look in each interval every; alive should give up when its
// context ends. stop is to be called: it ends the context, and returns when the looking has ended.
func WhileAlive(ctx context.Context, every time.Duration, looks int, alive func(ctx context.Context) bool, gone error) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		t := time.NewTicker(every)
		defer t.Stop()
		for inVain := 0; inVain < looks; inVain++ {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
			if alive(ctx) {
				inVain = -1
			}
		}
		cancel(gone)
	}()
	return ctx, func() {
		cancel(nil)
		<-over
	}
}
