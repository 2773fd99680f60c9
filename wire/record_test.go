package wire

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// The flag in a ConnectRequest may be missing, and what follows it is ignored.
func TestConnectRequestFlag(t *testing.T) {
	base := ConnectRequest{LastZxidSeen: 7, TimeoutMs: 4000, SessionID: 9, Password: make([]byte, 16)}
	without := base.Append(nil)
	if len(without) != 44 {
		t.Errorf("%d bytes without the flag, want 44", len(without))
	}
	for name, tt := range map[string]struct {
		tail            string
		has, isReadOnly bool
		left            int
	}{
		"missing":      {"", false, false, 0},
		"off":          {"\x00", true, false, 0},
		"on":           {"\x01", true, true, 0},
		"on, and more": {"\x01zz", true, true, 2},
	} {
		d := NewDecoder(append(bytes.Clone(without), tt.tail...))
		var got ConnectRequest
		got.Decode(&d)
		want := base
		want.HasReadOnly, want.ReadOnly = tt.has, tt.isReadOnly
		if !reflect.DeepEqual(got, want) || d.Err() != nil || d.Len() != tt.left {
			t.Errorf("%s: %+v, %v", name, got, d.Err())
		}
	}
}

func TestConnectRequestPasswordOfAnyLength(t *testing.T) {
	for _, password := range [][]byte{nil, {}, []byte("12345"), make([]byte, 100)} {
		for _, flag := range []bool{false, true} {
			want := ConnectRequest{Password: password, HasReadOnly: flag}
			d := NewDecoder(want.Append(nil))
			var got ConnectRequest
			got.Decode(&d)
			if !reflect.DeepEqual(got, want) || d.Err() != nil {
				t.Errorf("%+v, want %+v; %v", got, want, d.Err())
			}
		}
	}
}

func TestConnectResponseFollowsTheFlag(t *testing.T) {
	r := ConnectResponse{TimeoutMs: 1, SessionID: 2, Password: make([]byte, 16)}
	if n := len(r.Append(nil)); n != 36 {
		t.Errorf("%d bytes without the flag, want 36", n)
	}
	r.HasReadOnly, r.ReadOnly = true, true
	b := r.Append(nil)
	if len(b) != 37 || b[36] != 1 {
		t.Errorf("with the flag %x, want 37 bytes that end in 1", b)
	}
}

// TestNullPaths: ZooKeeper answers MarshallingError to those that are errors here, and
// BadArguments, after the check of the path, to the others.
func TestNullPaths(t *testing.T) {
	rest := strings.Repeat("\x00", 40) // enough zeros for any record
	for _, tt := range []struct {
		r  record
		ok bool
	}{
		{&CreateRequest{}, false},
		{&CreateTTLRequest{}, false},
		{&DeleteRequest{}, false},
		{&PathWatchRequest{}, false},
		{&SetDataRequest{}, true},
		{&SetACLRequest{}, true},
		{&CheckRequest{}, true},
		{&PathRequest{}, true},
	} {
		d := NewDecoder(cat(null, rest))
		if tt.r.Decode(&d); (d.Err() == nil) != tt.ok {
			t.Errorf("%T with a null path: %v", tt.r, d.Err())
		}
		d = NewDecoder(cat(zero, rest))
		if tt.r.Decode(&d); d.Err() != nil {
			t.Errorf("%T with an empty path: %v", tt.r, d.Err())
		}
	}
}

func TestPathWatchIsPathWatchRequest(t *testing.T) {
	frame := (&PathWatchRequest{Path: "/a/b", Watch: true}).Append(nil)
	d := NewDecoder(frame)
	path, watch := d.PathWatch()
	if string(path) != "/a/b" || !watch || d.Err() != nil || d.Len() != 0 {
		t.Errorf("got %q, %v, %v", path, watch, d.Err())
	}
	if &path[0] != &frame[4] {
		t.Error("the path is a copy")
	}
}

