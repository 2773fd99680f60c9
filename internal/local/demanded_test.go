package local_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/client"
)

// The end of a session that somebody asks for outlives a break of the way to the leader, with which what
// was proposed is lost.
func TestTheEndThatSomebodyAsksForOutlivesABreak(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cl, leader := startThree(ctx, t, "tickTime=1000", "maxSessionTimeout=3600000", "syncLimit=1000")
	defer func() { require.NoError(t, cl.Close()) }()
	follower := leader%3 + 1
	holder, err := client.Dial(ctx, cl.Addr(leader), client.WithTimeout(10*time.Minute))
	require.NoError(t, err)
	defer holder.Close(ctx)
	_, _, err = holder.Create(ctx, "/lock", nil, client.ModeEphemeral, client.WorldACL(client.PermAll))
	require.NoError(t, err)
	look, err := client.Dial(ctx, cl.Addr(follower), client.WithTimeout(10*time.Minute))
	require.NoError(t, err)
	defer look.Close(ctx)
	require.NoError(t, look.Sync(ctx, "/")) // it knows the session

	cl.Isolate(follower)
	ended := make(chan error, 1)
	go func() { ended <- cl.Server(follower).ExpireSession(ctx, holder.SessionID()) }()
	time.Sleep(300 * time.Millisecond) // for it to be on its way
	cl.Cut(follower)
	cl.Heal()
	require.NoError(t, <-ended)
}
