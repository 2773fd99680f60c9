package audit

import (
	"bytes"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"time"
)

const (
	// maxWaiting bounds the bytes of lines that wait to be written: some 200,000 lines, so the
	// largest transaction fits several times, and a disk may stand still for a moment.
	maxWaiting = 32 << 20

	// closeLimit bounds the wait for a disk that does not answer when the server ends.
	closeLimit = 5 * time.Second

	// keepBuffer bounds the buffers that are kept for the lines to come.
	keepBuffer = 4 << 20

	stampBytes = len("2026-11-22 00:52:38,472")
)

// An Output is where the lines go. A logfile.File is one.
type Output interface {
	io.Writer
	// Reopen is called on demand, see Log.Reopen.
	Reopen() error
	// Close is called once nothing is written any more.
	Close() error
}

// Options say what a Log is made of. Output is required.
type Options struct {
	Output Output
	Logger *slog.Logger // is told of trouble with the output; nil means slog.Default

	// Written and Lost count lines; either may be nil. They must not block.
	Written, Lost func(lines int64)

	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// A Log is an open audit log. Its methods may be called from any goroutine.
//
// Invariants: queue holds whole lines, at most limit bytes of them; lost counts the lines
// that were dropped and are not named in a line of the log yet; the times of the lines in queue
// and before never fall.
type Log struct {
	o     Options
	limit int           // maxWaiting, but in tests
	wake  chan struct{} // capacity 1: there is something to write
	done  chan struct{} // closed when the writer has ended

	mu     sync.Mutex // held for the copy of a line
	queue  []byte
	spare  []byte // the buffer that is not in use
	lost   int64
	lastMs int64    // since 1970, of the newest line
	stamp  [32]byte // that time as text, stampBytes of it; the rest is room for time.AppendFormat
	closed bool
}

// New starts a log. Close ends it, and closes the output.
func New(o Options) *Log {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	for _, f := range []*func(int64){&o.Written, &o.Lost} {
		if *f == nil {
			*f = func(int64) {}
		}
	}
	l := &Log{o: o, limit: maxWaiting, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go l.run()
	return l
}

// Write puts a line behind those that wait, or drops and counts it. It does not wait for the
// output.
func (l *Log) Write(r *Record) {
	now := l.o.Now()
	l.mu.Lock()
	if l.closed || len(l.queue) >= l.limit {
		l.lost++
		l.mu.Unlock()
		l.o.Lost(1)
		return
	}
	first := len(l.queue) == 0
	l.queue = r.append(l.begin(l.queue, now, r.Result))
	l.mu.Unlock()
	if first {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// begin starts a line as ZooKeeper's logging does. The clock of the machine may be set back;
// the lines stay at the newest time until it has caught up. Called with mu held.
func (l *Log) begin(b []byte, now time.Time, r Result) []byte {
	if ms := now.UnixMilli(); ms > l.lastMs {
		if ms/1000 != l.lastMs/1000 || l.lastMs == 0 {
			now.AppendFormat(l.stamp[:0], "2006-01-02 15:04:05,000")
		} else {
			f := ms % 1000
			l.stamp[20], l.stamp[21], l.stamp[22] = byte('0'+f/100), byte('0'+f/10%10), byte('0'+f%10)
		}
		l.lastMs = ms
	}
	b = append(b, l.stamp[:stampBytes]...)
	if r == Failure {
		return append(b, " ERROR audit.Log: "...)
	}
	return append(b, " INFO audit.Log: "...)
}

// run writes what waits until the log is closed and nothing waits any more.
func (l *Log) run() {
	defer close(l.done)
	torn, sick := false, false
	for range l.wake {
		for {
			c := l.take(torn)
			if len(c.b) == 0 {
				if c.last {
					return
				}
				break
			}
			n, err := l.o.Output.Write(c.b)
			torn = err != nil && (n > 0 && c.b[n-1] != '\n' || n == 0 && torn)
			l.account(&c, n, err)
			if (err != nil) != sick {
				sick = err != nil
				l.tell(err)
			}
			if err != nil && c.last {
				return
			}
		}
	}
}

// A chunk is what is written at once.
type chunk struct {
	b    []byte
	head int   // bytes in front of the first line of a Record
	told int64 // lines that are lost, as the head says
	last bool  // the log is closed
}

// take returns what waits, and in front of it how many lines were lost before. torn says that
// the last line in the output is not complete. Called by the writer alone.
func (l *Log) take(torn bool) chunk {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := chunk{b: l.queue, last: l.closed}
	if len(c.b) == 0 && (l.lost == 0 || !l.closed) {
		return c // what was lost is told before the next line, or at the end
	}
	l.queue, l.spare = l.spare[:0], nil
	c.told, l.lost = l.lost, 0
	if c.told == 0 && !torn {
		return c
	}
	var head []byte
	if torn {
		head = append(head, '\n')
	}
	if c.told > 0 {
		head = append(l.begin(head, l.o.Now(), Failure), "operation="+gap+"\tlost="...)
		head = append(strconv.AppendInt(head, c.told, 10), "\tresult=failure\n"...)
	}
	c.head = len(head)
	c.b = append(head, c.b...)
	return c
}

// account counts what came of a write, of which the first n bytes are in the output, and gives
// the buffer back.
func (l *Log) account(c *chunk, n int, err error) {
	lines := func(b []byte) int64 { return int64(bytes.Count(b, []byte{'\n'})) }
	whole := max(n, c.head)
	lost := int64(0)
	if err != nil {
		lost = lines(c.b[whole:])
	}
	l.o.Written(lines(c.b[c.head:whole]))
	l.mu.Lock()
	if cap(c.b) <= keepBuffer && l.spare == nil {
		l.spare = c.b[:0]
	}
	l.lost += lost
	if n < c.head {
		l.lost += c.told
	}
	l.mu.Unlock()
	if lost > 0 {
		l.o.Lost(lost)
	}
}

// tell says that the output cannot be written, or can be again.
func (l *Log) tell(err error) {
	if err != nil {
		l.o.Logger.Error("the audit log cannot be written; its lines are lost until it can", "error", err)
		return
	}
	l.o.Logger.Info("the audit log is written again")
}

// Reopen goes on in a new file, after somebody has moved the old one away.
func (l *Log) Reopen() error { return l.o.Output.Reopen() }

// Close writes what waits, for as long as the disk takes but some seconds at most, and closes
// the output. Lines that come later are dropped.
func (l *Log) Close() error {
	l.mu.Lock()
	closed := l.closed
	l.closed = true
	l.mu.Unlock()
	if closed {
		<-l.done
		return nil
	}
	select {
	case l.wake <- struct{}{}:
	default: // the writer is about to look anyway
	}
	timer := time.NewTimer(closeLimit)
	defer timer.Stop()
	select {
	case <-l.done:
	case <-timer.C: // the writer ends when the disk answers, and finds the file closed then
		l.o.Logger.Error("the audit log does not take its last lines")
	}
	return l.o.Output.Close()
}
