package client

import (
	"errors"
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/wire"
)

// A watchRef is one path in one list of setWatches.
type watchRef struct {
	entry *watchEntry
	list  watchList
}

// watchList is a list of wire.SetWatches2.
type watchList uint8

const (
	listData watchList = iota
	listExist
	listChild
	listPersistent
	listRecursive
)

// rewatch sets all watches on a new connection, before any user's request is sent there. The
// server compares with the newest state that this client has seen and fires at once what has
// changed since. One frame holds no more than rewatchBytes, and one is under way at a time, so
// that a huge set does not pile up anywhere.
//
// One-shot watches go first: up to ZooKeeper 3.8 the later of two on one path wins, and the
// lasting one must. They also need only the opcode that every server knows.
func (k *core) rewatch(c *conn) error {
	oneShot, lasting, zxid := k.watchRefs()
	frames := 0
	for _, part := range []struct {
		op   wire.OpCode
		refs []watchRef
	}{{wire.OpSetWatches, oneShot}, {wire.OpSetWatches2, lasting}} {
		for rest := part.refs; len(rest) > 0; frames++ {
			n := chunk(rest)
			if err := k.setWatches(c, part.op, rest[:n], zxid); err != nil {
				return err
			}
			rest = rest[n:]
		}
	}
	if frames > 0 {
		k.trace(ConnEvent{Kind: ConnRewatched, Server: c.server, Watches: len(oneShot) + len(lasting), Frames: frames})
	}
	return nil
}

// watchRefs lists what is watched, and counts it as watched by the server from here on: its
// events come before its reply. Until users' requests are let in nothing is added.
func (k *core) watchRefs() (oneShot, lasting []watchRef, zxid int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range k.watches.entries {
		for kind, list := range e.oneShot {
			if len(list) > 0 {
				oneShot = append(oneShot, watchRef{e, watchList(kind)})
			}
		}
		e.server = e.wanted()
		switch {
		case e.server&bitRecursive != 0:
			lasting = append(lasting, watchRef{e, listRecursive})
		case e.server&bitPersistent != 0:
			lasting = append(lasting, watchRef{e, listPersistent})
		}
	}
	return oneShot, lasting, k.lastZxid
}

// chunk says how many of refs fit into one frame; at least one.
func chunk(refs []watchRef) int {
	size := headerSize + 8 + 5*4
	for i, r := range refs {
		size += 4 + len(r.entry.path)
		if size > rewatchBytes && i > 0 {
			return i
		}
	}
	return len(refs)
}

// setWatches sends one frame. A server that refuses it says so to those who wait in it, not to
// everybody: the connection goes on, unless the server ends it.
func (k *core) setWatches(c *conn, op wire.OpCode, refs []watchRef, zxid int64) error {
	var lists [5][]string
	for _, ref := range refs {
		lists[ref.list] = append(lists[ref.list], ref.entry.path)
	}
	sw := wire.SetWatches2{
		RelativeZxid: zxid, DataWatches: lists[listData], ExistWatches: lists[listExist], ChildWatches: lists[listChild],
		PersistentWatches: lists[listPersistent], PersistentRecursiveWatches: lists[listRecursive],
	}
	r := k.newRequest(op)
	r.frame = appendHeader(r.frame, op)
	if op == wire.OpSetWatches {
		r.frame = finish(sw.AppendSetWatches(r.frame))
	} else {
		r.frame = finish(sw.Append(r.frame))
	}
	err := c.call(r)
	r.release()
	var code wire.Code
	switch {
	case err == nil:
		k.resetLasting(refs)
		return nil
	case errors.Is(err, ErrConnectionLoss), !errors.As(err, &code), code == ErrThrottled, code == ErrRequireSASL:
		return fmt.Errorf("set watches again: %w", err) // not about the watches: try the next server
	}
	k.failWatches(refs, &Error{Op: op.String(), Err: code, Detail: "the watch could not be set again after a reconnect"})
	return nil
}

// resetLasting tells the readers of lasting watches that these are set again.
func (k *core) resetLasting(refs []watchRef) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, ref := range refs {
		if ref.list < listPersistent {
			continue
		}
		for _, s := range slices.Concat(ref.entry.persistent, ref.entry.recursive) {
			s.push(Event{Type: EventReset, Path: s.path})
		}
	}
}

// failWatches ends the watches that a server does not set.
func (k *core) failWatches(refs []watchRef, reason error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, ref := range refs {
		e := ref.entry
		if ref.list < listPersistent {
			e.fireKind(watchKind(ref.list), Event{Err: reason})
			continue
		}
		for _, s := range slices.Concat(e.persistent, e.recursive) {
			k.watches.dropSubscription(s)
			s.end(reason)
		}
		e.server &^= bitsLasting
	}
}
