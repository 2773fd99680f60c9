package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zkd-project/zkd/wire"
)

// CreateMode says what kind of node is created.
type CreateMode int32

// The modes of a create. A sequential node gets a ten-digit number behind its name.
const (
	ModePersistent           = CreateMode(wire.FlagPersistent)
	ModeEphemeral            = CreateMode(wire.FlagEphemeral) // gone with the session
	ModePersistentSequential = CreateMode(wire.FlagPersistentSequential)
	ModeEphemeralSequential  = CreateMode(wire.FlagEphemeralSequential)
)

// Sequential says whether the node gets a number.
func (m CreateMode) Sequential() bool {
	return m == ModePersistentSequential || m == ModeEphemeralSequential
}

// Ephemeral says whether the node ends with the session.
func (m CreateMode) Ephemeral() bool { return m == ModeEphemeral || m == ModeEphemeralSequential }

// String returns the name of the mode.
func (m CreateMode) String() string {
	names := [...]string{"Persistent", "Ephemeral", "PersistentSequential", "EphemeralSequential"}
	if m < 0 || int(m) >= len(names) {
		return fmt.Sprintf("CreateMode(%d)", int32(m))
	}
	return names[m]
}

// AnyVersion matches every version in Set, SetACL, Delete and Check.
const AnyVersion int32 = -1

// A creation is what a create asks for, whichever opcode carries it.
type creation struct {
	op   wire.OpCode
	path string
	data []byte
	acl  []ACL
	mode CreateMode
	ttl  time.Duration
}

// Create makes a node and returns its path, with the number of a sequential one, and its Stat. A
// nil acl lets everybody do everything. It is repeated after a lost connection only with
// Idempotent, and never if it is sequential: see ProtectedCreate.
func (c *Client) Create(ctx context.Context, path string, data []byte, mode CreateMode, acl []ACL, opts ...CallOption) (string, Stat, error) {
	return c.create(ctx, creation{op: wire.OpCreate2, path: path, data: data, acl: acl, mode: mode}, opts)
}

// CreateContainer makes a node that the server removes when its last child has gone. On a server
// that knows no containers the node is persistent.
func (c *Client) CreateContainer(ctx context.Context, path string, data []byte, acl []ACL, opts ...CallOption) (string, Stat, error) {
	return c.create(ctx, creation{op: wire.OpCreateContainer, path: path, data: data, acl: acl}, opts)
}

// CreateTTL makes a persistent node, sequential or not, that the server removes when it has no
// children and was not changed for ttl. The server must have been set up for it
// (extendedTypesEnabled), else ErrUnimplemented.
func (c *Client) CreateTTL(ctx context.Context, path string, data []byte, mode CreateMode, ttl time.Duration, acl []ACL, opts ...CallOption) (string, Stat, error) {
	if err := checkTTL(path, mode, ttl); err != nil {
		return "", Stat{}, err
	}
	return c.create(ctx, creation{op: wire.OpCreateTTL, path: path, data: data, acl: acl, mode: mode, ttl: ttl}, opts)
}

// checkTTL refuses what no server can mean.
func checkTTL(path string, mode CreateMode, ttl time.Duration) error {
	if !mode.Ephemeral() && ttl >= time.Millisecond {
		return nil
	}
	return &Error{
		Op: wire.OpCreateTTL.String(), Path: path, Err: ErrBadArguments,
		Detail: "a node with a time to live is persistent, and lives for at least 1 ms",
	}
}

func (c *Client) create(ctx context.Context, n creation, opts []CallOption) (string, Stat, error) {
	if err := c.checked(n.op, n.path, n.mode.Sequential()); err != nil {
		return "", Stat{}, err
	}
	o := merge(opts)
	for {
		path, stat, err := c.createOnce(ctx, n, o)
		if o.parents && errors.Is(err, ErrNoNode) && !errors.Is(err, ErrUncertain) {
			parent, _ := split(n.path)
			if err := c.makeParents(ctx, parent, n.acl); err != nil {
				return "", Stat{}, err
			}
			continue
		}
		return path, stat, err
	}
}

