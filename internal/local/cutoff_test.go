package local_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/internal/local"
)

// raft takes requests that fail for contacts with the others, so a leader that is cut off while
// connections break may go on leading beside the next one. It must not tell a client that it holds
// a lock which the next one gives away.
func TestLeaderThatIsCutOffGivesNobodyMoreTime(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	// A machine that stands still can cost the holder its session before anything is shown.
	for !cutOff(ctx, t) {
		require.NoError(t, ctx.Err())
	}
}

// awaitLeader waits for a leader: the first may have lost its place on a machine that stood still.
func awaitLeader(ctx context.Context, t *testing.T, cl *local.Cluster) int {
	t.Helper()
	for {
		if leader := cl.Leader(); leader != 0 {
			return leader
		}
		require.NoError(t, ctx.Err())
		time.Sleep(time.Millisecond)
	}
}

// startThree starts three servers with settings, each as KEY=VALUE, and waits for a leader.
func startThree(ctx context.Context, t *testing.T, settings ...string) (cl *local.Cluster, leader int) {
	t.Helper()
	o := local.Options{Nodes: 3}
	for _, s := range settings {
		key, value, _ := strings.Cut(s, "=")
		o.Settings = append(o.Settings, config.Override{Key: key, Value: value, Origin: "test"})
	}
	cl, err := local.Start(ctx, o)
	require.NoError(t, err)
	return cl, awaitLeader(ctx, t, cl)
}

// cutOff cuts off a leader whose client holds a lock; false says that the session of the client was over
// before that.
func cutOff(ctx context.Context, t *testing.T) (shown bool) {
	const timeout = 2 * time.Second
	cl, leader := startThree(ctx, t, "tickTime=200")
	defer func() { require.NoError(t, cl.Close()) }()
	holder, err := client.Dial(ctx, cl.Addr(leader), client.WithTimeout(timeout))
	require.NoError(t, err)
	defer holder.Close(ctx)
	_, _, err = holder.Create(ctx, "/lock", nil, client.ModeEphemeral, client.WorldACL(client.PermAll))
	if errors.Is(err, client.ErrUncertain) || errors.Is(err, client.ErrSessionExpired) {
		return false
	}
	require.NoError(t, err)
	other, err := client.Dial(ctx, cl.Addr(leader%3+1))
	require.NoError(t, err)
	defer other.Close(ctx)

	cl.Isolate(leader)
	began := time.Now()
	gone := make(chan error, 1)
	var goneAt time.Time
	go func() {
		gone <- func() error {
			for {
				_, found, err := other.Exists(ctx, "/lock")
				if goneAt = time.Now(); err != nil || !found {
					return err
				}
				time.Sleep(time.Millisecond)
			}
		}()
	}()
	answered, answers := time.Now(), 0
	for ctx.Err() == nil {
		sent := time.Now()
		if sent.Sub(began) > 500*time.Millisecond { // the others hold an election by now
			cl.Cut(leader)
		}
		asking, stop := context.WithTimeout(ctx, timeout)
		_, _, err := holder.Get(asking, "/lock")
		stop()
		if err != nil {
			break
		}
		answered = sent
		answers++
		time.Sleep(time.Millisecond)
	}
	require.NoError(t, <-gone)
	if answers == 0 {
		return false
	}
	require.False(t, goneAt.Before(answered.Add(timeout)), fmt.Sprintf(
		"the lock was given away %v after the cut, and its holder was answered until %v after it", goneAt.Sub(began), answered.Sub(began)))
	t.Logf("given away %v after the cut, answered until %v", goneAt.Sub(began), answered.Sub(began))
	return true
}
