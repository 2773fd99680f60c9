package peer

import (
	"math"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var from = []byte("1-sender")

func drawHeader(t *rapid.T) raft.RPCHeader {
	return header(uint8(rapid.IntRange(1, 3).Draw(t, "version")), from)
}

func drawBytes(t *rapid.T, name string, maxLen int) []byte {
	b := rapid.SliceOfN(rapid.Byte(), 0, maxLen).Draw(t, name)
	if len(b) == 0 {
		return nil // as decoded
	}
	return b
}

var aConfiguration = raft.EncodeConfiguration(raft.Configuration{
	Servers: []raft.Server{{ID: "1-a", Address: "1-a"}, {ID: "2-b", Address: "2-b", Suffrage: raft.Nonvoter}},
})

// drawAppend draws a request that a leader could send.
func drawAppend(t *rapid.T) *raft.AppendEntriesRequest {
	r := &raft.AppendEntriesRequest{
		RPCHeader:         drawHeader(t),
		PrevLogEntry:      rapid.Uint64Range(0, math.MaxInt64).Draw(t, "prev"),
		PrevLogTerm:       rapid.Uint64Range(0, 100).Draw(t, "prevTerm"),
		LeaderCommitIndex: rapid.Uint64().Draw(t, "commit"),
	}
	term := r.PrevLogTerm
	for i := range rapid.IntRange(0, 20).Draw(t, "n") {
		term += rapid.Uint64Range(0, 2).Draw(t, "step")
		e := &raft.Log{
			Index: r.PrevLogEntry + 1 + uint64(i), Term: term,
			Type: rapid.SampledFrom([]raft.LogType{raft.LogCommand, raft.LogNoop, raft.LogBarrier, raft.LogConfiguration}).Draw(t, "type"),
			Data: drawBytes(t, "data", 100), Extensions: drawBytes(t, "extensions", 5),
		}
		if e.Type == raft.LogConfiguration {
			e.Data = aConfiguration
		}
		if ns := rapid.Int64().Draw(t, "at"); ns != 0 {
			e.AppendedAt = time.Unix(0, ns)
		}
		r.Entries = append(r.Entries, e)
	}
	r.Term = term + rapid.Uint64Range(0, 5).Draw(t, "later")
	return r
}

// whole is a request in one piece, with the commit index as it is.
func whole(r *raft.AppendEntriesRequest) *appendPiece {
	return &appendPiece{
		version: uint8(r.ProtocolVersion), term: r.Term, prevIndex: r.PrevLogEntry, prevTerm: r.PrevLogTerm,
		commit: r.LeaderCommitIndex, entries: r.Entries,
	}
}

func TestRequestsSurviveTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		call := rapid.Uint64().Draw(t, "call")
		var f frameType
		var want any
		var body []byte
		switch rapid.IntRange(0, 3).Draw(t, "type") {
		case 0:
			r := drawAppend(t)
			f, want, body = frameAppend, r, appendAppend(nil, call, whole(r))
		case 1:
			r := &raft.RequestVoteRequest{
				RPCHeader: drawHeader(t), Term: rapid.Uint64().Draw(t, "term"),
				LastLogIndex: rapid.Uint64().Draw(t, "index"), LastLogTerm: rapid.Uint64().Draw(t, "lastTerm"),
				LeadershipTransfer: rapid.Bool().Draw(t, "transfer"),
			}
			f, want, body = frameVote, r, appendVote(nil, call, r)
		case 2:
			r := &raft.RequestPreVoteRequest{
				RPCHeader: drawHeader(t), Term: rapid.Uint64().Draw(t, "term"),
				LastLogIndex: rapid.Uint64().Draw(t, "index"), LastLogTerm: rapid.Uint64().Draw(t, "lastTerm"),
			}
			f, want, body = framePreVote, r, appendPreVote(nil, call, r)
		case 3:
			r := &raft.TimeoutNowRequest{RPCHeader: drawHeader(t)}
			f, want, body = frameTimeoutNow, r, appendTimeoutNow(nil, call, r)
		}
		n, got, err := decodeRequest(f, body, from)
		require.NoError(t, err)
		require.Equal(t, call, n)
		require.Equal(t, want, got)
		_, _, err = decodeRequest(f, append(body, 0), from)
		require.ErrorIs(t, err, errFormat, "trailing bytes")
		_, _, err = decodeRequest(f, body[:len(body)-1], from)
		require.ErrorIs(t, err, errFormat, "a truncated body")
	})
}

func TestAnswersSurviveTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		call := rapid.Uint64().Draw(t, "call")
		r := reply{
			version: rapid.Uint8().Draw(t, "version"), term: rapid.Uint64().Draw(t, "term"),
			lastLog: rapid.Uint64().Draw(t, "last"), success: rapid.Bool().Draw(t, "success"),
			noBackoff: rapid.Bool().Draw(t, "noBackoff"),
		}
		n, got, err := decodeReply(appendReply(nil, call, &r))
		require.NoError(t, err)
		require.Equal(t, call, n)
		require.Equal(t, r, got)

		text := rapid.StringN(0, -1, maxFailureBytes).Draw(t, "text")
		n, gotText, err := decodeFailure(appendFailure(nil, call, text))
		require.NoError(t, err)
		require.Equal(t, call, n)
		require.Equal(t, text, gotText)

		s := Sight(rapid.IntRange(0, 2).Draw(t, "sight"))
		n, gotSight, err := decodeSight(appendSight(nil, call, s))
		require.NoError(t, err)
		require.Equal(t, call, n)
		require.Equal(t, s, gotSight)
	})
}

func TestInstallSurvivesTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		term := rapid.Uint64().Draw(t, "term")
		want := &raft.InstallSnapshotRequest{
			RPCHeader: drawHeader(t), SnapshotVersion: raft.SnapshotVersionMax, Term: term,
			LastLogIndex:  rapid.Uint64Range(0, math.MaxInt64).Draw(t, "index"),
			LastLogTerm:   rapid.Uint64Range(0, term).Draw(t, "lastTerm"),
			Configuration: aConfiguration, ConfigurationIndex: rapid.Uint64().Draw(t, "configuration"),
			Size: rapid.Int64Range(0, math.MaxInt64).Draw(t, "size"),
		}
		got, err := decodeInstall(appendInstall(nil, want), from)
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}

func TestMessagesOfTheTransportSurviveTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := func(name string) raft.ServerID {
			return raft.ServerID(rapid.StringN(1, -1, maxIDBytes).Draw(t, name))
		}
		h := hello{
			newest: rapid.Uint16Range(1, 9).Draw(t, "newest"), oldest: 1, kind: Kind(rapid.Uint8().Draw(t, "kind")),
			boot: rapid.Uint64Min(1).Draw(t, "boot"), cluster: rapid.StringN(0, -1, maxClusterBytes).Draw(t, "cluster"),
			from: id("from"), to: id("to"),
		}
		body := appendHello(nil, &h)
		require.LessOrEqual(t, len(body), maxHelloBytes)
		gotHello, err := decodeHello(append(body, "of a later version"...))
		require.NoError(t, err)
		require.Equal(t, h, gotHello)

		w := welcome{version: h.newest, boot: h.boot}
		gotWelcome, err := decodeWelcome(appendWelcome(nil, w))
		require.NoError(t, err)
		require.Equal(t, w, gotWelcome)

		r := &RefusedError{Code: RefusedBusy, Boot: h.boot, Reason: rapid.StringN(0, -1, maxReasonBytes).Draw(t, "reason")}
		gotRefusal, err := decodeRefusal(appendRefusal(nil, r))
		require.NoError(t, err)
		require.Equal(t, r, gotRefusal)

		e := snapshotEnd{size: rapid.Uint64().Draw(t, "size"), sum: rapid.Uint32().Draw(t, "sum")}
		gotEnd, err := decodeEnd(appendEnd(nil, e))
		require.NoError(t, err)
		require.Equal(t, e, gotEnd)

		q := question{call: h.boot, boot: h.boot, waitMs: e.sum, about: id("about")}
		gotAsk, err := decodeAsk(appendAsk(nil, &q))
		require.NoError(t, err)
		require.Equal(t, q, gotAsk)
	})
}

