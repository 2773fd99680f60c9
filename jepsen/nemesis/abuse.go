package nemesis

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// Abuse is what strangers and broken clients do to open ports, while others are at work. That
// nothing comes of it is judged as for every other fault: the workload's checkers, processes
// that end, and the memory that they have used.

const groupAbuse = "abuse"

func abuses() []Nemesis {
	return []Nemesis{
		{Name: "garbage", Doc: "random bytes, other protocols and impossible lengths on client and peer ports", group: groupAbuse, longest: 4 * time.Second, inject: garbage},
		{Name: "flood", Doc: "hundreds of connections that say nothing, on client and peer ports", group: groupAbuse, longest: 4 * time.Second, inject: flood},
		{Name: "never-read", Doc: "sessions that ask for much and read nothing", group: groupAbuse, longest: 4 * time.Second, inject: neverRead},
	}
}

// dialer opens a connection to a server's port.
type dialer func(ctx context.Context, server int) (net.Conn, error)

// bother runs n strangers, each again and again on a connection of its own, until the fault
// ends.
func bother(w *World, r *rand.Rand, n int, dial dialer, stranger func(r *rand.Rand, c net.Conn)) func() error {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range n {
		own := rand.New(rand.NewPCG(r.Uint64(), r.Uint64()))
		wg.Go(func() {
			for ctx.Err() == nil {
				dialing, done := context.WithTimeout(ctx, time.Second)
				c, err := dial(dialing, 1+own.IntN(w.Cluster.Size()))
				done()
				if err != nil {
					wait(ctx, 20*time.Millisecond)
					continue
				}
				stop := context.AfterFunc(ctx, func() { c.Close() })
				stranger(own, c)
				stop()
				c.Close()
				wait(ctx, time.Duration(own.IntN(10))*time.Millisecond)
			}
		})
	}
	return func() error {
		cancel()
		wg.Wait()
		return nil
	}
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// port draws which port strangers go for.
func port(w *World, r *rand.Rand) (name string, dial dialer) {
	if r.IntN(2) == 0 {
		return "client ports", w.Cluster.Driver().Dial
	}
	return "peer ports", w.Cluster.Driver().DialPeer
}

func garbage(w *World, r *rand.Rand) (fault, error) {
	name, dial := port(w, r)
	return fault{name, nil, bother(w, r, 8, dial, func(r *rand.Rand, c net.Conn) {
		_ = c.SetDeadline(time.Now().Add(time.Second))
		if _, err := c.Write(rubbish(r)); err != nil {
			return
		}
		if r.IntN(2) == 0 {
			_, _ = io.Copy(io.Discard, c)
		}
	})}, nil
}

// rubbish is the beginning of a conversation that no server should begin.
func rubbish(r *rand.Rand) []byte {
	b := make([]byte, 4+r.IntN(300))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	switch r.IntN(7) {
	case 0:
		return []byte("GET / HTTP/1.1\r\nHost: zkd\r\n\r\n")
	case 1:
		return append([]byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}, b...) // TLS
	case 2:
		binary.BigEndian.PutUint32(b, 0xffffffff-r.Uint32N(9))
	case 3:
		binary.BigEndian.PutUint32(b, 0x7fffffff)
	case 4: // a connect request whose password would be longer than the frame
		b = binary.BigEndian.AppendUint32(nil, 44)
		b = append(b, make([]byte, 24)...)
		b = binary.BigEndian.AppendUint32(b, 0x7ffffff0)
		b = append(b, make([]byte, 16)...)
	case 5:
		return append([]byte("zkd/peer"), b...)
	}
	return b
}

func flood(w *World, r *rand.Rand) (fault, error) {
	name, dial := port(w, r)
	n := 100 + r.IntN(300)
	return fault{fmt.Sprintf("%d on %s", n, name), nil, bother(w, r, n, dial, func(r *rand.Rand, c net.Conn) {
		if r.IntN(2) == 0 { // the beginning of something
			_, _ = c.Write([]byte{0, 0})
		}
		_, _ = io.Copy(io.Discard, c)
	})}, nil
}

// neverRead opens sessions with the shortest timeout and has the children of the node with the
// most of them listed, without reading a byte after the handshake.
func neverRead(w *World, r *rand.Rand) (fault, error) {
	const strangers, requests = 4, 20_000
	hello := binary.BigEndian.AppendUint32(nil, 44)
	hello = append(hello, make([]byte, 12)...) // version, last zxid
	hello = binary.BigEndian.AppendUint32(hello, 1000)
	hello = append(hello, make([]byte, 8)...)
	hello = binary.BigEndian.AppendUint32(hello, 16)
	hello = append(hello, make([]byte, 16)...)
	return fault{"client ports", nil, bother(w, r, strangers, w.Cluster.Driver().Dial, func(_ *rand.Rand, c net.Conn) {
		_ = c.SetDeadline(time.Now().Add(3 * time.Second))
		if _, err := c.Write(hello); err != nil {
			return
		}
		if _, err := io.ReadFull(c, make([]byte, 4)); err != nil {
			return
		}
		var b []byte
		for xid := range uint32(requests) {
			// The children of /zookeeper, with a watch.
			b = binary.BigEndian.AppendUint32(b, 8+4+10+1)
			b = binary.BigEndian.AppendUint32(b, xid+1)
			b = binary.BigEndian.AppendUint32(b, 8)
			b = binary.BigEndian.AppendUint32(b, 10)
			b = append(append(b, "/zookeeper"...), 1)
		}
		for {
			if _, err := c.Write(b); err != nil {
				return
			}
		}
	})}, nil
}
