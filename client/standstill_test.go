package client

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/zkd-project/zkd/wire"
)

// Time for which this process stood still is not the server's silence: what the server said
// meanwhile is in the socket and not read. Real silence counts as before.
func TestStandStillIsNotTheServersSilence(t *testing.T) {
	for name, tc := range map[string]struct {
		late time.Duration // beyond what tend had asked for
		lost bool
		told bool
	}{
		"on time":             {0, false, false},
		"a little late":       {time.Second, false, false},
		"stood still":         {20 * time.Second, false, true},
		"and nothing follows": {20 * time.Second, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rec := &recorder{}
				cfg := defaultConfig()
				cfg.tracer = rec
				k := newCore(cfg, []string{"a:1"})
				defer k.cancel()
				c := &conn{k: k, timeout: 9 * time.Second, dead: make(chan struct{}), kick: make(chan struct{}, 1), adopted: true}
				time.Sleep(time.Second)
				c.answered = k.now()
				c.heard.Store(k.now().mono)
				wait := c.tend()
				require.Equal(t, 3*time.Second, wait)
				time.Sleep(wait + tc.late)
				wait = c.tend()
				require.NoError(t, c.err, "the server had no chance to be heard")
				require.True(t, c.pingDue, "it is asked at once")
				require.Equal(t, tc.told, len(rec.conn) == 1)
				if !tc.lost {
					return
				}
				require.Equal(t, ConnStoodStill, rec.conn[0])
				again := time.Now()
				for c.err == nil {
					time.Sleep(wait)
					wait = c.tend()
				}
				require.ErrorIs(t, c.err, errSilent)
				require.Equal(t, 3*time.Second, time.Since(again), "the rest of two thirds of the timeout")
			})
		})
	}
}

// What a slow mechanism or resolver takes between two questions to a server is not a stand-still.
func TestPausesBetweenCallsAreNoStandStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := &recorder{}
		f := newFake(t, server(func(c *fakeConn, r fakeRequest) bool {
			if r.Op == wire.OpSASL {
				c.reply(r, wire.OK, wire.AppendBuffer(nil, []byte("go on")))
				return true
			}
			return false
		}))
		c := f.client(WithTracer(rec), WithSASL(slowSASL{}))
		require.NoError(t, c.Sync(testContext(t), "/"))
		time.Sleep(time.Minute)
		require.NotContains(t, rec.conn, ConnStoodStill)
	})
}

// slowSASL thinks for a while before every word.
type slowSASL struct{}

func (slowSASL) Start(string) (SASLExchange, error) { return &slowExchange{}, nil }

type slowExchange struct{ steps int }

func (x *slowExchange) Step([]byte) ([]byte, bool, error) {
	time.Sleep(3 * time.Second)
	x.steps++
	if x.steps == 3 {
		return nil, true, nil
	}
	return []byte("token"), false, nil
}
