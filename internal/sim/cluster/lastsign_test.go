package cluster

import (
	"bufio"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/wire"
)

// Regression: what a connection said last, just before it ended, was forgotten if the loop that
// carries signs of life had not looked in between. Found by random seeds, about one in 140.
func TestLastSignOfAConnectionThatEndsCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(Options{Seed: 3, Servers: 3})
		w.tick, w.delay = 2*time.Second, 0
		w.net.Heal()
		if err := w.startAll(); err != nil {
			t.Fatal(err)
		}
		const timeout = 4 * time.Second
		early, total := map[bool]int{}, 0
		for trial := range 60 {
			server := trial % 3
			atLeader := w.leader().number == server+1
			time.Sleep(time.Duration(trial*137) * time.Millisecond)
			dial := func(req wire.ConnectRequest) (wire.ConnectResponse, *Link) {
				nc, err := w.net.Host("c").Dial(context.Background(), clientAddress(server))
				if err != nil {
					t.Fatal(err)
				}
				in := bufio.NewReader(nc)
				req.TimeoutMs = 4000
				r, err := shake(nc, in, &req)
				if err != nil {
					t.Fatal(err)
				}
				return r, &Link{nc: nc, in: in}
			}
			r, l := dial(wire.ConnectRequest{Password: make([]byte, 16)})
			time.Sleep(time.Duration(500+trial*61%2000) * time.Millisecond)
			sent := time.Now()
			l.write(wire.XidPing, wire.OpPing, nil)
			if _, err := readFrame(l.in); err != nil {
				t.Fatal(err)
			}
			_ = l.nc.Close()
			time.Sleep(timeout - 5*time.Millisecond - time.Since(sent))
			total++
			again, l2 := dial(wire.ConnectRequest{SessionID: r.SessionID, Password: r.Password})
			if again.SessionID == 0 {
				early[atLeader]++
			}
			_ = l2.nc.Close()
		}
		if early[true]+early[false] > 0 {
			t.Errorf("of %d sessions %d at the leader and %d at followers expired before their timeout", total, early[true], early[false])
		}
		w.end()
	})
}
