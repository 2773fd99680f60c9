package client

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/zkd-project/zkd/wire"
)

// An Op is one operation of a Multi, made by the Op methods of a Client, whose view its path
// belongs to. It may be put into any Multi of the same client.
type Op struct {
	op   wire.MultiOp
	path string // as the caller gave it
	root string
	err  error
}

// A Multi is a list of operations of which all happen, at one moment, or none.
//
//	results, err := c.Multi().Check("/lock/me", -1).Set("/data", b, v).Commit(ctx)
type Multi struct {
	c   *Client
	ops []Op
}

// Multi begins an empty list.
func (c *Client) Multi() *Multi { return &Multi{c: c} }

// An OpResult is what came of one operation of a Multi.
type OpResult struct {
	Path string // create: the actual path
	Stat Stat   // create, set; zero for a create on ZooKeeper before 3.7.2 and 3.8.2
}

// OpCheck holds the whole Multi back unless the node exists in this version.
func (c *Client) OpCheck(path string, version int32) Op {
	return c.makeOp(path, false, wire.MultiOp{Op: wire.OpCheck, Check: wire.CheckRequest{Path: c.full(path), Version: version}})
}

// OpCreate makes a node.
func (c *Client) OpCreate(path string, data []byte, mode CreateMode, acl []ACL) Op {
	return c.makeOp(path, mode.Sequential(), wire.MultiOp{Op: wire.OpCreate2, Create: c.createRequest(path, data, acl, int32(mode))})
}

// OpCreateContainer makes a container.
func (c *Client) OpCreateContainer(path string, data []byte, acl []ACL) Op {
	return c.makeOp(path, false, wire.MultiOp{Op: wire.OpCreateContainer, Create: c.createRequest(path, data, acl, wire.FlagContainer)})
}

// OpCreateTTL makes a node that goes after ttl without a change; see CreateTTL.
func (c *Client) OpCreateTTL(path string, data []byte, mode CreateMode, ttl time.Duration, acl []ACL) Op {
	flags := wire.FlagPersistentTTL
	if mode.Sequential() {
		flags = wire.FlagPersistentSequentialTTL
	}
	r := c.createRequest(path, data, acl, flags)
	op := c.makeOp(path, mode.Sequential(), wire.MultiOp{Op: wire.OpCreateTTL, CreateTTL: wire.CreateTTLRequest{
		Path: r.Path, Data: data, ACL: r.ACL, Flags: flags, TTLMs: ttl.Milliseconds(),
	}})
	if err := checkTTL(path, mode, ttl); err != nil {
		op.err = err
	}
	return op
}

// OpSet changes the data of a node.
func (c *Client) OpSet(path string, data []byte, version int32) Op {
	return c.makeOp(path, false, wire.MultiOp{Op: wire.OpSetData, SetData: wire.SetDataRequest{Path: c.full(path), Data: data, Version: version}})
}

// OpDelete deletes a node.
func (c *Client) OpDelete(path string, version int32) Op {
	return c.makeOp(path, false, wire.MultiOp{Op: wire.OpDelete, Delete: wire.DeleteRequest{Path: c.full(path), Version: version}})
}

func (c *Client) makeOp(path string, sequential bool, op wire.MultiOp) Op {
	return Op{op: op, path: path, root: c.root, err: c.checked(op.Op, path, sequential)}
}

func (c *Client) createRequest(path string, data []byte, acl []ACL, flags int32) wire.CreateRequest {
	if acl == nil {
		acl = openACL
	}
	return wire.CreateRequest{Path: c.full(path), Data: data, ACL: acl, Flags: flags}
}

// Add appends operations.
func (m *Multi) Add(ops ...Op) *Multi {
	m.ops = append(m.ops, ops...)
	return m
}

// Check appends OpCheck.
func (m *Multi) Check(path string, version int32) *Multi { return m.Add(m.c.OpCheck(path, version)) }

// Create appends OpCreate.
func (m *Multi) Create(path string, data []byte, mode CreateMode, acl []ACL) *Multi {
	return m.Add(m.c.OpCreate(path, data, mode, acl))
}

// Set appends OpSet.
func (m *Multi) Set(path string, data []byte, version int32) *Multi {
	return m.Add(m.c.OpSet(path, data, version))
}

// Delete appends OpDelete.
func (m *Multi) Delete(path string, version int32) *Multi {
	return m.Add(m.c.OpDelete(path, version))
}

// Len is the number of operations.
func (m *Multi) Len() int { return len(m.ops) }

// Commit does all or nothing. If an operation is refused, the error is a *MultiError that names
// it. It is repeated after a lost connection only with Idempotent; a repetition that is refused as if
// an earlier copy had been done is an *UncertainError.
func (m *Multi) Commit(ctx context.Context, opts ...CallOption) ([]OpResult, error) {
	for i, op := range m.ops {
		if op.err != nil {
			return nil, multiError(i, op.err)
		}
	}
	o := merge(opts)
	mode := repeatNever
	if o.idempotent {
		mode = repeatAlways
	}
	return m.send(ctx, mode, o)
}

