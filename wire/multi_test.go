package wire

import (
	"errors"
	"reflect"
	"testing"
)

// multiHeaderSize is the size of a MultiHeader on the wire.
const multiHeaderSize = 9

// writes has one operation of each type that a multi may have.
func writes() []MultiOp {
	create := CreateRequest{Path: "/a", Data: []byte{}, ACL: []ACL{{31, ID{"world", "anyone"}}}, Flags: 1}
	return []MultiOp{
		{Op: OpCreate, Create: create},
		{Op: OpCreate2, Create: create},
		{Op: OpCreateContainer, Create: create},
		{Op: OpCreateTTL, CreateTTL: CreateTTLRequest{Path: "/t", Flags: 5, TTLMs: 1000}},
		{Op: OpDelete, Delete: DeleteRequest{Path: "/d", Version: -1}},
		{Op: OpSetData, SetData: SetDataRequest{Path: "/s", Data: []byte("x"), Version: 3}},
		{Op: OpCheck, Check: CheckRequest{Path: "/c", Version: 4}},
	}
}

// reads has one operation of each type that a multiRead may have.
func reads() []MultiOp {
	return []MultiOp{
		{Op: OpGetData, Path: PathWatchRequest{Path: "/g"}},
		{Op: OpGetChildren, Path: PathWatchRequest{Path: "/h", Watch: true}},
	}
}

func TestMultiDecodesToWhatWasEncoded(t *testing.T) {
	for name, tt := range map[string]struct {
		ops     []MultiOp
		allowed func(OpCode) bool
	}{
		"writes": {writes(), IsMultiWrite},
		"reads":  {reads(), IsMultiRead},
		"empty":  {nil, IsMultiWrite},
	} {
		d := NewDecoder(append(AppendMulti(nil, tt.ops), "rest"...))
		got, err := DecodeMulti(&d, tt.allowed, len(tt.ops))
		if err != nil || !reflect.DeepEqual(got, tt.ops) || string(d.Rest()) != "rest" {
			t.Errorf("%s: got %+v, want %+v; %v", name, got, tt.ops, err)
		}
	}
}

func TestMultiEndsAtDoneWhateverItsType(t *testing.T) {
	end := MultiHeader{Op: OpCreate, Done: true}
	d := NewDecoder(end.Append(nil))
	if ops, err := DecodeMulti(&d, IsMultiWrite, 0); ops != nil || err != nil {
		t.Errorf("got %v, %v", ops, err)
	}
}

// TestMultiRefuses: the whole request is malformed, at the byte where the fault is.
func TestMultiRefuses(t *testing.T) {
	foreign := MultiHeader{Op: OpSetACL, Err: -1}
	broken := (&MultiHeader{Op: OpCheck, Err: -1}).Append(nil)
	one := AppendMulti(nil, writes()[6:])
	first := len(one) - multiHeaderSize // length of the operation
	for name, tt := range map[string]struct {
		wire    []byte
		allowed func(OpCode) bool
		max     int
		offset  int
	}{
		"nothing":          {nil, IsMultiWrite, 0, 0},
		"no end":           {one[:first], IsMultiWrite, 0, first},
		"cut end":          {one[:len(one)-1], IsMultiWrite, 0, len(one) - 4},
		"cut operation":    {one[:first-1], IsMultiWrite, 0, first - 4},
		"broken operation": {append(broken, minus2...), IsMultiWrite, 0, len(broken)},
		"read among":       {AppendMulti(one[:first:first], reads()), IsMultiWrite, 0, first},
		"write among":      {AppendMulti(nil, append(reads()[:1], writes()...)), IsMultiRead, 0, 9 + 4 + 2 + 1},
		"foreign":          {AppendMultiEnd(foreign.Append(nil)), func(OpCode) bool { return true }, 0, 0},
		"too many":         {AppendMulti(nil, writes()[5:]), IsMultiWrite, 1, 9 + 6 + 5 + 4},
	} {
		d := NewDecoder(tt.wire)
		ops, err := DecodeMulti(&d, tt.allowed, tt.max)
		var malformed *MalformedError
		if ops != nil || !errors.As(err, &malformed) || d.Err() != err {
			t.Errorf("%s: %v, %v, and the decoder says %v", name, ops, err, d.Err())
			continue
		}
		if malformed.Offset != tt.offset {
			t.Errorf("%s: %v, want the error at %d", name, err, tt.offset)
		}
	}
}

// results has one result of each type.
func results() []MultiResult {
	stat := Stat{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
	return []MultiResult{
		{Op: OpCreate, Path: "/a"},
		{Op: OpCreate2, Path: "/a", Stat: stat},
		{Op: OpDelete},
		{Op: OpSetData, Stat: stat},
		{Op: OpCheck},
		{Op: OpGetData, Data: []byte("x"), Stat: stat},
		{Op: OpGetData, Stat: stat}, // null data
		{Op: OpGetChildren, Children: []string{"a", "b"}},
		{Op: OpGetChildren},
		{Op: OpError, Code: NoNode},
		{Op: OpError, Code: OK}, // undone
	}
}

func TestMultiResultsDecodeToWhatWasEncoded(t *testing.T) {
	for _, want := range [][]MultiResult{results(), nil} {
		d := NewDecoder(append(AppendMultiResults(nil, want), "rest"...))
		got, err := DecodeMultiResults(&d)
		if err != nil || !reflect.DeepEqual(got, want) || string(d.Rest()) != "rest" {
			t.Errorf("got %+v, want %+v; %v", got, want, err)
		}
	}
}

func TestMultiResultsRefuse(t *testing.T) {
	whole := AppendMultiResults(nil, results())
	for n := range whole {
		d := NewDecoder(whole[:n])
		if got, err := DecodeMultiResults(&d); got != nil || err == nil || err != d.Err() {
			t.Errorf("cut to %d bytes: %v, %v", n, got, err)
		}
	}
	foreign := MultiHeader{Op: OpSetACL}
	d := NewDecoder(AppendMultiEnd(foreign.Append(nil)))
	if got, err := DecodeMultiResults(&d); got != nil || err == nil {
		t.Errorf("foreign type: %v, %v", got, err)
	}
}

func TestEncodingWhatCannotBePartOfAMultiPanics(t *testing.T) {
	for name, encode := range map[string]func(){
		"operation": func() { AppendMulti(nil, []MultiOp{{Op: OpSetACL}}) },
		"result":    func() { AppendMultiResults(nil, []MultiResult{{Op: OpSetACL}}) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			encode()
		})
	}
}

// A reply with more results than operations is refused before it has become much memory.
func TestResultsBeyondTheOperationsAreRefused(t *testing.T) {
	frame := AppendMultiResults(nil, []MultiResult{{Op: OpDelete}, {Op: OpSetData}, {Op: OpCheck}})
	for n, want := range map[int]bool{0: false, 1: false, 2: false, 3: true, 4: true} {
		d := NewDecoder(frame)
		got, err := DecodeMultiResultsOf(&d, n)
		if (err == nil) != want || (d.Err() == nil) != want {
			t.Fatalf("room for %d: %v", n, err)
		}
		if want && len(got) != 3 {
			t.Fatalf("room for %d: %d results", n, len(got))
		}
	}
	d := NewDecoder(AppendMultiEnd(nil))
	if got, err := DecodeMultiResultsOf(&d, 0); err != nil || len(got) != 0 {
		t.Fatal(got, err)
	}
}