// createOnce picks the opcode that the server knows. An opcode that it does not know was not
// executed, so the create may be sent again with another.
func (c *Client) createOnce(ctx context.Context, n creation, o CallOption) (string, Stat, error) {
	for {
		n.op = c.k.knownCreate(n.op)
		path, stat, err := c.sendCreate(ctx, n, o)
		if errors.Is(err, ErrUnimplemented) && c.k.knownCreate(n.op) != n.op {
			continue
		}
		return path, stat, err
	}
}

// knownCreate replaces an opcode that the server does not know, if another will do.
func (k *core) knownCreate(op wire.OpCode) wire.OpCode {
	if op == wire.OpCreateContainer && k.lacks(lackContainer) {
		op = wire.OpCreate2
	}
	if op == wire.OpCreate2 && k.lacks(lackCreate2) {
		op = wire.OpCreate
	}
	return op
}

func (c *Client) sendCreate(ctx context.Context, n creation, o CallOption) (string, Stat, error) {
	cl := c.newCall(n.op, n.path)
	defer cl.free()
	cl.r.pin = o.session
	cl.r.frame = n.append(cl.r.frame, c.root)
	mode := repeatNever
	if o.idempotent && !n.mode.Sequential() {
		mode = repeatAlways
	}
	err := cl.do(ctx, mode)
	if cl.refusedByItself(err) && errors.Is(err, ErrNodeExists) {
		return c.settleCreate(ctx, &cl, n, err)
	}
	if err != nil {
		return "", Stat{}, err
	}
	d := cl.decoder()
	path := c.local(d.String())
	if n.op == wire.OpCreate {
		if err := cl.decoded(&d); err != nil {
			return "", Stat{}, err
		}
		return c.withStat(ctx, path)
	}
	stat := d.Stat()
	return path, stat, cl.decoded(&d)
}

// withStat completes the reply of opcode create, which has no Stat. The node exists, whatever
// becomes of this read; one that has gone again has no Stat.
func (c *Client) withStat(ctx context.Context, path string) (string, Stat, error) {
	stat, _, err := c.Exists(ctx, path)
	if err != nil {
		return path, Stat{}, fmt.Errorf("created, but its stat cannot be read: %w", err)
	}
	return path, stat, nil
}

// append builds the frame.
func (n *creation) append(b []byte, root string) []byte {
	acl := n.acl
	if acl == nil {
		acl = openACL
	}
	flags := int32(n.mode)
	switch n.op {
	case wire.OpCreateContainer:
		flags = wire.FlagContainer
	case wire.OpCreateTTL:
		flags = wire.FlagPersistentTTL
		if n.mode.Sequential() {
			flags = wire.FlagPersistentSequentialTTL
		}
		return appendCreateTTL(b, root, n.path, n.data, acl, flags, n.ttl.Milliseconds())
	}
	return appendCreate(b, n.op, root, n.path, n.data, acl, flags)
}

// openACL is what a nil ACL means; it is only read.
var openACL = WorldACL(PermAll)

// makeParents makes path and everything above it, within this view.
func (c *Client) makeParents(ctx context.Context, path string, acl []ACL) error {
	_, _, err := c.create(ctx, creation{op: wire.OpCreateContainer, path: path, acl: acl},
		[]CallOption{Idempotent(), {parents: path != "/"}})
	if errors.Is(err, ErrNodeExists) {
		return nil
	}
	return err
}

