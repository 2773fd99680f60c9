package client

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/zkd-project/zkd/wire"
)

// A write with an expected version can be repeated after a lost connection, but not blindly: the
// first copy may have been done, and the second would then meet another state. A lock node that
// we deleted and that another client has made again since is in version 0 like ours was.
//
// So the node is read before the write is sent again, behind a sync, because a server that lags
// could show a state in which the first copy is still to come. It can come no later: a server
// refuses requests of a connection from which the session has moved on. The node shows in nearly
// all cases that the first copy was not done; then the second one's answer is the answer. In the
// others nobody can know, and the caller is told so: two clients that write the same bytes with
// the same expected version cannot be told apart, and a counter that took the other's write for
// its own would lose one.

// write sends a write. undone reads the node after a lost connection and says whether it shows
// that the write was not done; with nil it is the caller who says that repeating does no harm.
func (cl *call) write(ctx context.Context, again repeat, undone func(context.Context) (bool, error)) error {
	if undone == nil {
		return cl.do(ctx, again)
	}
	for failures := 1; ; failures++ {
		err := cl.do(ctx, repeatNever)
		if cl.r == nil || cl.r.err == nil || !errors.Is(cl.r.err, ErrConnectionLoss) || cl.isLarge() && failures >= largeTries {
			return err
		}
		if err := cl.pause(ctx, failures, cl.r.err); err != nil {
			return cl.gaveUp(again, err, true)
		}
		sure, reason := undone(ctx)
		if !sure {
			if reason == nil {
				reason = cl.r.err
			}
			return &UncertainError{Op: cl.op.String(), Path: cl.path, Cause: reason}
		}
		cl.k.counts.retries.Add(1)
		cl.r.reset()
	}
}

// undoneSet judges a set with an expected version.
func (c *Client) undoneSet(cl *call, data []byte, version int32) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		now, stat, err := c.Get(ctx, cl.path, Fresh(), In(cl.r.pin))
		switch {
		case err != nil:
			return false, cause(err)
		case stat.Czxid > cl.r.before:
			return false, nil // perhaps not the node that the first copy met
		case stat.Version <= version:
			return true, nil // versions only grow
		}
		// If exactly one set has happened, and it wrote something else, it was another's.
		return stat.Version == version+1 && !bytes.Equal(now, data), nil
	}
}

// undoneSetACL judges a setACL with an expected version. What the list holds proves nothing: it
// changes its form when it is stored.
func (c *Client) undoneSetACL(cl *call, version int32) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		stat, exists, err := c.Exists(ctx, cl.path, Fresh(), In(cl.r.pin))
		if err != nil || !exists {
			return false, causeOr(err, exists)
		}
		return stat.Czxid <= cl.r.before && stat.Aversion <= version, nil
	}
}

// undoneDelete judges a delete with an expected version: a node that is older than the first
// copy and still there has not been deleted.
func (c *Client) undoneDelete(cl *call) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		stat, exists, err := c.Exists(ctx, cl.path, Fresh(), In(cl.r.pin))
		if err != nil || !exists {
			return false, causeOr(err, exists)
		}
		return stat.Czxid <= cl.r.before, nil
	}
}

func causeOr(err error, exists bool) error {
	if err == nil && !exists {
		return ErrNoNode
	}
	return cause(err)
}

// cause takes the reason out of the error of a read that somebody else asked for.
func cause(err error) error {
	var e *Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// The rest judges writes that the caller allowed to be repeated blindly (Idempotent), when the
// last copy was refused in a way that an earlier one may have caused.

// refusedByItself says that this is the case.
func (cl *call) refusedByItself(err error) bool {
	return cl.resent && !errors.Is(err, ErrUncertain) &&
		(errors.Is(err, ErrBadVersion) || errors.Is(err, ErrNoNode) || errors.Is(err, ErrNodeExists))
}

func (cl *call) uncertain(err error) error {
	return &UncertainError{Op: cl.op.String(), Path: cl.path, Cause: cause(err)}
}

// settleSet takes a node with the wanted data for a success.
func (c *Client) settleSet(ctx context.Context, cl *call, data []byte, refusal error) (Stat, error) {
	now, stat, err := c.Get(ctx, cl.path)
	if err == nil && bytes.Equal(now, data) {
		return stat, nil
	}
	return Stat{}, cl.uncertain(refusal)
}

// settleSetACL takes a node with the wanted list for a success.
func (c *Client) settleSetACL(ctx context.Context, cl *call, acl []ACL, refusal error) (Stat, error) {
	now, stat, err := c.GetACL(ctx, cl.path)
	if err == nil && slices.Equal(now, acl) {
		return stat, nil
	}
	return Stat{}, cl.uncertain(refusal)
}

// settleCreate takes a node like the wanted one for it.
func (c *Client) settleCreate(ctx context.Context, cl *call, n creation, refusal error) (string, Stat, error) {
	now, stat, err := c.Get(ctx, n.path)
	if err != nil {
		return "", Stat{}, cl.uncertain(refusal)
	}
	owner := int64(0)
	if n.mode.Ephemeral() {
		owner = c.SessionID()
	}
	if bytes.Equal(now, n.data) && stat.Version == 0 && stat.EphemeralOwner == owner {
		return n.path, stat, nil
	}
	return "", Stat{}, &Error{Op: n.op.String(), Path: n.path, Err: wire.NodeExists}
}
