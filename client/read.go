package client

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"github.com/zkd-project/zkd/wire"
)

// Get returns the data of a node. Nil data is what the node was created with.
func (c *Client) Get(ctx context.Context, path string, opts ...CallOption) ([]byte, Stat, error) {
	return c.get(ctx, path, nil, opts)
}

// GetW is Get, and leaves a Watch for the next change of the node or its deletion.
func (c *Client) GetW(ctx context.Context, path string, opts ...CallOption) ([]byte, Stat, *Watch, error) {
	w := c.newWatch(path, kindData)
	data, stat, err := c.get(ctx, path, w, opts)
	return data, stat, watchUnless(err, w), err
}

func (c *Client) get(ctx context.Context, path string, w *Watch, opts []CallOption) ([]byte, Stat, error) {
	cl, err := c.read(ctx, wire.OpGetData, path, w, opts)
	defer cl.free()
	if err != nil {
		return nil, Stat{}, err
	}
	d := cl.decoder()
	data, stat := bytes.Clone(d.Buffer()), d.Stat()
	return data, stat, cl.decodedWatch(&d, w)
}

// Exists returns the Stat of a node and whether there is one.
func (c *Client) Exists(ctx context.Context, path string, opts ...CallOption) (Stat, bool, error) {
	return c.exists(ctx, path, nil, opts)
}

// ExistsW is Exists, and leaves a Watch for the creation, or the next change or deletion.
func (c *Client) ExistsW(ctx context.Context, path string, opts ...CallOption) (Stat, bool, *Watch, error) {
	w := c.newWatch(path, kindData)
	stat, ok, err := c.exists(ctx, path, w, opts)
	return stat, ok, watchUnless(err, w), err
}

func (c *Client) exists(ctx context.Context, path string, w *Watch, opts []CallOption) (Stat, bool, error) {
	cl, err := c.read(ctx, wire.OpExists, path, w, opts)
	defer cl.free()
	if errors.Is(err, ErrNoNode) {
		return Stat{}, false, nil
	}
	if err != nil {
		return Stat{}, false, err
	}
	d := cl.decoder()
	stat := d.Stat()
	err = cl.decodedWatch(&d, w)
	return stat, err == nil, err
}

// Children returns the names of a node's children, in no particular order, and its Stat.
func (c *Client) Children(ctx context.Context, path string, opts ...CallOption) ([]string, Stat, error) {
	return c.children(ctx, path, nil, opts)
}

// ChildrenW is Children, and leaves a Watch for the next creation or deletion of a child, or
// the deletion of the node.
func (c *Client) ChildrenW(ctx context.Context, path string, opts ...CallOption) ([]string, Stat, *Watch, error) {
	w := c.newWatch(path, kindChild)
	names, stat, err := c.children(ctx, path, w, opts)
	return names, stat, watchUnless(err, w), err
}

func (c *Client) children(ctx context.Context, path string, w *Watch, opts []CallOption) ([]string, Stat, error) {
	cl, err := c.read(ctx, wire.OpGetChildren2, path, w, opts)
	defer cl.free()
	if err != nil {
		return nil, Stat{}, err
	}
	d := cl.decoder()
	names, stat := d.Strings(), d.Stat()
	return names, stat, cl.decodedWatch(&d, w)
}

func watchUnless(err error, w *Watch) *Watch {
	if err != nil {
		return nil
	}
	return w
}

// read does one of the reads whose request is a path and a flag for a watch.
func (c *Client) read(ctx context.Context, op wire.OpCode, path string, w *Watch, opts []CallOption) (call, error) {
	if err := c.checked(op, path, false); err != nil {
		return call{}, err
	}
	cl := c.newCall(op, path)
	cl.r.frame = appendPathWatch(cl.r.frame, op, c.root, path)
	cl.r.watch = w
	err := cl.doRead(ctx, c, opts)
	return cl, err
}

func (cl *call) doRead(ctx context.Context, c *Client, opts []CallOption) error {
	if len(opts) == 0 {
		return cl.do(ctx, repeatRead)
	}
	o := merge(opts)
	cl.r.pin = o.session
	if o.fresh {
		if cl.k.cfg.tracer == nil {
			return cl.doFresh(ctx, c)
		}
		return cl.traced(ctx, func(ctx context.Context) error { return cl.doFresh(ctx, c) })
	}
	return cl.do(ctx, repeatRead)
}

// doFresh sends a sync and the read in one go, so that they reach the same server one behind the
// other. When the connection is lost, both are sent again.
func (cl *call) doFresh(ctx context.Context, c *Client) error {
	for failures := 1; ; failures++ {
		loss, err := cl.pair(ctx, c)
		if loss == nil {
			return err
		}
		if cl.isLarge() && failures >= largeTries {
			return cl.gaveUp(repeatRead, cl.blame(loss), true)
		}
		if err := cl.pause(ctx, failures, loss); err != nil {
			return cl.gaveUp(repeatRead, err, true)
		}
		cl.k.counts.retries.Add(1)
		cl.r.reset()
	}
}