// Set changes the data of a node that has this version (AnyVersion: any) and returns its new
// Stat. With a version it is repeated after a lost connection where that does no harm; if it
// cannot be told whether it has happened, the error is an *UncertainError.
func (c *Client) Set(ctx context.Context, path string, data []byte, version int32, opts ...CallOption) (Stat, error) {
	if err := c.checked(wire.OpSetData, path, false); err != nil {
		return Stat{}, err
	}
	o := merge(opts)
	cl := c.newCall(wire.OpSetData, path)
	defer cl.free()
	cl.r.frame = appendSet(cl.r.frame, c.root, path, data, version)
	cl.r.pin = o.session
	again, undone := repetition(version, o, c.undoneSet(&cl, data, version))
	err := cl.write(ctx, again, undone)
	if cl.refusedByItself(err) {
		return c.settleSet(ctx, &cl, data, err)
	}
	return cl.stat(err)
}

// SetACL changes the access control list of a node whose list has this version (Stat.Aversion).
// See Set for lost connections.
func (c *Client) SetACL(ctx context.Context, path string, acl []ACL, version int32, opts ...CallOption) (Stat, error) {
	if err := c.checked(wire.OpSetACL, path, false); err != nil {
		return Stat{}, err
	}
	o := merge(opts)
	cl := c.newCall(wire.OpSetACL, path)
	defer cl.free()
	cl.r.frame = appendSetACL(cl.r.frame, c.root, path, acl, version)
	cl.r.pin = o.session
	again, undone := repetition(version, o, c.undoneSetACL(&cl, version))
	err := cl.write(ctx, again, undone)
	if cl.refusedByItself(err) {
		return c.settleSetACL(ctx, &cl, acl, err)
	}
	return cl.stat(err)
}

// Delete removes a node without children that has this version. See Set for lost connections,
// and SureDelete for a node that must go.
func (c *Client) Delete(ctx context.Context, path string, version int32, opts ...CallOption) error {
	if err := c.checked(wire.OpDelete, path, false); err != nil {
		return err
	}
	o := merge(opts)
	cl := c.newCall(wire.OpDelete, path)
	defer cl.free()
	cl.r.frame = appendDelete(cl.r.frame, c.root, path, version)
	cl.r.pin = o.session
	again, undone := repetition(version, o, c.undoneDelete(&cl))
	err := cl.write(ctx, again, undone)
	switch {
	case !cl.refusedByItself(err):
		return err
	case errors.Is(err, ErrNoNode):
		return nil
	}
	return cl.uncertain(err)
}

// repetition says how a write may be repeated: blindly, after a look at the node, or not at all.
func repetition(version int32, o CallOption, look func(context.Context) (bool, error)) (repeat, func(context.Context) (bool, error)) {
	switch {
	case o.idempotent:
		return repeatAlways, nil
	case version != AnyVersion:
		return repeatNever, look
	}
	return repeatNever, nil
}

// stat decodes the reply of setData and setACL.
func (cl *call) stat(err error) (Stat, error) {
	if err != nil {
		return Stat{}, err
	}
	d := cl.decoder()
	stat := d.Stat()
	return stat, cl.decoded(&d)
}

// ReconfigRequest says how the group of servers is to change: by Joining ("server.4=host:…,…")
// and Leaving ("2,3"), or to NewMembers as a whole.
type ReconfigRequest struct {
	Joining, Leaving, NewMembers string
	FromConfig                   int64 // the version of the configuration that is meant; -1: any
}

// Reconfig changes the group of servers and returns the new configuration.
func (c *Client) Reconfig(ctx context.Context, r ReconfigRequest) ([]byte, Stat, error) {
	cl := c.newCall(wire.OpReconfig, "")
	defer cl.free()
	b := appendHeader(cl.r.frame, wire.OpReconfig)
	b = appendNullable(b, r.Joining)
	b = appendNullable(b, r.Leaving)
	b = appendNullable(b, r.NewMembers)
	cl.r.frame = finish(wire.AppendInt64(b, r.FromConfig))
	if err := cl.do(ctx, repeatNever); err != nil {
		return nil, Stat{}, err
	}
	d := cl.decoder()
	text, stat := bytes.Clone(d.Buffer()), d.Stat()
	return text, stat, cl.decoded(&d)
}
