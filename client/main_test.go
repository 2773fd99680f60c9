package client

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/leak"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv("ZKD_PAUSED_HOLDER"); addr != "" {
		pausedHolder(addr)
		return
	}
	os.Exit(leak.Main(m))
}

// testLimit bounds what a test waits for, so that it fails with a reason. It is long: the machine may
// stand still for a while, again and again. In a synctest bubble it is virtual.
const testLimit = 2 * time.Minute

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testLimit)
	t.Cleanup(cancel)
	return ctx
}

// closeClient closes and fails the test if that does not work. The test's context may be over.
func closeClient(t testing.TB, c *Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testLimit)
	defer cancel()
	if err := c.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

// abandonClient ends a client whose server is not there to say goodbye to.
func abandonClient(c *Client) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = c.Close(ctx)
}

// eventually polls until cond holds. In a bubble the clock is virtual.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(testLimit)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", testLimit, what)
		}
		time.Sleep(time.Millisecond) // between two looks at the condition
	}
}

// collectStates collects session events until the test ends, beginning with the present state.
func collectStates(t testing.TB, c *Client) (next func() SessionEvent) {
	t.Helper()
	ch := make(chan SessionEvent, 1000)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	var once sync.Once
	begun := make(chan struct{})
	go func() {
		defer close(done)
		for ev := range c.Events(ctx) {
			ch <- ev
			once.Do(func() { close(begun) })
		}
	}()
	<-begun // the first event is the state at this moment
	t.Cleanup(func() { cancel(); <-done })
	return func() SessionEvent {
		t.Helper()
		select {
		case ev := <-ch:
			return ev
		case <-time.After(testLimit):
			require.FailNow(t, "no session event came")
			panic("unreachable")
		}
	}
}
