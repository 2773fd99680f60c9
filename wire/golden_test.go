package wire

import (
	"bytes"
	"encoding/hex"
	"os"
	"reflect"
	"strings"
	"testing"
)

// A conversation with Apache ZooKeeper 3.8.0, frame by frame: testdata/golden.txt.

// goldenStat builds the Stats of the conversation, in which most fields are zero.
func goldenStat(czxid, mzxid, ctimeMs, mtimeMs, pzxid int64) Stat {
	return Stat{Czxid: czxid, Mzxid: mzxid, CtimeMs: ctimeMs, MtimeMs: mtimeMs, Pzxid: pzxid}
}

const (
	goldenSession = 0x0100001d586d0000
	goldenTimeA   = 0x1a1fb7d9b28 // creation of /a
	goldenTimeB   = 0x1a1fb7d9b57 // creation of /b
)

var (
	goldenPassword = []byte("\x09\x6d\x11\x1e\x62\xb4\x42\x94\x8f\xa5\xcf\xfc\x7b\x40\x9e\x6a")
	worldACL       = []ACL{{Perms: PermAll, ID: ID{Scheme: "world", ID: "anyone"}}}
	statB          = goldenStat(3, 3, goldenTimeB, goldenTimeB, 3)
	statSeq        = goldenStat(4, 4, goldenTimeB, goldenTimeB, 4)
	statA          = Stat{
		Czxid: 2, Mzxid: 2, CtimeMs: goldenTimeA, MtimeMs: goldenTimeA,
		EphemeralOwner: goldenSession, DataLength: 1, Pzxid: 2,
	}
	statASet = Stat{
		Czxid: 2, Mzxid: 5, CtimeMs: goldenTimeA, MtimeMs: goldenTimeB, Version: 1,
		EphemeralOwner: goldenSession, DataLength: 2, Pzxid: 2,
	}
	statBChild = Stat{
		Czxid: 3, Mzxid: 3, CtimeMs: goldenTimeB, MtimeMs: goldenTimeB, Cversion: 1,
		NumChildren: 1, Pzxid: 4,
	}
	statAMulti = Stat{
		Czxid: 2, Mzxid: 6, CtimeMs: goldenTimeA, MtimeMs: goldenTimeB, Version: 2,
		EphemeralOwner: goldenSession, DataLength: 1, Pzxid: 2,
	}
)

// golden reads testdata/golden.txt: frames by their names.
func golden(t *testing.T) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile("testdata/golden.txt")
	if err != nil {
		t.Fatal(err)
	}
	frames := map[string][]byte{}
	name := ""
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), "#")
		if strings.HasSuffix(line, ":") {
			name = strings.TrimSuffix(line, ":")
			continue
		}
		b, err := hex.DecodeString(strings.ReplaceAll(line, " ", ""))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		frames[name] = append(frames[name], b...)
	}
	return frames
}

// body checks the length in front of a golden frame and returns what follows.
func body(t *testing.T, name string, frame []byte) []byte {
	t.Helper()
	n, err := FrameLength(frame, DefaultMaxFrame)
	if err != nil || n != len(frame)-FrameLengthSize {
		t.Fatalf("%s: frame of %d bytes says %d, %v", name, len(frame), n, err)
	}
	return frame[FrameLengthSize:]
}

// framed encodes the parts as one frame.
func framed(parts ...func(b []byte) []byte) []byte {
	b, mark := AppendFrame([]byte("before"))
	for _, part := range parts {
		b = part(b)
	}
	FinishFrame(b, mark)
	return b[len("before"):]
}

// setWatches1 is SetWatches2 in the layout of opcode 101.
type setWatches1 struct{ SetWatches2 }

func (r *setWatches1) Append(b []byte) []byte { return r.AppendSetWatches(b) }
func (r *setWatches1) Decode(d *Decoder)      { r.DecodeSetWatches(d) }

// multiRecord is a whole multi as a record.
type multiRecord struct{ Ops []MultiOp }

