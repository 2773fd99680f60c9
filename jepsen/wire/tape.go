package wire

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// tapeBytes is how much of each connection is kept, the newest.
	tapeBytes = 64 << 10
	// tapesBytes is how much there is of all: beyond it, connections that are gone are forgotten, the
	// oldest first.
	tapesBytes = 64 << 20
)

// Tapes keep the newest frames of connections, as they were on the wire, for when a run has found
// something. The zero value is ready, nil keeps nothing, and all methods may be called from any goroutine.
//
// Invariant: a frame is never changed once it has been sent or read, so tapes share it.
type Tapes struct {
	bytes atomic.Int64

	mu  sync.Mutex
	all []*tape // guarded by mu: in the order of their beginnings
}

// A tape is that of one connection.
type tape struct {
	of   *Tapes
	conn *Conn

	mu     sync.Mutex
	frames []taped // guarded by mu
	bytes  int     // guarded by mu
}

// taped is a frame, without its length.
type taped struct {
	at   time.Time
	sent bool // else it was read
	b    []byte
}

// begin returns the tape of a connection.
func (t *Tapes) begin(c *Conn) *tape {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = slices.DeleteFunc(t.all, func(old *tape) bool {
		drop := t.bytes.Load() > tapesBytes && old.over()
		if drop {
			old.forget(0)
		}
		return drop
	})
	p := &tape{of: t, conn: c}
	t.all = append(t.all, p)
	return p
}

// over says whether nothing will be added.
func (p *tape) over() bool {
	select {
	case <-p.conn.gone:
		return true
	default:
		return false
	}
}

// add keeps a frame.
func (p *tape) add(sent bool, b []byte) {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.frames = append(p.frames, taped{time.Now(), sent, b})
	p.bytes += len(b)
	p.mu.Unlock()
	p.of.bytes.Add(int64(len(b)))
	p.forget(tapeBytes)
}

// forget drops the oldest frames until no more than so many bytes are left.
func (p *tape) forget(left int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, freed := 0, 0
	for n < len(p.frames) && p.bytes-freed > left {
		freed += len(p.frames[n].b)
		n++
	}
	clear(p.frames[:n]) // the array stays for a while
	p.frames = p.frames[n:]
	p.bytes -= freed
	p.of.bytes.Add(-int64(freed))
}

// Write writes all frames that are kept, a line each, by time: seconds since start, the connection and its
// server, who sent it, and the frame in hexadecimal digits without its length.
func (t *Tapes) Write(w io.Writer, start time.Time) error {
	if t == nil {
		return nil
	}
	type line struct {
		taped
		conn *Conn
	}
	var lines []line
	t.mu.Lock()
	for _, p := range t.all {
		p.mu.Lock()
		for _, f := range p.frames {
			lines = append(lines, line{f, p.conn})
		}
		p.mu.Unlock()
	}
	t.mu.Unlock()
	slices.SortStableFunc(lines, func(a, b line) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.conn.Number, b.conn.Number))
	})
	out := bufio.NewWriter(w)
	var err error
	for _, l := range lines {
		from := "server"
		if l.sent {
			from = "client"
		}
		_, e := fmt.Fprintf(out, "%.6f conn %d node %d %s %x\n", l.at.Sub(start).Seconds(), l.conn.Number, l.conn.Node, from, l.b)
		err = errors.Join(err, e)
	}
	return errors.Join(err, out.Flush())
}
