package interop

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

// TestKillUnderLoad kills the server hard, 20 times, while pipelined writers are at work,
// and starts it on the same port and data. No acknowledged write may be missing afterwards,
// and a session with its ephemeral goes through all of it.
func TestKillUnderLoad(t *testing.T) {
	forEachServer(t, settings{alone: "kills the server that the clients talk to; TestSeveralAddresses kills members"}, func(t *testing.T, s *server) {
		rounds := 20
		if s.kind == zookeeper {
			rounds = 3 // that the test itself is right
		}
		l := &ledger{created: map[string]int{}}
		owner := openSession(t, s.addr, 60000)
		owner.must(opCreate, createBody("/d", nil, 0))
		owner.must(opCreate, createBody("/owner", nil, 1))
		info := owner.info
		for round := range rounds {
			l.round(t, s, round)
			s.restart()
			c, err := resume(t, s.addr, 60000, info)
			if err != nil {
				t.Fatalf("round %d: the session is gone: %v", round, err)
			}
			if o := (&cursor{b: c.must(opExists, readBody("/owner", false)).rest}).stat().owner; o != info.session {
				t.Fatalf("round %d: the ephemeral belongs to %#x", round, o)
			}
			l.verify(t, c, round)
			_ = c.conn.Close()
		}
		t.Logf("%d writes acknowledged in %d rounds", l.acknowledged, rounds)
	})
}

// ledger keeps what was acknowledged.
type ledger struct {
	mu           sync.Mutex
	created      map[string]int // nodes per directory: all below this number are acknowledged
	counters     [writers]int32 // the newest acknowledged version of each writer's counter
	acknowledged int
	zxid         int64 // the newest in any reply
}

const (
	writers = 4
	window  = 64 // requests of one writer under way
)

// round writes from several connections and kills the server after a random number of
// acknowledged writes, in the middle of the stream.
func (l *ledger) round(t *testing.T, s *server, round int) {
	t.Helper()
	setup := openSession(t, s.addr, 60000)
	for w := range writers {
		setup.must(opCreate, createBody(directory(round, w), nil, 0))
		if round == 0 {
			setup.must(opCreate, createBody(counterOf(w), nil, 0))
		}
	}
	var acks atomic.Int64
	enough := 300 + rand.Int64N(1500)
	killed := make(chan struct{})
	var wg sync.WaitGroup
	for w := range writers {
		c := openSession(t, s.addr, 60000)
		wg.Go(func() {
			n, version := l.write(c, round, w, func() {
				if acks.Add(1) == enough {
					close(killed)
				}
			})
			l.mu.Lock()
			defer l.mu.Unlock()
			l.created[directory(round, w)] = n
			l.counters[w] = max(l.counters[w], version)
			l.acknowledged += n
		})
	}
	over := make(chan struct{})
	go func() { wg.Wait(); close(over) }()
	select {
	case <-killed:
	case <-over:
		t.Errorf("round %d: all connections broke before the kill, after %d acknowledged writes", round, acks.Load())
	}
	s.kill()
	<-over
}

func directory(round, writer int) string { return fmt.Sprintf("/d/r%02d-w%d", round, writer) }
func counterOf(writer int) string        { return fmt.Sprintf("/d/counter-%d", writer) }

// write pipelines creates and sets until the connection breaks. It returns how many
// creates and which version of the counter were acknowledged.
func (l *ledger) write(c *rawConn, round, writer int, acknowledged func()) (created int, version int32) {
	slots := make(chan int32, window)
	go func() { // ends when the reader below has closed the connection
		defer close(slots)
		for xid := int32(1); ; xid++ {
			b := body{}.i32(xid)
			if xid%2 == 1 {
				b = append(b.i32(opCreate), createBody(fmt.Sprintf("%s/n%d", directory(round, writer), xid/2), []byte("data"), 0)...)
			} else {
				b = append(b.i32(opSetData), setBody(counterOf(writer), []byte(fmt.Sprint(round, xid)), -1)...)
			}
			slots <- xid
			if c.sendFrame(b) != nil {
				return
			}
		}
	}()
	defer func() {
		_ = c.conn.Close()
		for range slots { // lets the sender go
		}
	}()
	for want := int32(1); ; want++ {
		r, err := c.readReply()
		if err != nil {
			return created, version
		}
		if r.xid != want || r.err != 0 {
			c.t.Errorf("reply %d with error %d to request %d", r.xid, r.err, want)
			return created, version
		}
		if r.zxid > 0 {
			l.mu.Lock()
			l.zxid = max(l.zxid, r.zxid)
			l.mu.Unlock()
		}
		if want%2 == 1 {
			created++
		} else {
			version = (&cursor{b: r.rest}).stat().version
		}
		acknowledged()
		<-slots
	}
}

// verify looks for every acknowledged write of this round and of all before.
func (l *ledger) verify(t *testing.T, c *rawConn, round int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if zxid := c.must(opPing, nil).zxid; zxid < l.zxid {
		t.Errorf("round %d: the zxid is %#x after the restart, %#x was acknowledged", round, zxid, l.zxid)
	}
	for dir, n := range l.created {
		there := map[string]bool{}
		for _, name := range (&cursor{b: c.must(opGetChildren, readBody(dir, false)).rest}).strs() {
			there[name] = true
		}
		for i := range n {
			if name := fmt.Sprintf("n%d", i); !there[name] {
				t.Fatalf("round %d: %s/%s was acknowledged and is lost; %d of %d are there", round, dir, name, len(there), n)
			}
		}
		// Requests take effect in their order: what survives is a prefix.
		for i := range len(there) {
			if name := fmt.Sprintf("n%d", i); !there[name] {
				t.Fatalf("round %d: %s/%s is missing in front of later ones", round, dir, name)
			}
		}
	}
	for w, version := range l.counters {
		st := (&cursor{b: c.must(opExists, readBody(counterOf(w), false)).rest}).stat()
		if st.version < version {
			t.Fatalf("round %d: counter %d has version %d, %d was acknowledged", round, w, st.version, version)
		}
	}
}
