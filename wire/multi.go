package wire

import (
	"fmt"
	"math"
)

// A multi, in either direction, is a sequence of
//
//	MultiHeader{op, done false, err} | record of that op
//
// ended by MultiHeader{-1, done true, -1}. In a request err is -1 and means nothing. In a
// response it is 0, or the code of an entry of type error, whose record is that code once
// more. A failed multi is a response of error entries alone.

// MultiOp is one operation of a multi or multiRead. Op says which of the records counts.
type MultiOp struct {
	Op        OpCode
	Create    CreateRequest    // create, create2, createContainer
	CreateTTL CreateTTLRequest // createTTL
	Delete    DeleteRequest    // delete
	SetData   SetDataRequest   // setData
	Check     CheckRequest     // check
	Path      PathWatchRequest // getData, getChildren: of multiRead only
}

// MultiResult is the result of one operation. Op is the type on the wire: create2 stands
// for createContainer and createTTL too, and OpError for any operation of a failed multi.
type MultiResult struct {
	Op       OpCode
	Code     Code     // error: the operation's code; OK if it was undone because another failed
	Path     string   // create, create2: the actual path
	Stat     Stat     // create2, setData, getData
	Data     []byte   // getData; aliases the frame, nil is null
	Children []string // getChildren
}

// Append appends the header to b.
func (r *MultiHeader) Append(b []byte) []byte {
	b = AppendInt32(b, int32(r.Op))
	b = AppendBool(b, r.Done)
	return AppendInt32(b, int32(r.Err))
}

// Decode reads the header.
func (r *MultiHeader) Decode(d *Decoder) {
	r.Op = OpCode(d.Int32())
	r.Done = d.Bool()
	r.Err = Code(d.Int32())
}

// AppendMultiEnd appends the header that ends a multi.
func AppendMultiEnd(b []byte) []byte {
	end := MultiHeader{Op: OpError, Done: true, Err: -1}
	return end.Append(b)
}

// record is what a MultiOp points at.
type record interface {
	Append(b []byte) []byte
	Decode(d *Decoder)
}

// record returns the record that Op selects, nil if Op cannot be part of a multi.
func (m *MultiOp) record() record {
	switch m.Op {
	case OpCreate, OpCreate2, OpCreateContainer:
		return &m.Create
	case OpCreateTTL:
		return &m.CreateTTL
	case OpDelete:
		return &m.Delete
	case OpSetData:
		return &m.SetData
	case OpCheck:
		return &m.Check
	case OpGetData, OpGetChildren:
		return &m.Path
	}
	return nil
}

// Append appends header and record of the operation to b. It panics if Op cannot be part
// of a multi: no input decodes to such a MultiOp.
func (m *MultiOp) Append(b []byte) []byte {
	r := m.record()
	if r == nil {
		panic(fmt.Sprintf("wire: opcode %v cannot be part of a multi", m.Op))
	}
	h := MultiHeader{Op: m.Op, Err: -1}
	return r.Append(h.Append(b))
}

// AppendMulti appends a whole multi or multiRead request to b.
func AppendMulti(b []byte, ops []MultiOp) []byte {
	for i := range ops {
		b = ops[i].Append(b)
	}
	return AppendMultiEnd(b)
}

// DecodeMulti reads a whole multi or multiRead request of at most max operations (no limit
// if max is 0 or less). An operation that allowed does not permit, a missing end and more
// than max operations are errors, which stick in d as any other: the whole request is
// answered with MarshallingError, and nothing of it is done.
func DecodeMulti(d *Decoder, allowed func(OpCode) bool, max int) ([]MultiOp, error) {
	var ops []MultiOp
	for {
		before := *d
		var h MultiHeader
		h.Decode(d)
		if d.err != nil {
			return nil, d.err
		}
		if h.Done {
			return ops, nil
		}
		if ops == nil { // room for most, but no large allocation on the word of a frame
			ops = make([]MultiOp, 0, min(1+d.Len()/40, 16))
		}
		if max > 0 && len(ops) == max {
			*d = before
			d.fail("more than %d operations in a multi; split it", max)
			return nil, d.err
		}
		ops = append(ops, MultiOp{Op: h.Op})
		r := ops[len(ops)-1].record()
		if r == nil || !allowed(h.Op) {
			*d = before
			d.fail("opcode %v cannot be part of this multi", h.Op)
			return nil, d.err
		}
		r.Decode(d)
	}
}

