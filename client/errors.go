package client

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/zkd-project/zkd/wire"
)

// What a server answers, for errors.Is. The text of each says what it means.
const (
	ErrNoNode                  = wire.NoNode
	ErrNodeExists              = wire.NodeExists
	ErrBadVersion              = wire.BadVersion
	ErrNotEmpty                = wire.NotEmpty
	ErrNoAuth                  = wire.NoAuth
	ErrInvalidACL              = wire.InvalidACL
	ErrBadArguments            = wire.BadArguments // also a path that the client refuses to send
	ErrNoChildrenForEphemerals = wire.NoChildrenForEphemerals
	ErrUnimplemented           = wire.Unimplemented
	ErrMarshalling             = wire.MarshallingError // also a reply that cannot be decoded
	ErrNotReadOnly             = wire.NotReadOnly      // a write, and the server is read-only
	ErrNoWatcher               = wire.NoWatcher
	ErrQuotaExceeded           = wire.QuotaExceeded
	ErrThrottled               = wire.ThrottledOp
	ErrReconfigDisabled        = wire.ReconfigDisabled
	ErrReconfigInProgress      = wire.ReconfigInProgress
	ErrNewConfigNoQuorum       = wire.NewConfigNoQuorum
	ErrRequireSASL             = wire.SessionClosedRequireSASLAuth

	// ErrSessionExpired is returned when the server has ended the session: to watches of that
	// session, to calls that are bound to it by In, and to every call under FailOnExpiry.
	ErrSessionExpired = wire.SessionExpired

	// ErrSessionMoved is returned when another connection has taken the session over, of a
	// process that was given its id and password (WithSession). The operation was not done.
	ErrSessionMoved = wire.SessionMoved

	// ErrAuthFailed is returned when credentials are refused. Those given to Dial are needed
	// at every connection, so their refusal ends the client.
	ErrAuthFailed = wire.AuthFailed

	// ErrConnectionLoss is returned for a read whose connection was lost and that WithRetry
	// does not let go on, and is the cause in an UncertainError.
	ErrConnectionLoss = wire.ConnectionLoss
)

// What the client itself has to say, for errors.Is.
var (
	// ErrUncertain is every UncertainError: a write that may or may not have happened.
	ErrUncertain = errors.New("the outcome is unknown")

	// ErrClosed is returned after Close.
	ErrClosed = errors.New("the client is closed")

	// ErrSessionLapsed is returned by what is bound to a Session whose safe deadline has
	// passed without an answer from a server. The session itself may still be resumed, but
	// everything that depended on it must be taken for lost.
	ErrSessionLapsed = errors.New("the session was not confirmed within its timeout and must be taken for lost")

	// ErrLagged is yielded by a Subscription in place of events that did not fit into its
	// queue. Read again what you watch; what follows is complete again.
	ErrLagged = errors.New("the reader is too slow: events were left out, read the state again")

	// ErrWatchRemoved ends a Watch that was removed before anything happened.
	ErrWatchRemoved = errors.New("the watch was removed")

	// ErrNoSASL is the reason why a server is not used: SASL was asked for and it has none.
	ErrNoSASL = errors.New("the server does not offer SASL; remove WithSASL or configure the server's JAAS login")
)

// An Error says which operation failed, on which path, and why. Err is a server's answer (a
// wire.Code such as ErrNoNode), the end of the context, or a reason found by the client.
type Error struct {
	Op     string // as ZooKeeper names it, for example "setData"
	Path   string // as the caller gave it; empty where the operation has none
	Err    error
	Detail string // what is known beyond Err, for example why there is no connection
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Path != "" {
		b.WriteString(" " + e.Path)
	}
	b.WriteString(": " + e.Err.Error())
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	return b.String()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Code returns the code of the server's answer, or OK if there was none.
func (e *Error) Code() wire.Code {
	var c wire.Code
	if errors.As(e.Err, &c) {
		return c
	}
	return wire.OK
}

// An UncertainError says that a write was sent and that nobody can tell what became of it. It
// is ErrUncertain, and also whatever Cause is: the end of a context, ErrConnectionLoss, or the
// answer to a repetition that does not settle the matter.
type UncertainError struct {
	Op    string
	Path  string
	Cause error
}

// Error implements error.
func (e *UncertainError) Error() string {
	s := e.Op
	if e.Path != "" {
		s += " " + e.Path
	}
	return s + ": the request was sent and its outcome is unknown: " + e.Cause.Error()
}

// Unwrap returns ErrUncertain and the cause.
func (e *UncertainError) Unwrap() []error { return []error{ErrUncertain, e.Cause} }

// A MultiError says which operation made a Multi fail. Nothing of the Multi was done.
type MultiError struct {
	Index int    // of the operation, from 0
	Err   *Error // what was wrong with it
}

// Error implements error.
func (e *MultiError) Error() string {
	return "multi, operation " + itoa(e.Index) + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *MultiError) Unwrap() error { return e.Err }

// lossError is why a connection ended. It is ErrConnectionLoss and the reason.
type lossError struct{ reason error }

func (e *lossError) Error() string   { return "connection lost: " + e.reason.Error() }
func (e *lossError) Unwrap() []error { return []error{ErrConnectionLoss, e.reason} }

// An oversizedError is the fate of a request whose reply was left out. It is ErrMarshalling.
type oversizedError struct{ bytes, max int }

func (e *oversizedError) Error() string {
	return fmt.Sprintf("the reply has %d bytes, and %d are accepted; raise WithMaxFrame", e.bytes, e.max)
}
func (e *oversizedError) Unwrap() error { return ErrMarshalling }

// A largeRequestError is a loss that a request is to blame for, most likely.
type largeRequestError struct {
	bytes int
	loss  error
}

func (e *largeRequestError) Error() string {
	return fmt.Sprintf("%v; the request has %d bytes, and a server hangs up on more than its jute.maxbuffer, %d unless set otherwise",
		e.loss, e.bytes, wire.DefaultMaxFrame)
}
func (e *largeRequestError) Unwrap() error { return e.loss }

// contextError is why ctx ended: its cause, and the context's own error beside it, so that
// errors.Is finds context.Canceled also where a cause was given.
func contextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || errors.Is(cause, err) {
		return err
	}
	return &causeError{err: err, cause: cause}
}

type causeError struct{ err, cause error }

func (e *causeError) Error() string   { return e.err.Error() + ": " + e.cause.Error() }
func (e *causeError) Unwrap() []error { return []error{e.err, e.cause} }
