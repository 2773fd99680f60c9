package client

import (
	"context"
	"errors"
	"time"

	"github.com/zkd-project/zkd/wire"
)

// repeat says what may be done after a connection was lost on which a request had been sent.
type repeat uint8

const (
	repeatNever  repeat = iota // it may have been done, and doing it again may do harm
	repeatAlways               // doing it again is as good, or is made so by the caller
	repeatRead                 // as repeatAlways, and there is no doubt about a read
)

// A call is one operation of a user, with all its repetitions. It owns its request unless r is
// nil: then the operation was given up while the request was on its way.
type call struct {
	k      *core
	r      *request
	op     wire.OpCode
	path   string // as the user gave it
	resent bool   // sent more than once: an earlier one may have been done
	tries  int
}

func (c *Client) newCall(op wire.OpCode, path string) call {
	return call{k: c.k, r: c.k.newRequest(op), op: op, path: path}
}

// free recycles the request.
func (cl *call) free() {
	if cl.r != nil {
		cl.r.release()
		cl.r = nil
	}
}

// do sends the request until it is answered, as mode allows. After nil the reply's body is in
// cl.r.body.
func (cl *call) do(ctx context.Context, mode repeat) error {
	if cl.k.cfg.tracer == nil {
		return cl.run(ctx, mode)
	}
	return cl.traced(ctx, func(ctx context.Context) error { return cl.run(ctx, mode) })
}

func (cl *call) run(ctx context.Context, mode repeat) error {
	for failures := 0; ; {
		cl.tries++
		if err := cl.k.submit(ctx, cl.r); err != nil {
			return cl.gaveUp(mode, err, cl.resent)
		}
		if err := cl.wait(ctx, mode); err != nil {
			return err
		}
		var loss error
		switch {
		case cl.r.err == nil && cl.r.code == wire.OK:
			return nil
		case cl.r.err == nil && cl.r.code != wire.ThrottledOp:
			return cl.answer(cl.r.code)
		case cl.r.err == nil: // the server has not done it, and says so
			loss = cl.r.code
		case cl.r.conn == nil || !errors.Is(cl.r.err, ErrConnectionLoss):
			return cl.gaveUp(mode, cl.r.err, cl.resent || cl.r.conn != nil)
		default:
			loss = cl.blame(cl.r.err)
			if mode == repeatNever || cl.isLarge() && cl.tries >= largeTries {
				return cl.gaveUp(mode, loss, true)
			}
			cl.resent = true
			cl.k.counts.retries.Add(1)
		}
		failures++
		if err := cl.pause(ctx, failures, loss); err != nil {
			return cl.gaveUp(mode, err, cl.resent)
		}
		if b := lackOf(cl.op); b != 0 && cl.k.lacks(b) { // found out by losing connections over it
			return &Error{Op: cl.op.String(), Path: cl.path, Err: ErrUnimplemented}
		}
		cl.r.reset()
	}
}

// isLarge says that the server may be set up to hang up on the request. It cannot be known here.
func (cl *call) isLarge() bool { return len(cl.r.frame)-wire.FrameLengthSize > wire.DefaultMaxFrame }

// blame adds to the loss of a connection what a large request has to do with it.
func (cl *call) blame(loss error) error {
	if !cl.isLarge() {
		return loss
	}
	return &largeRequestError{bytes: len(cl.r.frame) - wire.FrameLengthSize, loss: loss}
}

// wait waits for the outcome. An error means that ctx has ended and the request is gone, or was
// not sent.
func (cl *call) wait(ctx context.Context, mode repeat) error {
	select {
	case <-cl.r.ready:
		return nil
	case <-ctx.Done():
	}
	switch cl.k.abandon(cl.r) {
	case fateAnswered:
		return nil
	case fateSent:
		cl.r = nil
		return cl.gaveUp(mode, contextError(ctx), true)
	}
	return cl.gaveUp(mode, contextError(ctx), cl.resent)
}

// pause waits before a repetition; it returns why there will be none.
func (cl *call) pause(ctx context.Context, failures int, loss error) error {
	wait, again := cl.k.cfg.retry.Delay(failures)
	if !again {
		return loss
	}
	if wait <= 0 {
		return nil
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return contextError(ctx)
	}
}

// gaveUp is the error of an operation without an answer. sent says that it may have been done.
func (cl *call) gaveUp(mode repeat, reason error, sent bool) error {
	if sent && mode != repeatRead {
		return &UncertainError{Op: cl.op.String(), Path: cl.path, Cause: reason}
	}
	e := &Error{Op: cl.op.String(), Path: cl.path, Err: reason}
	if errors.Is(reason, context.Canceled) || errors.Is(reason, context.DeadlineExceeded) {
		cl.k.mu.Lock()
		if cl.k.conn == nil && cl.k.lastLoss != nil {
			e.Detail = "there is no connection: " + cl.k.lastLoss.Error()
		}
		cl.k.mu.Unlock()
	}
	return e
}

// answer is the error of an operation that the server refused.
func (cl *call) answer(code wire.Code) error {
	return &Error{Op: cl.op.String(), Path: cl.path, Err: code}
}

// decoder reads the body of the reply.
func (cl *call) decoder() wire.Decoder {
	d := wire.NewDecoder(cl.r.body)
	d.SetMaxLen(cl.k.cfg.maxFrame)
	return d
}

// decoded returns an error if the reply was not what it should be. Nothing that comes after it
// on that connection can be believed, and not that a write was done either.
func (cl *call) decoded(d *wire.Decoder) error {
	if d.Err() == nil {
		return nil
	}
	cl.r.conn.fail(d.Err())
	err := &Error{Op: cl.op.String(), Path: cl.path, Err: wire.MarshallingError, Detail: "the reply: " + d.Err().Error()}
	switch cl.op {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL, wire.OpSetData, wire.OpSetACL, wire.OpMulti, wire.OpReconfig:
		return &UncertainError{Op: err.Op, Path: err.Path, Cause: err}
	}
	return err
}