// IsMultiWrite says whether op may be part of a multi.
func IsMultiWrite(op OpCode) bool {
	switch op {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL, OpDelete, OpSetData, OpCheck:
		return true
	}
	return false
}

// IsMultiRead says whether op may be part of a multiRead.
func IsMultiRead(op OpCode) bool { return op == OpGetData || op == OpGetChildren }

// Append appends header and record of the result to b. It panics if Op is not the type of
// a result: no input decodes to such a MultiResult.
func (r *MultiResult) Append(b []byte) []byte {
	h := MultiHeader{Op: r.Op}
	if r.Op == OpError {
		h.Err = r.Code
	}
	b = h.Append(b)
	switch r.Op {
	case OpError:
		return AppendInt32(b, int32(r.Code))
	case OpCreate:
		return AppendString(b, r.Path)
	case OpCreate2:
		b = AppendString(b, r.Path)
		return r.Stat.Append(b)
	case OpSetData:
		return r.Stat.Append(b)
	case OpDelete, OpCheck:
		return b
	case OpGetData:
		b = AppendBuffer(b, r.Data)
		return r.Stat.Append(b)
	case OpGetChildren:
		return AppendStrings(b, r.Children)
	}
	panic(fmt.Sprintf("wire: opcode %v is not the type of a multi result", r.Op))
}

// AppendMultiResults appends a whole response of multi or multiRead to b.
func AppendMultiResults(b []byte, results []MultiResult) []byte {
	for i := range results {
		b = results[i].Append(b)
	}
	return AppendMultiEnd(b)
}

// DecodeMultiResults reads a whole response of multi or multiRead. An unknown type and a
// missing end are errors, which stick in d as any other.
func DecodeMultiResults(d *Decoder) ([]MultiResult, error) {
	return decodeMultiResults(d, nil, math.MaxInt)
}

// DecodeMultiResultsOf is DecodeMultiResults for the response to a request of n operations. Room
// is made for n results at once; more of them are an error, because a result takes up to 17 times
// the room of its bytes, and a long frame of garbage would become very much memory.
func DecodeMultiResultsOf(d *Decoder, n int) ([]MultiResult, error) {
	return decodeMultiResults(d, make([]MultiResult, 0, n), n)
}

func decodeMultiResults(d *Decoder, results []MultiResult, max int) ([]MultiResult, error) {
	for {
		before := *d
		var h MultiHeader
		h.Decode(d)
		if d.err != nil {
			return nil, d.err
		}
		if h.Done {
			return results, nil
		}
		if len(results) == max {
			*d = before
			d.fail("more than %d results, one for each operation of the request", max)
			return nil, d.err
		}
		r := MultiResult{Op: h.Op}
		switch h.Op {
		case OpError:
			r.Code = Code(d.Int32())
		case OpCreate:
			r.Path = d.String()
		case OpCreate2:
			r.Path = d.String()
			r.Stat = d.Stat()
		case OpSetData:
			r.Stat = d.Stat()
		case OpDelete, OpCheck: // no record
		case OpGetData:
			r.Data = d.Buffer()
			r.Stat = d.Stat()
		case OpGetChildren:
			r.Children = d.Strings()
		default:
			*d = before
			d.fail("opcode %v is not the type of a multi result", h.Op)
			return nil, d.err
		}
		results = append(results, r)
	}
}