func (r *multiRecord) Append(b []byte) []byte { return AppendMulti(b, r.Ops) }
func (r *multiRecord) Decode(d *Decoder)      { r.Ops, _ = DecodeMulti(d, IsMultiWrite, 0) }

// goldenRequests are the C> lines; none in Body means that the header is all.
var goldenRequests = []struct {
	name   string
	header RequestHeader
	body   record
}{
	{"ping request", RequestHeader{XidPing, OpPing}, nil},
	{"create request", RequestHeader{1, OpCreate}, &CreateRequest{Path: "/a", Data: []byte("x"), ACL: worldACL, Flags: FlagEphemeral}},
	{"create2 request", RequestHeader{2, OpCreate2}, &CreateRequest{Path: "/b", ACL: worldACL}},
	{"create2 sequential request", RequestHeader{3, OpCreate2}, &CreateRequest{Path: "/b/n-", Data: []byte{}, ACL: worldACL, Flags: FlagPersistentSequential}},
	{"exists request", RequestHeader{4, OpExists}, &PathWatchRequest{Path: "/nope", Watch: true}},
	{"getData request", RequestHeader{5, OpGetData}, &PathWatchRequest{Path: "/a", Watch: true}},
	{"setData request", RequestHeader{6, OpSetData}, &SetDataRequest{Path: "/a", Data: []byte("yy")}},
	{"getChildren2 request", RequestHeader{7, OpGetChildren2}, &PathWatchRequest{Path: "/b"}},
	{"getACL request", RequestHeader{8, OpGetACL}, &PathRequest{Path: "/a"}},
	{"multi request", RequestHeader{9, OpMulti}, &multiRecord{[]MultiOp{
		{Op: OpCheck, Check: CheckRequest{Path: "/a", Version: 1}},
		{Op: OpSetData, SetData: SetDataRequest{Path: "/a", Data: []byte("z"), Version: -1}},
	}}},
	{"failing multi request", RequestHeader{10, OpMulti}, &multiRecord{[]MultiOp{
		{Op: OpDelete, Delete: DeleteRequest{Path: "/b", Version: -1}},
		{Op: OpCheck, Check: CheckRequest{Path: "/a", Version: 9}},
	}}},
	{"addWatch request", RequestHeader{11, OpAddWatch}, &AddWatchRequest{Path: "/b", Mode: AddWatchPersistentRecursive}},
	{"auth request", RequestHeader{XidAuth, OpAuth}, &AuthPacket{Scheme: "digest", Auth: []byte("bob:pw")}},
	{"setWatches request", RequestHeader{XidSetWatches, OpSetWatches}, &setWatches1{SetWatches2{DataWatches: []string{"/a"}}}},
	{"sync request", RequestHeader{12, OpSync}, &PathRequest{Path: "/"}},
	{"whoAmI request", RequestHeader{13, OpWhoAmI}, nil},
	{"closeSession request", RequestHeader{14, OpCloseSession}, nil},
}

func TestGoldenRequests(t *testing.T) {
	frames := golden(t)
	for _, tt := range goldenRequests {
		t.Run(tt.name, func(t *testing.T) {
			frame := frames[tt.name]
			d := NewDecoder(body(t, tt.name, frame))
			var h RequestHeader
			h.Decode(&d)
			parts := []func([]byte) []byte{h.Append}
			if tt.body != nil {
				got := reflect.New(reflect.TypeOf(tt.body).Elem()).Interface().(record)
				got.Decode(&d)
				if !reflect.DeepEqual(got, tt.body) {
					t.Errorf("decoded %+v, want %+v", got, tt.body)
				}
				parts = append(parts, got.Append)
			}
			if h != tt.header || d.Err() != nil || d.Len() != 0 {
				t.Errorf("header %+v, want %+v; error %v; %d bytes left", h, tt.header, d.Err(), d.Len())
			}
			if again := framed(parts...); !bytes.Equal(again, frame) {
				t.Errorf("encoded again\n     %x\nwant %x", again, frame)
			}
		})
	}
}

