package peer

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/raft"
)

// errRaftBusy ends a connection whose request raft did not take in time. Its sender has given
// it up by then; a TimeoutNow or a vote that is delivered late would do harm.
var errRaftBusy = errors.New("raft here did not take a request in time")

// A promise is a request that raft has, or will have in a moment.
type promise struct {
	call   uint64
	answer chan raft.RPCResponse
}

// serveRaft hands the requests of a connection to raft, in order. The answers are sent by a
// goroutine of their own: while raft works on one request the next is read and decoded.
func (t *Transport) serveRaft(c *conn) error {
	promises := make(chan promise, maxAnswers)
	answered := make(chan struct{})
	if !t.spawn(func() { defer close(answered); t.answerRaft(c, promises) }) {
		return ErrClosed
	}
	err := t.readRaft(c, promises)
	close(promises)
	c.end(err, errors.Is(err, errBye))
	<-answered
	return err
}

// errBye is how the loops say that the other side has ended the connection in order.
var errBye = fmt.Errorf("closed by the other side: %w", io.EOF)

func (t *Transport) readRaft(c *conn, promises chan<- promise) error {
	from := []byte(c.peer)
	timer := time.NewTimer(t.o.Timeout)
	defer timer.Stop()
	for {
		// A request with entries must not be read into memory that is used again: the
		// entries stay in it, in the log's cache.
		f, body, err := c.in.next(t.acceptRaftRequest, nil)
		if err != nil {
			return err
		}
		if f == frameBye {
			return errBye
		}
		call, command, err := decodeRequest(f, body, from)
		if err != nil {
			return fmt.Errorf("type %d: %w", f, err)
		}
		pr := promise{call: call, answer: make(chan raft.RPCResponse, 1)}
		timer.Reset(t.o.Timeout)
		select {
		case t.rpcs <- raft.RPC{Command: command, RespChan: pr.answer}:
		case <-timer.C:
			return errRaftBusy
		case <-c.done:
			return c.err()
		case <-t.ctx.Done():
			return ErrClosed
		}
		select {
		case promises <- pr:
		case <-c.done:
			return c.err()
		}
	}
}

func (t *Transport) answerRaft(c *conn, promises <-chan promise) {
	for pr := range promises {
		var a raft.RPCResponse
		select {
		case a = <-pr.answer:
		case <-c.done:
			return
		case <-t.ctx.Done():
			return
		}
		t.o.BeforeAnswer()
		if err := t.sendAnswer(c, pr.call, a); err != nil {
			return // the reader sees it, too
		}
	}
}

// sendAnswer sends what raft answered with.
func (t *Transport) sendAnswer(c *conn, call uint64, a raft.RPCResponse) error {
	var r reply
	err := a.Error
	if err == nil {
		r, err = replyOf(a.Response)
	}
	if err != nil {
		return c.send(frameFailure, t.o.Timeout, func(b []byte) []byte { return appendFailure(b, call, err.Error()) })
	}
	return c.send(frameReply, t.o.Timeout, func(b []byte) []byte { return appendReply(b, call, &r) })
}