// samples has a record of each type with every field set.
func samples() []record {
	acl := []ACL{{31, ID{"world", "anyone"}}, {1, ID{"digest", "bob:x"}}}
	stat := Stat{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
	return []record{
		&RequestHeader{3, OpGetData},
		&ReplyHeader{3, 1 << 40, BadVersion},
		&ConnectRequest{1, 2, 3, 4, []byte("password"), true, true},
		&ConnectResponse{1, 2, 3, []byte("password"), true, true},
		&CreateRequest{"/a", []byte("data"), acl, FlagEphemeral},
		&CreateTTLRequest{"/a", []byte("data"), acl, FlagPersistentTTL, 1 << 35},
		&DeleteRequest{"/a", -1},
		&SetDataRequest{"/a", []byte("data"), 5},
		&SetACLRequest{"/a", acl, 5},
		&CheckRequest{"/a", 5},
		&PathWatchRequest{"/a", true},
		&PathRequest{"/a"},
		&ReconfigRequest{"joining", "leaving", "members", 1 << 33},
		&WatchesRequest{"/a", WatcherPersistent},
		&AddWatchRequest{"/a", AddWatchPersistentRecursive},
		&SetWatches2{9, []string{"/a"}, []string{"/b", "/c"}, []string{"/d"}, []string{"/e"}, []string{"/f"}},
		&setWatches1{SetWatches2{9, []string{"/a"}, []string{"/b", "/c"}, []string{"/d"}, nil, nil}},
		&AuthPacket{1, "digest", []byte("bob:pw")},
		&SASLToken{[]byte("token")},
		&ClientInfo{"digest", "bob"},
		&ID{"digest", "bob"},
		&acl[1],
		&stat,
		&WatcherEvent{EventNodeDeleted, KeeperStateSyncConnected, "/a"},
		&MultiHeader{OpCreate, true, NoNode},
	}
}

func TestRecordsDecodeToWhatWasEncoded(t *testing.T) {
	for _, want := range samples() {
		t.Run(fmt.Sprintf("%T", want), func(t *testing.T) {
			b := want.Append(nil)
			got := reflect.New(reflect.TypeOf(want).Elem()).Interface().(record)
			d := NewDecoder(append(bytes.Clone(b), "rest"...)) // bytes left over are ignored
			got.Decode(&d)
			if d.Err() != nil || !reflect.DeepEqual(got, want) || string(d.Rest()) != "rest" {
				t.Errorf("got %+v, want %+v; %v, rest %q", got, want, d.Err(), d.Rest())
			}
		})
	}
}

// TestCutRecordsAreErrors cuts each record after every byte.
func TestCutRecordsAreErrors(t *testing.T) {
	for _, r := range samples() {
		b := r.Append(nil)
		optional := 0 // bytes that may be missing
		switch r.(type) {
		case *ConnectRequest, *ConnectResponse:
			optional = 1
		}
		for n := range len(b) - optional {
			d := NewDecoder(b[:n])
			got := reflect.New(reflect.TypeOf(r).Elem()).Interface().(record)
			if got.Decode(&d); d.Err() == nil {
				t.Errorf("%T cut to %d of %d bytes: no error", r, n, len(b))
			}
		}
	}
}

// TestDecodeLeavesNothingBehind: a record that is decoded into again holds the new one only.
func TestDecodeLeavesNothingBehind(t *testing.T) {
	for _, r := range samples() {
		empty := reflect.New(reflect.TypeOf(r).Elem()).Interface().(record)
		d := NewDecoder(make([]byte, 200))
		empty.Decode(&d)
		d = NewDecoder(make([]byte, 200))
		if r.Decode(&d); !reflect.DeepEqual(r, empty) || d.Err() != nil {
			t.Errorf("%T: %+v, want %+v; %v", r, r, empty, d.Err())
		}
	}
}

// TestIdentitiesReadAsWritten: those that are decoded without a copy, and others.
func TestIdentitiesReadAsWritten(t *testing.T) {
	for _, name := range []string{"", "world", "anyone", "auth", "digest", "ip", "sasl", "x509", "super", "World", "wor"} {
		want := ID{Scheme: name, ID: name}
		d := NewDecoder(want.Append(nil))
		var got ID
		if got.Decode(&d); got != want || d.Err() != nil {
			t.Errorf("got %+v, want %+v; %v", got, want, d.Err())
		}
	}
}

func TestStatIs68Bytes(t *testing.T) {
	if n := len((&Stat{}).Append(nil)); n != statSize {
		t.Errorf("%d bytes", n)
	}
}

func TestEveryOpCodeHasAName(t *testing.T) {
	names := map[string]OpCode{}
	for op := OpCode(-20); op < 200; op++ {
		name := op.String()
		if strings.HasPrefix(name, "unknown ") {
			continue
		}
		if other, ok := names[name]; ok {
			t.Errorf("%d and %d are both %q", other, op, name)
		}
		names[name] = op
	}
	if len(names) != 33 {
		t.Errorf("%d opcodes have names, want 33", len(names))
	}
	for op, want := range map[OpCode]string{OpCreate2: "create2", OpWhoAmI: "whoAmI", 10: "unknown 10"} {
		if got := op.String(); got != want {
			t.Errorf("%d is %q, want %q", op, got, want)
		}
	}
}

func TestCodesAreErrors(t *testing.T) {
	var err error = fmt.Errorf("create /a: %w", NodeExists)
	if !errors.Is(err, NodeExists) || errors.Is(err, NoNode) {
		t.Error("errors.Is does not find the code")
	}
	if got, want := err.Error(), "create /a: node already exists (NODEEXISTS)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := NoNode.String(); got != "NONODE" {
		t.Errorf("NoNode is %q", got)
	}
	if got := Code(-999).Error(); got != "unknown error code -999" {
		t.Errorf("got %q", got)
	}
	if got := Code(-999).String(); got != "unknown -999" {
		t.Errorf("got %q", got)
	}
	if len(codeNames) != 32 {
		t.Errorf("%d codes have names, want 32", len(codeNames))
	}
}

func TestEventAndWatcherTypesHaveZooKeepersNames(t *testing.T) {
	for got, want := range map[string]string{
		EventNodeCreated.String():           "NodeCreated",
		EventNodeDeleted.String():           "NodeDeleted",
		EventNodeDataChanged.String():       "NodeDataChanged",
		EventNodeChildrenChanged.String():   "NodeChildrenChanged",
		EventType(9).String():               "unknown 9",
		WatcherChildren.String():            "Children",
		WatcherData.String():                "Data",
		WatcherAny.String():                 "Any",
		WatcherPersistent.String():          "Persistent",
		WatcherPersistentRecursive.String(): "PersistentRecursive",
		WatcherType(9).String():             "unknown 9",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