// A field appends one part of a response body.
type field = func(b []byte) []byte

func stringField(s string) field { return func(b []byte) []byte { return AppendString(b, s) } }

// goldenReplies are the S> lines: how a server builds them, and what a client decodes.
var goldenReplies = []struct {
	name   string
	header ReplyHeader
	build  []field
	read   func(d *Decoder) any
	want   any
}{
	{name: "ping reply", header: ReplyHeader{XidPing, 1, OK}},
	{"create reply", ReplyHeader{1, 2, OK}, []field{stringField("/a")}, readString, "/a"},
	{"create2 reply", ReplyHeader{2, 3, OK}, []field{stringField("/b"), statB.Append}, readPathStat, pathStat{"/b", statB}},
	{
		"create2 sequential reply",
		ReplyHeader{3, 4, OK},
		[]field{stringField("/b/n-0000000000"), statSeq.Append},
		readPathStat,
		pathStat{"/b/n-0000000000", statSeq},
	},
	{name: "exists reply", header: ReplyHeader{4, 4, NoNode}},
	{
		"getData reply",
		ReplyHeader{5, 4, OK},
		[]field{func(b []byte) []byte { return AppendBuffer(b, []byte("x")) }, statA.Append},
		func(d *Decoder) any { return dataStat{string(d.Buffer()), d.Stat()} },
		dataStat{"x", statA},
	},
	{"setData reply", ReplyHeader{6, 5, OK}, []field{statASet.Append}, func(d *Decoder) any { return d.Stat() }, statASet},
	{
		"getChildren2 reply",
		ReplyHeader{7, 5, OK},
		[]field{func(b []byte) []byte { return AppendStrings(b, []string{"n-0000000000"}) }, statBChild.Append},
		func(d *Decoder) any { return childrenStat{d.Strings(), d.Stat()} },
		childrenStat{[]string{"n-0000000000"}, statBChild},
	},
	{
		"getACL reply",
		ReplyHeader{8, 5, OK},
		[]field{func(b []byte) []byte { return AppendACLs(b, worldACL) }, statASet.Append},
		func(d *Decoder) any { return aclStat{d.ACLs(), d.Stat()} },
		aclStat{worldACL, statASet},
	},
	multiReply("multi reply", 9, 6, []MultiResult{{Op: OpCheck}, {Op: OpSetData, Stat: statAMulti}}),
	multiReply("failing multi reply", 10, 7, []MultiResult{
		{Op: OpError, Code: NotEmpty}, {Op: OpError, Code: RuntimeInconsistency},
	}),
	{
		"addWatch reply",
		ReplyHeader{11, 7, OK},
		[]field{func(b []byte) []byte { return AppendInt32(b, 0) }},
		func(d *Decoder) any { return d.Int32() }, int32(0),
	},
	{name: "auth reply", header: ReplyHeader{XidAuth, 0, OK}},
	{name: "setWatches reply", header: ReplyHeader{XidSetWatches, 7, OK}},
	{"sync reply", ReplyHeader{12, 7, OK}, []field{stringField("/")}, readString, "/"},
	{
		"whoAmI reply",
		ReplyHeader{13, 7, OK},
		[]field{func(b []byte) []byte { return AppendClientInfos(b, whoAmI) }},
		func(d *Decoder) any { return d.ClientInfos() }, whoAmI,
	},
	{name: "closeSession reply", header: ReplyHeader{14, 8, OK}},
}

type (
	pathStat struct {
		Path string
		Stat Stat
	}
	dataStat struct {
		Data string
		Stat Stat
	}
	childrenStat struct {
		Children []string
		Stat     Stat
	}
	aclStat struct {
		ACL  []ACL
		Stat Stat
	}
)

var whoAmI = []ClientInfo{{Scheme: "digest", User: "bob"}, {Scheme: "ip", User: "127.0.0.1"}}

