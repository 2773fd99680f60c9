package replication

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/server/replication/peer"
)

// slowSink takes its time for every piece.
type slowSink time.Duration

func (s slowSink) Write(p []byte) (int, error) {
	time.Sleep(time.Duration(s))
	return len(p), nil
}

// A snapshot gives way while something is applied, and only then.
func TestASnapshotGivesWayToWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &Node{}
		pieces := func(out io.Writer, apply bool) time.Duration {
			w := &gentleWriter{Writer: out, n: n}
			began := time.Now()
			for range 10 {
				if _, err := w.Write(make([]byte, 10)); err != nil {
					t.Fatal(err)
				}
				if apply {
					n.applied.Add(1)
				}
			}
			return time.Since(began)
		}
		if took := pieces(slowSink(time.Millisecond), false); took != 10*time.Millisecond {
			t.Errorf("nothing is applied, and it took %v", took)
		}
		if took := pieces(slowSink(time.Millisecond), true); took != 10*time.Millisecond+9*giveWay*time.Millisecond {
			t.Errorf("beside writers it took %v", took)
		}
		if took := pieces(slowSink(time.Second), true); took != 10*time.Second+9*maxGiveWay {
			t.Errorf("on a slow disk it took %v", took)
		}
		n.closing.Store(true)
		if _, err := (&gentleWriter{Writer: io.Discard, n: n}).Write(nil); !errors.Is(err, errClosing) {
			t.Error(err)
		}
	})
}

// The members of a cluster draw when a snapshot is due, anew each time; a lone server does not.
func TestMembersTakeTurnsWithSnapshots(t *testing.T) {
	due := func(n *Node) int64 {
		f := &fsm{n: n}
		for !f.due() {
			f.bytes++
		}
		return f.bytes
	}
	n := &Node{o: Options{SnapshotBytes: 1000}}
	if at := due(n); at != 1000 {
		t.Errorf("a lone server: after %d", at)
	}
	n.peers = &peer.Transport{}
	seen := map[int64]bool{}
	for range 1000 {
		at := due(n)
		if at < 500 || at > 1000 {
			t.Fatalf("after %d", at)
		}
		seen[at] = true
	}
	if len(seen) < 20 {
		t.Errorf("only %d different moments", len(seen))
	}
}