func (m *Multi) send(ctx context.Context, mode repeat, o CallOption) ([]OpResult, error) {
	cl := m.c.newCall(wire.OpMulti, "")
	defer cl.free()
	ops := make([]wire.MultiOp, len(m.ops))
	for i := range m.ops {
		ops[i] = m.ops[i].op
		if op := m.c.k.knownCreate(ops[i].Op); op != ops[i].Op {
			ops[i].Op = op
			ops[i].Create.Flags &^= wire.FlagContainer
		}
	}
	cl.r.frame = finish(wire.AppendMulti(appendHeader(cl.r.frame, wire.OpMulti), ops))
	cl.r.pin = o.session
	if err := cl.do(ctx, mode); err != nil {
		return nil, err
	}
	d := cl.decoder()
	results, err := wire.DecodeMultiResultsOf(&d, len(ops))
	if err != nil {
		return nil, cl.decoded(&d)
	}
	out, err := m.results(results)
	if cl.refusedByItself(err) {
		return nil, cl.uncertain(err) // the refusal may be the doing of an earlier copy
	}
	return out, err
}

// results translates the reply. That of a failed multi holds nothing but errors: 0 for what was
// undone, the code of the culprit, and RuntimeInconsistency for what was not tried.
func (m *Multi) results(reply []wire.MultiResult) ([]OpResult, error) {
	out := make([]OpResult, 0, len(m.ops))
	failed := -1
	for i, r := range reply {
		if r.Op == wire.OpError && (failed < 0 || isRuntime(reply[failed].Code) && !isRuntime(r.Code)) {
			failed = i
		}
		if i < len(m.ops) {
			out = append(out, OpResult{Path: strip(m.ops[i].root, r.Path), Stat: r.Stat})
		}
	}
	switch {
	case failed >= 0 && failed < len(m.ops):
		op := &m.ops[failed]
		return nil, multiError(failed, &Error{Op: op.op.Op.String(), Path: op.path, Err: reply[failed].Code})
	case failed >= 0 || len(reply) != len(m.ops):
		return nil, &Error{Op: "multi", Err: ErrMarshalling, Detail: "the reply has " + itoa(len(reply)) + " results for " + itoa(len(m.ops)) + " operations"}
	}
	return out, nil
}

// isRuntime says that a code of a failed multi is not the reason of the failure.
func isRuntime(c wire.Code) bool { return c == wire.OK || c == wire.RuntimeInconsistency }

func multiError(i int, err error) error {
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Op: "multi", Err: err}
	}
	return &MultiError{Index: i, Err: e}
}

// A MultiRead is a list of reads that are answered together.
type MultiRead struct {
	c   *Client
	ops []wire.MultiOp
	in  []string // paths as given
	err error
}

// A ReadResult is what one read of a MultiRead found. Err is about this read alone.
type ReadResult struct {
	Data     []byte
	Stat     Stat // of Get
	Children []string
	Err      error
}

// MultiRead begins an empty list.
func (c *Client) MultiRead() *MultiRead { return &MultiRead{c: c} }

// Get appends a read of a node's data.
func (m *MultiRead) Get(path string) *MultiRead { return m.add(wire.OpGetData, path) }

// Children appends a read of the names of a node's children.
func (m *MultiRead) Children(path string) *MultiRead { return m.add(wire.OpGetChildren, path) }

func (m *MultiRead) add(op wire.OpCode, path string) *MultiRead {
	if err := m.c.checked(op, path, false); err != nil && m.err == nil {
		m.err = err
	}
	m.ops = append(m.ops, wire.MultiOp{Op: op, Path: wire.PathWatchRequest{Path: m.c.full(path)}})
	m.in = append(m.in, path)
	return m
}

// Do reads. On a server before ZooKeeper 3.6 the reads are sent one by one, and changes may fall
// between them.
func (m *MultiRead) Do(ctx context.Context, opts ...CallOption) ([]ReadResult, error) {
	if m.err != nil {
		return nil, m.err
	}
	if m.c.k.lacks(lackMultiRead) {
		return m.oneByOne(ctx, opts)
	}
	cl := m.c.newCall(wire.OpMultiRead, "/")
	defer cl.free()
	cl.r.frame = finish(wire.AppendMulti(appendHeader(cl.r.frame, wire.OpMultiRead), m.ops))
	err := cl.doRead(ctx, &Client{k: m.c.k}, opts)
	if errors.Is(err, ErrUnimplemented) {
		return m.oneByOne(ctx, opts)
	}
	if err != nil {
		return nil, err
	}
	d := cl.decoder()
	reply, err := wire.DecodeMultiResultsOf(&d, len(m.ops))
	if err != nil {
		return nil, cl.decoded(&d)
	}
	if len(reply) != len(m.ops) {
		return nil, &Error{Op: "multiRead", Err: ErrMarshalling, Detail: "the reply has " + itoa(len(reply)) + " results for " + itoa(len(m.ops)) + " reads"}
	}
	out := make([]ReadResult, len(reply))
	for i, r := range reply {
		out[i] = ReadResult{Data: bytes.Clone(r.Data), Stat: r.Stat, Children: r.Children}
		if r.Op == wire.OpError {
			out[i].Err = &Error{Op: m.ops[i].Op.String(), Path: m.in[i], Err: r.Code}
		}
	}
	return out, nil
}

func (m *MultiRead) oneByOne(ctx context.Context, opts []CallOption) ([]ReadResult, error) {
	out := make([]ReadResult, len(m.ops))
	for i, path := range m.in {
		r := &out[i]
		if m.ops[i].Op == wire.OpGetData {
			r.Data, r.Stat, r.Err = m.c.Get(ctx, path, opts...)
		} else {
			r.Children, _, r.Err = m.c.Children(ctx, path, opts...)
		}
		if r.Err != nil && !isAnswer(r.Err) {
			return nil, r.Err
		}
	}
	return out, nil
}
