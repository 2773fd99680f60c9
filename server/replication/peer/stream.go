package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/hashicorp/raft"
)

// A Stream is a connection of its own to another member, for messages of one Kind in both
// directions. What the other side does not read fills the buffers of the network, and then
// Send waits: that is all the flow control there is, and no stream holds up another or raft.
//
// Any goroutine may send; one at a time receives.
type Stream struct {
	t      *Transport
	c      *conn
	dialed bool
	after  sync.Once
}

// Handle has f called, each time in a goroutine of its own, for every stream of a kind that
// another member opens. The stream is closed when f returns; f must return when the stream
// fails, which it does at Close of the Transport. It is for the kinds from FirstKind on.
func (t *Transport) Handle(kind Kind, f func(*Stream)) {
	if kind < FirstKind {
		panic(fmt.Sprintf("peer: Handle of kind %d: those below %d are taken", kind, FirstKind))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.handlers[kind] = f
}

func (t *Transport) handler(kind Kind) func(*Stream) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.handlers[kind]
}

// Open opens a stream to another member, which must Handle its kind: one attempt, that ends
// with ctx at the latest. A *RefusedError says that the member answered, and why not so.
func (t *Transport) Open(ctx context.Context, id raft.ServerID, kind Kind) (*Stream, error) {
	if kind < FirstKind {
		panic(fmt.Sprintf("peer: Open of kind %d: those below %d are taken", kind, FirstKind))
	}
	c, err := t.dial(ctx, id, kind)
	if err != nil {
		if t.ctx.Err() != nil {
			err = ErrClosed
		}
		return nil, err
	}
	limitSilence(c.raw, t.o.StallTimeout)
	return &Stream{t: t, c: c, dialed: true}, nil
}

func (t *Transport) serveStream(c *conn) error {
	s := &Stream{t: t, c: c}
	f := t.handler(c.kind)
	if f == nil {
		return ErrClosed
	}
	f(s)
	s.Close()
	return nil
}

// Peer is the member at the other end.
func (s *Stream) Peer() raft.ServerID { return s.c.peer }

// Boot is the nonce of its process.
func (s *Stream) Boot() uint64 { return s.c.boot }

// Kind is what the stream is for.
func (s *Stream) Kind() Kind { return s.c.kind }

// Send sends a message of at most MaxMessageBytes, and returns when the network has taken it;
// that says nothing of the other side. It waits while that does not read, StallTimeout at
// most: then, as after every error, the stream is over. To give up earlier, Close it: half a
// message cannot be taken back.
func (s *Stream) Send(message []byte) error {
	if len(message) > s.t.o.MaxMessageBytes {
		return fmt.Errorf("a message of %d bytes is beyond the limit of %d: raise Options.MaxMessageBytes on all members",
			len(message), s.t.o.MaxMessageBytes)
	}
	err := s.c.send(frameMessage, s.t.o.StallTimeout, func(b []byte) []byte { return append(b, message...) })
	if err != nil {
		s.lookAfter()
		return fmt.Errorf("stream with member %s: %w", s.c.peer, err)
	}
	return nil
}

// Receive waits for the next message, in memory of its own, which belongs to the caller. The
// error is io.EOF when the other side has closed the stream in order, and another one when
// it broke. After an error the stream is over.
func (s *Stream) Receive() ([]byte, error) {
	f, body, err := s.c.in.next(s.t.acceptMessage, nil)
	switch {
	case err != nil:
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // no bye: its process is gone
		}
		s.c.end(err, false)
		s.lookAfter()
		return nil, fmt.Errorf("stream with member %s: %w", s.c.peer, s.c.err())
	case f == frameBye:
		s.c.end(errBye, true)
		return nil, io.EOF
	default:
		return body, nil
	}
}

// Close ends the stream at once, and has Send and Receive return. What the other side has
// not received yet may be lost: protocols that need to know answer each other first.
func (s *Stream) Close() error {
	s.c.bye(ErrClosed)
	s.t.drop(s.c)
	s.lookAfter()
	return nil
}

// lookAfter has the process at the other end looked after if the stream broke. For streams
// that the other side has opened, host does it.
func (s *Stream) lookAfter() {
	if s.dialed && s.c.broken() {
		s.after.Do(func() {
			if p, err := s.t.peer(s.c.peer); err == nil {
				p.lost(s.c.boot, s.c.err())
			}
		})
	}
}