func readString(d *Decoder) any   { return d.String() }
func readPathStat(d *Decoder) any { return pathStat{d.String(), d.Stat()} }

func multiReply(name string, xid int32, zxid int64, results []MultiResult) (r struct {
	name   string
	header ReplyHeader
	build  []field
	read   func(d *Decoder) any
	want   any
},
) {
	r.name = name
	r.header = ReplyHeader{xid, zxid, OK}
	r.build = []field{func(b []byte) []byte { return AppendMultiResults(b, results) }}
	r.read = func(d *Decoder) any { got, _ := DecodeMultiResults(d); return got }
	r.want = results
	return r
}

func TestGoldenReplies(t *testing.T) {
	frames := golden(t)
	for _, tt := range goldenReplies {
		t.Run(tt.name, func(t *testing.T) {
			frame := frames[tt.name]
			if got := framed(append([]field{tt.header.Append}, tt.build...)...); !bytes.Equal(got, frame) {
				t.Errorf("built\n     %x\nwant %x", got, frame)
			}
			d := NewDecoder(body(t, tt.name, frame))
			var h ReplyHeader
			h.Decode(&d)
			var got any
			if tt.read != nil {
				got = tt.read(&d)
			}
			if h != tt.header || !reflect.DeepEqual(got, tt.want) || d.Err() != nil || d.Len() != 0 {
				t.Errorf("decoded %+v %+v, want %+v %+v; error %v; %d bytes left", h, got, tt.header, tt.want, d.Err(), d.Len())
			}
		})
	}
}

func TestGoldenConnect(t *testing.T) {
	frames := golden(t)
	var req ConnectRequest
	d := NewDecoder(body(t, "connect request", frames["connect request"]))
	req.Decode(&d)
	want := ConnectRequest{TimeoutMs: 10000, Password: make([]byte, 16), HasReadOnly: true}
	if !reflect.DeepEqual(req, want) || d.Err() != nil || d.Len() != 0 {
		t.Errorf("decoded %+v, want %+v; %v", req, want, d.Err())
	}
	if got := framed(req.Append); !bytes.Equal(got, frames["connect request"]) {
		t.Errorf("encoded again %x", got)
	}

	resp := ConnectResponse{TimeoutMs: 10000, SessionID: goldenSession, Password: goldenPassword, HasReadOnly: true}
	if got := framed(resp.Append); !bytes.Equal(got, frames["connect response"]) {
		t.Errorf("built\n     %x\nwant %x", got, frames["connect response"])
	}
	var got ConnectResponse
	d.Reset(body(t, "connect response", frames["connect response"]))
	got.Decode(&d)
	if !reflect.DeepEqual(got, resp) || d.Err() != nil || d.Len() != 0 {
		t.Errorf("decoded %+v, want %+v; %v", got, resp, d.Err())
	}
}

// TestGoldenEvent: both notifications of the conversation are the same bytes.
func TestGoldenEvent(t *testing.T) {
	for _, name := range []string{"setData event", "setWatches event"} {
		frame := golden(t)[name]
		if got := AppendEvent(nil, -1, EventNodeDataChanged, "/a"); !bytes.Equal(got, frame) {
			t.Errorf("built\n     %x\nwant %x", got, frame)
		}
		d := NewDecoder(body(t, name, frame))
		var h ReplyHeader
		var ev WatcherEvent
		h.Decode(&d)
		ev.Decode(&d)
		want := WatcherEvent{Type: EventNodeDataChanged, State: KeeperStateSyncConnected, Path: "/a"}
		if h != (ReplyHeader{XidNotification, -1, OK}) || ev != want || d.Err() != nil || d.Len() != 0 {
			t.Errorf("decoded %+v %+v, want %+v; %v", h, ev, want, d.Err())
		}
		if again := framed(h.Append, ev.Append); !bytes.Equal(again, frame) {
			t.Errorf("encoded again %x", again)
		}
	}
}
