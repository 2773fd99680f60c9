package peer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Errors of links.
var (
	errNoAnswer  = errors.New("no answer in time")
	errIdle      = errors.New("closed, since it was not used")
	errReplaced  = errors.New("replaced by a newer connection of the same member")
	errOtherBoot = errors.New("the member dialed from another process")
)

// A link sends requests over one connection and matches the answers with them. Requests are
// answered in the order in which they were sent, but nothing here relies on it.
//
// Invariants:
//
//	L1  a call is in calls from begin until its answer or the end of the link, whichever is
//	    first, and then done is closed: exactly once, for it is closed by who removes it;
//	L2  after err is set, calls is empty and stays so.
type link struct {
	p *peer
	l line
	c *conn

	over atomic.Bool // err is set

	mu    sync.Mutex // guards the fields below
	calls map[uint64]*call
	last  uint64 // number of the last call
	err   error
}

// A call is a request that waits for its answer, which is valid once done is closed.
type call struct {
	done   chan struct{}
	answer answer
	err    error
}

// answer has what the type of the answer says: raft's reply or a sight.
type answer struct {
	reply reply
	sight Sight
}

func newLink(p *peer, l line, c *conn) *link {
	return &link{p: p, l: l, c: c, calls: map[uint64]*call{}}
}

func (k *link) alive() bool { return !k.over.Load() }

// begin sends a request. Requests of one goroutine arrive in their order.
func (k *link) begin(f frameType, fill func(b []byte, call uint64) []byte) (*call, error) {
	c := &call{done: make(chan struct{})}
	k.mu.Lock()
	if err := k.err; err != nil {
		k.mu.Unlock()
		return nil, err
	}
	k.last++
	number := k.last
	k.calls[number] = c
	k.mu.Unlock()
	if err := k.c.send(f, k.p.t.o.Timeout, func(b []byte) []byte { return fill(b, number) }); err != nil {
		k.fail(fmt.Errorf("cannot send to member %s: %w", k.p.id, err))
		return nil, k.failed()
	}
	return c, nil
}

// wait waits for the answer of a call. When the time is over the link is given up: what
// comes after it could not be told from what is lost. When ctx ends only the caller is gone.
func (k *link) wait(ctx context.Context, c *call, timeout <-chan time.Time) (answer, error) {
	select {
	case <-c.done:
		return c.answer, c.err
	default:
	}
	select {
	case <-c.done:
		return c.answer, c.err
	case <-timeout:
		err := fmt.Errorf("member %s: %w", k.p.id, errNoAnswer)
		k.fail(err)
		return answer{}, err
	case <-ctx.Done():
		return answer{}, fmt.Errorf("member %s has not answered yet: %w", k.p.id, context.Cause(ctx))
	}
}

// run reads answers until the link ends.
func (k *link) run() {
	accept := acceptor(acceptRaftAnswer)
	if k.l == lineControl {
		accept = acceptSight
	}
	var buf [8 + 2 + maxFailureBytes]byte
	o := &k.p.t.o
	for heard := time.Now(); ; {
		if err := k.c.nc.SetReadDeadline(time.Now().Add(o.IdleTimeout)); err != nil {
			k.fail(err)
			return
		}
		f, body, err := k.c.in.next(accept, buf[:])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if k.retire() {
				return
			}
			if time.Since(heard) <= o.IdleTimeout+o.Timeout {
				continue // calls wait, and have their own time
			}
			err = errNoAnswer // their callers have gone
		}
		if err == nil {
			heard = time.Now()
			err = k.take(f, body)
		}
		if err != nil {
			k.fail(fmt.Errorf("lost the connection to member %s: %w", k.p.id, err))
			return
		}
	}
}

// take hands an answer to its call.
func (k *link) take(f frameType, body []byte) error {
	var number uint64
	var a answer
	var failure, err error
	switch f {
	case frameReply:
		number, a.reply, err = decodeReply(body)
	case frameFailure:
		var text string
		number, text, err = decodeFailure(body)
		failure = fmt.Errorf("member %s: %s", k.p.id, text)
	default:
		number, a.sight, err = decodeSight(body)
	}
	if err != nil {
		return err
	}
	k.mu.Lock()
	c := k.calls[number]
	delete(k.calls, number)
	k.mu.Unlock()
	if c == nil {
		return fmt.Errorf("%w: an answer to nothing", errFormat)
	}
	c.answer, c.err = a, failure
	close(c.done)
	return nil
}

// retire closes a link that nobody uses; false if somebody does.
func (k *link) retire() bool {
	k.mu.Lock()
	idle := len(k.calls) == 0
	if idle && k.err == nil {
		k.err = errIdle
		k.over.Store(true)
	}
	k.mu.Unlock()
	if idle {
		k.c.bye(errIdle)
	}
	return idle
}

// fail ends the link and all its calls. The first error stays.
func (k *link) fail(err error) {
	k.mu.Lock()
	if k.err == nil {
		k.err = err
		k.over.Store(true)
	}
	err = k.err
	calls := k.calls
	k.calls = nil
	k.mu.Unlock()
	k.c.end(err, k.p.t.ctx.Err() != nil)
	for _, c := range calls {
		c.err = err
		close(c.done)
	}
}

func (k *link) failed() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}
