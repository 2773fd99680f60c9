package client

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"

	"github.com/zkd-project/zkd/wire"
)

// NewUUID returns a random UUID in lower case with dashes.
func NewUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	var out [36]byte
	hex.Encode(out[:], b[:4])
	for i, at := range []int{8, 13, 18, 23} {
		out[at] = '-'
		hex.Encode(out[at+1:], b[4+2*i:6+2*i])
	}
	hex.Encode(out[24:], b[10:])
	return string(out[:])
}

// ProtectedCreate makes a node of which a lost reply leaves neither doubt nor a second one: it
// puts "_c_<uuid>-" before the name, as Curator does (unless Unique says that the name is unique
// as it is), and after a lost connection looks for that name before it creates again. The look
// goes through a sync, since a server that lags might not show the node yet.
//
// When ctx ends and the node may exist, it is deleted in the background, also if the reply is
// still to come. An ephemeral node of an earlier session is replaced by one of the present.
func (c *Client) ProtectedCreate(ctx context.Context, path string, data []byte, mode CreateMode, acl []ACL, opts ...CallOption) (string, Stat, error) {
	if err := c.checked(wire.OpCreate2, path, mode.Sequential()); err != nil {
		return "", Stat{}, err
	}
	o := merge(opts)
	parent, name := split(path)
	if !o.unique {
		name = "_c_" + NewUUID() + "-" + name
		path = join(parent, name)
	}
	o.idempotent = false // repeated here, and with more care
	for failures := 1; ; failures++ {
		made, stat, err := c.Create(ctx, path, data, mode, acl, o)
		if err == nil || !c.mayExist(err, made) {
			return made, stat, err
		}
		_, large := errors.AsType[*largeRequestError](err)
		if errors.Is(err, ErrConnectionLoss) && (!large || failures < largeTries) {
			err = c.k.pauseAfterLoss(ctx, failures, path)
		}
		if err != nil {
			c.cleanUp(parent, name, mode, o.session)
			return "", Stat{}, err
		}
		made, stat, err = c.find(ctx, parent, name, mode, o.session)
		if err != nil {
			c.cleanUp(parent, name, mode, o.session)
			return "", Stat{}, err
		}
		if made != "" {
			return made, stat, nil
		}
	}
}

// mayExist says that a failed create may have left a node: its outcome is unknown, or it was
// made (path) and something failed afterwards.
func (c *Client) mayExist(err error, path string) bool {
	return errors.Is(err, ErrUncertain) || path != ""
}

// pauseAfterLoss waits as the retry policy says. An error is what to give up with.
func (k *core) pauseAfterLoss(ctx context.Context, failures int, path string) error {
	cl := call{k: k, op: wire.OpCreate2, path: path}
	if err := cl.pause(ctx, failures, ErrConnectionLoss); err != nil {
		return cl.gaveUp(repeatNever, err, true)
	}
	return nil
}

// find looks for the node of an uncertain create; "" if there is none that can be used.
func (c *Client) find(ctx context.Context, parent, name string, mode CreateMode, pin *Session) (string, Stat, error) {
	children, _, err := c.Children(ctx, parent, Fresh())
	if errors.Is(err, ErrNoNode) {
		return "", Stat{}, nil
	}
	if err != nil {
		return "", Stat{}, err
	}
	for _, child := range children {
		if !isProtected(child, name, mode.Sequential()) {
			continue
		}
		path := join(parent, child)
		stat, exists, err := c.Exists(ctx, path)
		switch session := c.Session(); {
		case err != nil:
			return "", Stat{}, err
		case !exists:
		case mode.Ephemeral() && stat.EphemeralOwner != session.ID(), pin != nil && pin.Err() != nil:
			if err := c.SureDelete(ctx, path, AnyVersion); err != nil {
				return "", Stat{}, err
			}
		default:
			return path, stat, nil
		}
	}
	return "", Stat{}, nil
}

// cleanUp deletes in the background what a create that was given up may have made, or will. An
// ephemeral node goes with its session, but only a pinned create tells in which that was.
func (c *Client) cleanUp(parent, name string, mode CreateMode, pin *Session) {
	session := int64(0)
	if mode.Ephemeral() && pin != nil {
		session = pin.ID()
	}
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	c.k.cleanLater(&cleanup{parent: c.full(parent), name: name, sequential: mode.Sequential(), session: session})
}

// SureDelete deletes a node; one that is not there is a success. A lost connection does not end
// it, and when ctx ends first it goes on in the background until a server has answered or the
// session is over, so nil says that the node is gone and an error with the context's that it will
// be. Only the node that was there when SureDelete was called is deleted: one that somebody else
// has made since in its place stays.
func (c *Client) SureDelete(ctx context.Context, path string, version int32) error {
	if err := c.checked(wire.OpDelete, path, false); err != nil {
		return err
	}
	d := &deletion{path: c.full(path), version: version, session: c.SessionID(), before: max(c.LastZxid(), 1)}
	cl := c.newCall(wire.OpDelete, path)
	defer cl.free()
	cl.r.frame = appendDelete(cl.r.frame, c.root, path, version)
	gone := false
	err := cl.write(ctx, repeatNever, func(ctx context.Context) (bool, error) {
		stat, exists, err := c.Exists(ctx, path, Fresh())
		gone = err == nil && (!exists || stat.Czxid > d.before)
		return err == nil && !gone, err
	})
	switch {
	case gone || errors.Is(err, ErrNoNode) && !errors.Is(err, ErrUncertain):
		return nil
	case err == nil || isAnswer(err):
		return err
	}
	c.k.mu.Lock()
	c.k.deleteLater(d)
	c.k.mu.Unlock()
	return err
}

// isAnswer says that a server has refused an operation for good.
func isAnswer(err error) bool {
	var code wire.Code
	return !errors.Is(err, ErrUncertain) && errors.As(err, &code) &&
		code != wire.ConnectionLoss && code != wire.SessionExpired && code != wire.SessionMoved && code != wire.NotReadOnly
}