// pair sends a sync and then cl, and waits for both. loss says that the connection was lost and
// that both may be sent again; otherwise err is the outcome.
func (cl *call) pair(ctx context.Context, c *Client) (loss, err error) {
	sync := c.newCall(wire.OpSync, cl.path)
	defer sync.free()
	sync.r.frame = appendPathOnly(sync.r.frame, wire.OpSync, c.root, cl.path)
	sync.r.pin, cl.r.after = cl.r.pin, sync.r
	cl.tries++
	if err := cl.k.submit(ctx, sync.r, cl.r); err != nil {
		return nil, cl.gaveUp(repeatRead, err, false)
	}
	if loss, err = sync.outcome(ctx); loss != nil || err != nil {
		switch cl.k.abandon(cl.r) {
		case fateSent:
			cl.r = nil
		case fateAnswered: // after the sync was given up
			cl.k.mu.Lock()
			cl.k.watches.unregister(cl.k, cl.r)
			cl.k.mu.Unlock()
		}
		return loss, err
	}
	return cl.outcome(ctx)
}

// outcome waits for the reply of a read and says what it was.
func (cl *call) outcome(ctx context.Context) (loss, err error) {
	if err := cl.wait(ctx, repeatRead); err != nil {
		return nil, err
	}
	switch {
	case errors.Is(cl.r.err, ErrConnectionLoss):
		return cl.r.err, nil
	case cl.r.err != nil:
		return nil, cl.gaveUp(repeatRead, cl.r.err, true)
	case cl.r.code != wire.OK:
		return nil, cl.answer(cl.r.code)
	}
	return nil, nil
}

// decodedWatch is decoded for a read that may have left a watch: with a reply that cannot be
// read there is none.
func (cl *call) decodedWatch(d *wire.Decoder, w *Watch) error {
	err := cl.decoded(d)
	if err == nil || w == nil {
		return err
	}
	cl.k.mu.Lock()
	defer cl.k.mu.Unlock()
	if e := w.entry; e != nil {
		e.detach(w)
		cl.k.settle(e)
	}
	return err
}

// GetACL returns the access control list of a node.
func (c *Client) GetACL(ctx context.Context, path string, opts ...CallOption) ([]ACL, Stat, error) {
	cl, err := c.pathCall(ctx, wire.OpGetACL, path, opts)
	defer cl.free()
	if err != nil {
		return nil, Stat{}, err
	}
	d := cl.decoder()
	acl, stat := d.ACLs(), d.Stat()
	return acl, stat, cl.decoded(&d)
}

// Sync returns when the server has caught up with everything that was written before, by
// anybody. Reads that follow see it; see also Fresh.
func (c *Client) Sync(ctx context.Context, path string, opts ...CallOption) error {
	cl, err := c.pathCall(ctx, wire.OpSync, path, opts)
	cl.free()
	return err
}

// AllChildrenNumber returns how many nodes there are below a node. ZooKeeper 3.6 or newer.
func (c *Client) AllChildrenNumber(ctx context.Context, path string, opts ...CallOption) (int, error) {
	cl, err := c.pathCall(ctx, wire.OpGetAllChildrenNumber, path, opts)
	defer cl.free()
	if err != nil {
		return 0, err
	}
	d := cl.decoder()
	n := d.Int32()
	return int(n), cl.decoded(&d)
}

// Ephemerals returns the paths of this session's ephemeral nodes that start with prefix; "/" or
// "" is all of them within this view. ZooKeeper 3.6 or newer.
func (c *Client) Ephemerals(ctx context.Context, prefix string, opts ...CallOption) ([]string, error) {
	if prefix == "" {
		prefix = "/"
	}
	cl := c.newCall(wire.OpGetEphemerals, prefix)
	defer cl.free()
	cl.r.frame = appendPathOnly(cl.r.frame, wire.OpGetEphemerals, c.root, prefix)
	if err := cl.doRead(ctx, c, opts); err != nil {
		return nil, err
	}
	d := cl.decoder()
	all := d.Strings()
	paths := all[:0]
	for _, p := range all {
		// The server takes the prefix for text: /app finds /apple too.
		if c.root == "" || strings.HasPrefix(p, c.root+"/") {
			paths = append(paths, c.local(p))
		}
	}
	return paths, cl.decoded(&d)
}

// WhoAmI returns the identities under which the server knows this connection. ZooKeeper 3.7 or
// newer.
func (c *Client) WhoAmI(ctx context.Context) ([]ClientInfo, error) {
	cl := c.newCall(wire.OpWhoAmI, "")
	defer cl.free()
	cl.r.frame = finish(appendHeader(cl.r.frame, wire.OpWhoAmI))
	if err := cl.do(ctx, repeatRead); err != nil {
		return nil, err
	}
	d := cl.decoder()
	ids := d.ClientInfos()
	return ids, cl.decoded(&d)
}

// pathCall does one of the reads whose request is a path alone.
func (c *Client) pathCall(ctx context.Context, op wire.OpCode, path string, opts []CallOption) (call, error) {
	if err := c.checked(op, path, false); err != nil {
		return call{}, err
	}
	cl := c.newCall(op, path)
	cl.r.frame = appendPathOnly(cl.r.frame, op, c.root, path)
	err := cl.doRead(ctx, c, opts)
	return cl, err
}
