package wire

import "testing"

// The paths that run for every request must not allocate.

// request encodes a request without its frame length.
func request(xid int32, op OpCode, body record) []byte {
	h := RequestHeader{xid, op}
	b := h.Append(nil)
	if body != nil {
		b = body.Append(b)
	}
	return b
}

func noAllocs(t *testing.T, what string, f func()) {
	t.Helper()
	if n := testing.AllocsPerRun(1000, f); n != 0 {
		t.Errorf("%s: %v allocations, want 0", what, n)
	}
}

// decodeRead decodes ping, exists and getData as a server does that answers from the tree.
func decodeRead(frame []byte) (h RequestHeader, path []byte, watch bool, err error) {
	d := NewDecoder(frame)
	h.Decode(&d)
	if h.Op != OpPing {
		path, watch = d.PathWatch()
	}
	return h, path, watch, d.Err()
}

func TestDecodingReadsDoesNotAllocate(t *testing.T) {
	for what, frame := range map[string][]byte{
		"ping":    request(XidPing, OpPing, nil),
		"exists":  request(1, OpExists, &PathWatchRequest{Path: "/some/path/that/is/long/enough"}),
		"getData": request(2, OpGetData, &PathWatchRequest{Path: "/some/path/that/is/long/enough", Watch: true}),
	} {
		noAllocs(t, "decoding "+what, func() {
			if _, _, _, err := decodeRead(frame); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestEncodingRepliesDoesNotAllocate(t *testing.T) {
	buf := make([]byte, 0, 4096)
	stat := Stat{Czxid: 1}
	data := make([]byte, 100)
	names := []string{"a", "b", "c"}
	connect := ConnectResponse{Password: data[:16], HasReadOnly: true}
	outcomes := []MultiResult{{Op: OpCreate, Path: "/a"}, {Op: OpSetData, Stat: stat}, {Op: OpError, Code: NoNode}}
	framed := func(body func(b []byte) []byte) func() {
		return func() {
			b, mark := AppendFrame(buf[:0])
			b = AppendReply(b, 1, 2, OK)
			b = body(b)
			FinishFrame(b, mark)
		}
	}
	for what, f := range map[string]func(){
		"header only":  framed(func(b []byte) []byte { return b }),
		"connect":      framed(connect.Append),
		"stat":         framed(stat.Append),
		"getData":      framed(func(b []byte) []byte { return stat.Append(AppendBuffer(b, data)) }),
		"getChildren2": framed(func(b []byte) []byte { return stat.Append(AppendStrings(b, names)) }),
		"getACL":       framed(func(b []byte) []byte { return stat.Append(AppendACLs(b, worldACL)) }),
		"create2":      framed(func(b []byte) []byte { return stat.Append(AppendString(b, "/a")) }),
		"multi":        framed(func(b []byte) []byte { return AppendMultiResults(b, outcomes) }),
		"whoAmI":       framed(func(b []byte) []byte { return AppendClientInfos(b, whoAmI) }),
		"event":        func() { AppendEvent(buf[:0], 7, EventNodeCreated, "/a/b/c") },
	} {
		noAllocs(t, "encoding "+what, f)
	}
}

func TestDecodingStatDoesNotAllocate(t *testing.T) {
	frame := (&Stat{Czxid: 1}).Append(nil)
	noAllocs(t, "decoding a stat", func() {
		d := NewDecoder(frame)
		if d.Stat().Czxid != 1 {
			t.Fatal("wrong stat")
		}
	})
}

func BenchmarkDecodePing(b *testing.B) {
	frame := request(XidPing, OpPing, nil)
	b.ReportAllocs()
	for b.Loop() {
		_, _, _, _ = decodeRead(frame)
	}
}

func BenchmarkDecodeGetData(b *testing.B) {
	frame := request(2, OpGetData, &PathWatchRequest{Path: "/services/web/instances/node-0000000001"})
	b.ReportAllocs()
	for b.Loop() {
		_, _, _, _ = decodeRead(frame)
	}
}

func BenchmarkDecodeSetData(b *testing.B) {
	frame := (&SetDataRequest{Path: "/services/web/instances/node-0000000001", Data: make([]byte, 100)}).Append(nil)
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	for b.Loop() {
		d := NewDecoder(frame)
		var r SetDataRequest
		r.Decode(&d)
	}
}

func BenchmarkDecodeCreate(b *testing.B) {
	frame := (&CreateRequest{Path: "/services/web/instances/node-0000000001", Data: make([]byte, 100), ACL: worldACL}).Append(nil)
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	for b.Loop() {
		d := NewDecoder(frame)
		var r CreateRequest
		r.Decode(&d)
	}
}

func BenchmarkDecodeMulti10(b *testing.B) {
	ops := make([]MultiOp, 10)
	for i := range ops {
		ops[i] = MultiOp{Op: OpSetData, SetData: SetDataRequest{Path: "/services/web", Data: make([]byte, 100), Version: -1}}
	}
	frame := AppendMulti(nil, ops)
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	for b.Loop() {
		d := NewDecoder(frame)
		if _, err := DecodeMulti(&d, IsMultiWrite, 0); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendGetDataReply(b *testing.B) {
	buf := make([]byte, 0, 4096)
	stat := Stat{Czxid: 1}
	data := make([]byte, 100)
	b.ReportAllocs()
	for b.Loop() {
		out, mark := AppendFrame(buf[:0])
		out = AppendReply(out, 1, 2, OK)
		out = AppendBuffer(out, data)
		out = stat.Append(out)
		FinishFrame(out, mark)
	}
}

func BenchmarkAppendEvent(b *testing.B) {
	buf := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		AppendEvent(buf[:0], 7, EventNodeCreated, "/services/web/instances/node-0000000001")
	}
}

func BenchmarkAppendChildren1000(b *testing.B) {
	names := make([]string, 1000)
	for i := range names {
		names[i] = "node-0000000001"
	}
	buf := make([]byte, 0, 64<<10)
	b.SetBytes(int64(len(AppendStrings(nil, names))))
	b.ReportAllocs()
	for b.Loop() {
		AppendStrings(buf[:0], names)
	}
}
