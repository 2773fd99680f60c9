package peer

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/hashicorp/raft"
)

// What decodes must decode to the same again after encoding; nothing may panic, and nothing
// may allocate beyond what came in.

func FuzzFrame(f *testing.F) {
	f.Add(appendFrame(nil, frameReply, func(b []byte) []byte { return appendReply(b, 1, &reply{term: 2}) }))
	f.Add([]byte("\xff\xff\xff\xff\x12\x00\x00\x00aaaa"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := newFrameReader(bytes.NewReader(b), 64)
		total := 0
		for {
			typ, body, err := r.next(acceptAll(1<<16), nil)
			if err != nil {
				return
			}
			total += headerBytes + len(body)
			again := appendFrame(nil, typ, func(b []byte) []byte { return append(b, body...) })
			if !bytes.Equal(again, b[total-len(again):total]) {
				t.Fatalf("%x became %x", b, again)
			}
		}
	})
}

func FuzzRequest(f *testing.F) {
	entries := []*raft.Log{{Index: 8, Term: 3, Data: []byte("data")}, {Index: 9, Term: 4, Type: raft.LogConfiguration, Data: aConfiguration}}
	f.Add(uint8(frameAppend), appendAppend(nil, 1, &appendPiece{version: 3, term: 4, prevIndex: 7, prevTerm: 2, commit: 7, entries: entries}))
	f.Add(uint8(frameVote), appendVote(nil, 1, &raft.RequestVoteRequest{RPCHeader: header(3, from), Term: 5}))
	f.Add(uint8(framePreVote), appendPreVote(nil, 1, &raft.RequestPreVoteRequest{RPCHeader: header(3, from), Term: 5}))
	f.Add(uint8(frameTimeoutNow), appendTimeoutNow(nil, 1, &raft.TimeoutNowRequest{RPCHeader: header(3, from)}))
	f.Fuzz(func(t *testing.T, typ uint8, body []byte) {
		call, command, err := decodeRequest(frameType(typ), body, from)
		if err != nil {
			return
		}
		var again []byte
		switch r := command.(type) {
		case *raft.AppendEntriesRequest:
			again = appendAppend(nil, call, whole(r))
		case *raft.RequestVoteRequest:
			again = appendVote(nil, call, r)
		case *raft.RequestPreVoteRequest:
			again = appendPreVote(nil, call, r)
		case *raft.TimeoutNowRequest:
			again = appendTimeoutNow(nil, call, r)
		}
		_, second, err := decodeRequest(frameType(typ), again, from)
		if err != nil || !reflect.DeepEqual(command, second) {
			t.Fatalf("%+v became %+v, %v", command, second, err)
		}
	})
}

func FuzzInstall(f *testing.F) {
	f.Add(appendInstall(nil, &raft.InstallSnapshotRequest{RPCHeader: header(3, from), SnapshotVersion: 1, Configuration: aConfiguration}))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := decodeInstall(body, from)
		if err != nil {
			return
		}
		second, err := decodeInstall(appendInstall(nil, r), from)
		if err != nil || !reflect.DeepEqual(r, second) {
			t.Fatalf("%+v became %+v, %v", r, second, err)
		}
	})
}

func FuzzAnswer(f *testing.F) {
	f.Add(appendReply(nil, 1, &reply{version: 3, term: 4, success: true}))
	f.Add(appendFailure(nil, 1, "cannot"))
	f.Add(appendSight(nil, 1, Dead))
	f.Add(appendEnd(nil, snapshotEnd{size: 1, sum: 2}))
	f.Add(appendWelcome(nil, welcome{version: 1, boot: 2}))
	f.Add(appendRefusal(nil, refuse(RefusedBusy, "busy")))
	f.Fuzz(func(t *testing.T, body []byte) {
		same := func(again []byte) {
			if !bytes.Equal(body, again) {
				t.Fatalf("%x became %x", body, again)
			}
		}
		if call, r, err := decodeReply(body); err == nil {
			same(appendReply(nil, call, &r))
		}
		if call, text, err := decodeFailure(body); err == nil {
			same(appendFailure(nil, call, text))
		}
		if call, s, err := decodeSight(body); err == nil {
			same(appendSight(nil, call, s))
		}
		if e, err := decodeEnd(body); err == nil {
			same(appendEnd(nil, e))
		}
		if w, err := decodeWelcome(body); err == nil {
			same(appendWelcome(nil, w))
		}
		if r, err := decodeRefusal(body); err == nil {
			same(appendRefusal(nil, r))
		}
	})
}

func FuzzHello(f *testing.F) {
	h := hello{newest: 1, oldest: 1, kind: KindRaft, boot: 5, cluster: "c", from: "1-a", to: "2-b"}
	f.Add(appendFrame([]byte(magic), frameHello, func(b []byte) []byte { return appendHello(b, &h) }))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := readHello(bytes.NewReader(b))
		if err != nil {
			return
		}
		second, err := decodeHello(appendHello(nil, &h))
		if err != nil || h != second {
			t.Fatalf("%+v became %+v, %v", h, second, err)
		}
	})
}

func FuzzQuestion(f *testing.F) {
	f.Add(appendAsk(nil, &question{call: 1, boot: 2, waitMs: 3, about: "1-a"}))
	f.Fuzz(func(t *testing.T, body []byte) {
		q, err := decodeAsk(body)
		if err == nil && !bytes.Equal(body, appendAsk(nil, &q)) {
			t.Fatalf("%x became %x", body, appendAsk(nil, &q))
		}
	})
}
