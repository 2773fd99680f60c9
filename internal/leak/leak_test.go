package leak

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

func TestGoroutineThatStaysIsFoundAndOneThatEndsLateIsNot(t *testing.T) {
	before := goleak.IgnoreCurrent()
	stop := make(chan struct{})
	go func() { <-stop }()
	require.ErrorContains(t, within(0, before), "TestGoroutineThatStays")
	time.AfterFunc(time.Second, func() { close(stop) }) // goleak itself gives up before that
	require.NoError(t, Find(before))
}