// raft's main loop panics over some of these, and its log store would stop over others.
func TestWhatRaftCannotBearIsRefused(t *testing.T) {
	entry := func(term uint64, typ raft.LogType, data string) *raft.Log {
		return &raft.Log{Term: term, Type: typ, Data: []byte(data)}
	}
	for _, test := range []struct {
		name    string
		entries []*raft.Log
		prev    uint64
	}{
		{"an unknown type", []*raft.Log{entry(5, 17, "x")}, 1},
		{"a deprecated type", []*raft.Log{entry(5, raft.LogAddPeerDeprecated, "x")}, 1},
		{"a configuration that is none", []*raft.Log{entry(5, raft.LogConfiguration, "\xc1nonsense")}, 1},
		{"an empty configuration", []*raft.Log{entry(5, raft.LogConfiguration, "")}, 1},
		{"a term that falls", []*raft.Log{entry(5, raft.LogCommand, "x"), entry(4, raft.LogCommand, "x")}, 1},
		{"a term below that of the previous entry", []*raft.Log{entry(2, raft.LogCommand, "x")}, 1},
		{"a term above the leader's", []*raft.Log{entry(6, raft.LogCommand, "x")}, 1},
		{"indexes that overflow", []*raft.Log{entry(5, raft.LogCommand, "x")}, math.MaxUint64},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := &appendPiece{version: 3, term: 5, prevIndex: test.prev, prevTerm: 3, entries: test.entries}
			_, _, err := decodeAppend(appendAppend(nil, 1, p), from)
			require.ErrorIs(t, err, errFormat)
		})
	}
	install := &raft.InstallSnapshotRequest{RPCHeader: header(3, from), SnapshotVersion: 1, Configuration: []byte("\xc1")}
	_, err := decodeInstall(appendInstall(nil, install), from)
	require.ErrorIs(t, err, errFormat)
	install.Configuration, install.Size = aConfiguration, -1
	_, err = decodeInstall(appendInstall(nil, install), from)
	require.ErrorIs(t, err, errFormat)
}

func TestEntriesCannotRunIntoEachOther(t *testing.T) {
	p := &appendPiece{version: 3, term: 1, entries: []*raft.Log{
		{Term: 1, Data: []byte("first")}, {Term: 1, Data: []byte("second")},
	}}
	_, command, err := decodeAppend(appendAppend(nil, 1, p), from)
	require.NoError(t, err)
	entries := command.(*raft.AppendEntriesRequest).Entries
	_ = append(entries[0].Data, "XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX"...)
	require.Equal(t, "second", string(entries[1].Data))
}

func TestPiecesAreTheRequest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &raft.AppendEntriesRequest{
			RPCHeader: header(3, from), Term: 9, PrevLogEntry: rapid.Uint64Range(0, 1000).Draw(t, "prev"), PrevLogTerm: 1,
			LeaderCommitIndex: rapid.Uint64Range(0, 1500).Draw(t, "commit"),
		}
		sizes := rapid.SliceOfN(rapid.SampledFrom([]int{0, 1, 100, splitBytes / 3, splitBytes - entryBytes, splitBytes, 2 * splitBytes}), 0, 12).Draw(t, "sizes")
		if rapid.Bool().Draw(t, "many") {
			sizes = make([]int, 2*maxFrameEntries+7)
		}
		for i, n := range sizes {
			r.Entries = append(r.Entries, &raft.Log{Index: r.PrevLogEntry + 1 + uint64(i), Term: uint64(1 + i/300), Data: make([]byte, n)})
		}
		limit := rapid.Uint64Range(0, 1500).Draw(t, "limit")
		pieces, err := cut(r, limit, 2*splitBytes+entryBytes)
		require.NoError(t, err)
		index, term := r.PrevLogEntry, r.PrevLogTerm
		var all []*raft.Log
		for i, p := range pieces {
			require.Equal(t, index, p.prevIndex)
			require.Equal(t, term, p.prevTerm)
			require.LessOrEqual(t, p.commit, p.lastIndex(), "beyond what the follower matched")
			require.Equal(t, min(r.LeaderCommitIndex, limit, p.lastIndex()), p.commit)
			require.LessOrEqual(t, len(p.entries), maxFrameEntries)
			require.True(t, len(pieces) == 1 || len(p.entries) > 0, "piece %d is empty", i)
			body := appendAppend(nil, 1, &p)
			require.True(t, len(p.entries) == 1 || len(body) <= splitBytes+appendHead)
			all = append(all, p.entries...)
			index = p.lastIndex()
			if n := len(p.entries); n > 0 {
				term = p.entries[n-1].Term
			}
		}
		require.Equal(t, len(r.Entries), len(all))
		for i := range all {
			require.Same(t, r.Entries[i], all[i])
		}
	})
}

func TestAnEntryBeyondTheLimitSaysSo(t *testing.T) {
	r := &raft.AppendEntriesRequest{Entries: []*raft.Log{{Index: 1, Data: make([]byte, 1001)}}}
	_, err := cut(r, math.MaxUint64, 1000)
	require.ErrorContains(t, err, "raise Options.MaxEntryBytes")
	r.Entries = []*raft.Log{{Index: 2}}
	_, err = cut(r, math.MaxUint64, 1000)
	require.ErrorContains(t, err, "does not follow")
}
