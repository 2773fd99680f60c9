package peer

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/hashicorp/raft"
)

// Messages of raft. None says who sent it: the handshake has said that for the whole
// connection, and the receiver fills in ID and Addr from there, so that a member cannot speak
// for another. (Leader and Candidate, which raft reads where there is no Addr, stay empty.)
// Each request begins with the number of its call, which the answer repeats, and with raft's
// protocol version.
//
//	vote, preVote   8 call  1 version  8 term  8 last index  8 last term  1 flags
//	timeoutNow      8 call  1 version
//	reply           8 call  1 version  8 term  8 last index  1 flags
//	failure         8 call  2+n text
//	append          8 call  1 version  8 term  8 previous index  8 previous term
//	                8 commit index  4 number of entries  entries
//	entry           8 term  1 type  8 appended at (Unix ns, 0 none)
//	                4 length of data  4 length of extensions  data  extensions
//	install         1 version  1 snapshot version  8 term  8 last index  8 last term
//	                8 configuration index  8 size  4+n configuration
//
// An entry has no index: it is the previous index plus its place, so that a gap cannot be
// said. A reply serves all requests; its last index is AppendEntriesResponse.LastLog.
// Version 0 of a reply stands for one without a header, as raft sends it for TimeoutNow and
// InstallSnapshot. What raft ignores since protocol version 2 (Peers) is not sent.
const (
	voteBytes  = 8 + 1 + 8 + 8 + 8 + 1
	replyBytes = 8 + 1 + 8 + 8 + 1
	entryBytes = 8 + 1 + 8 + 4 + 4
	appendHead = 8 + 1 + 8*4 + 4

	installBytes = 1 + 1 + 8*5 + 4 + maxConfigurationBytes
)

// Flags.
const (
	flagLeadershipTransfer = 1 << 0 // of a vote: the leader asked for this election
	flagSuccess            = 1 << 0 // of a reply: granted, or done
	flagNoRetryBackoff     = 1 << 1
)

// A reply is raft's answer to a request, whatever its type.
type reply struct {
	version   uint8
	term      uint64
	lastLog   uint64
	success   bool
	noBackoff bool
}

func appendReply(b []byte, call uint64, r *reply) []byte {
	b = binary.BigEndian.AppendUint64(b, call)
	b = append(b, r.version)
	b = binary.BigEndian.AppendUint64(b, r.term)
	b = binary.BigEndian.AppendUint64(b, r.lastLog)
	var flags uint8
	if r.success {
		flags |= flagSuccess
	}
	if r.noBackoff {
		flags |= flagNoRetryBackoff
	}
	return append(b, flags)
}

func decodeReply(body []byte) (call uint64, r reply, err error) {
	c := cursor{b: body}
	call = c.u64()
	r.version, r.term, r.lastLog = c.u8(), c.u64(), c.u64()
	flags := c.u8()
	r.success, r.noBackoff = flags&flagSuccess != 0, flags&flagNoRetryBackoff != 0
	if flags&^(flagSuccess|flagNoRetryBackoff) != 0 {
		c.bad = true
	}
	return call, r, c.end()
}

func appendFailure(b []byte, call uint64, text string) []byte {
	return appendText(binary.BigEndian.AppendUint64(b, call), text, maxFailureBytes)
}

func decodeFailure(body []byte) (call uint64, text string, err error) {
	c := cursor{b: body}
	call = c.u64()
	text = c.text(maxFailureBytes)
	return call, text, c.end()
}

// replyOf puts what raft answered with into a reply.
func replyOf(response any) (reply, error) {
	switch r := response.(type) {
	case *raft.AppendEntriesResponse:
		return reply{
			version: uint8(r.ProtocolVersion), term: r.Term, lastLog: r.LastLog,
			success: r.Success, noBackoff: r.NoRetryBackoff,
		}, nil
	case *raft.RequestVoteResponse:
		return reply{version: uint8(r.ProtocolVersion), term: r.Term, success: r.Granted}, nil
	case *raft.RequestPreVoteResponse:
		return reply{version: uint8(r.ProtocolVersion), term: r.Term, success: r.Granted}, nil
	case *raft.InstallSnapshotResponse:
		return reply{version: uint8(r.ProtocolVersion), term: r.Term, success: r.Success}, nil
	case *raft.TimeoutNowResponse:
		return reply{version: uint8(r.ProtocolVersion), success: true}, nil
	default:
		return reply{}, fmt.Errorf("raft answered with %T: this version of zkd cannot send that", response)
	}
}

// sender takes the header of a request.
func sender(c *cursor, from []byte) raft.RPCHeader {
	version := c.u8()
	if version == 0 || version > uint8(raft.ProtocolVersionMax) {
		c.bad = true
	}
	return header(version, from)
}

// header is what the messages of a member say of their sender.
func header(version uint8, from []byte) raft.RPCHeader {
	if version == 0 {
		return raft.RPCHeader{}
	}
	return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersion(version), ID: from, Addr: from}
}

func appendVote(b []byte, call uint64, r *raft.RequestVoteRequest) []byte {
	var flags uint8
	if r.LeadershipTransfer {
		flags = flagLeadershipTransfer
	}
	return appendBallot(b, call, r.RPCHeader, r.Term, r.LastLogIndex, r.LastLogTerm, flags)
}

func appendPreVote(b []byte, call uint64, r *raft.RequestPreVoteRequest) []byte {
	return appendBallot(b, call, r.RPCHeader, r.Term, r.LastLogIndex, r.LastLogTerm, 0)
}

func appendBallot(b []byte, call uint64, h raft.RPCHeader, term, lastIndex, lastTerm uint64, flags uint8) []byte {
	b = binary.BigEndian.AppendUint64(b, call)
	b = append(b, uint8(h.ProtocolVersion))
	b = binary.BigEndian.AppendUint64(b, term)
	b = binary.BigEndian.AppendUint64(b, lastIndex)
	b = binary.BigEndian.AppendUint64(b, lastTerm)
	return append(b, flags)
}

func appendTimeoutNow(b []byte, call uint64, r *raft.TimeoutNowRequest) []byte {
	b = binary.BigEndian.AppendUint64(b, call)
	return append(b, uint8(r.ProtocolVersion))
}

// decodeRequest decodes what goes to raft's main loop. from is the sender's ServerID; the
// entries' data stay in body, which must not be used again.
func decodeRequest(t frameType, body, from []byte) (call uint64, command any, err error) {
	switch t {
	case frameAppend:
		return decodeAppend(body, from)
	case frameVote, framePreVote:
		return decodeBallot(t, body, from)
	case frameTimeoutNow:
		c := cursor{b: body}
		call = c.u64()
		command = &raft.TimeoutNowRequest{RPCHeader: sender(&c, from)}
		return call, command, c.end()
	default:
		return 0, nil, errForeignFrame
	}
}

func decodeBallot(t frameType, body, from []byte) (call uint64, command any, err error) {
	c := cursor{b: body}
	call = c.u64()
	h := sender(&c, from)
	term, lastIndex, lastTerm, flags := c.u64(), c.u64(), c.u64(), c.u8()
	if flags&^flagLeadershipTransfer != 0 || t == framePreVote && flags != 0 {
		c.bad = true
	}
	if t == framePreVote {
		return call, &raft.RequestPreVoteRequest{
			RPCHeader: h, Term: term, LastLogIndex: lastIndex, LastLogTerm: lastTerm,
		}, c.end()
	}
	return call, &raft.RequestVoteRequest{
		RPCHeader: h, Term: term, LastLogIndex: lastIndex, LastLogTerm: lastTerm,
		LeadershipTransfer: flags&flagLeadershipTransfer != 0,
	}, c.end()
}

// An appendPiece is an AppendEntries as it is sent: all of one that raft asked for, or a part
// of its entries.
type appendPiece struct {
	version             uint8
	term                uint64
	prevIndex, prevTerm uint64
	commit              uint64
	entries             []*raft.Log

	kept uint64 // the peer's kept when the piece was sent; it stays with the sender
}

// lastIndex is up to where a member that accepts the piece has the log of the sender.
func (p *appendPiece) lastIndex() uint64 { return p.prevIndex + uint64(len(p.entries)) }

func appendAppend(b []byte, call uint64, p *appendPiece) []byte {
	b = binary.BigEndian.AppendUint64(b, call)
	b = append(b, p.version)
	b = binary.BigEndian.AppendUint64(b, p.term)
	b = binary.BigEndian.AppendUint64(b, p.prevIndex)
	b = binary.BigEndian.AppendUint64(b, p.prevTerm)
	b = binary.BigEndian.AppendUint64(b, p.commit)
	b = binary.BigEndian.AppendUint32(b, uint32(len(p.entries)))
	for _, e := range p.entries {
		b = appendEntry(b, e)
	}
	return b
}

func appendEntry(b []byte, e *raft.Log) []byte {
	b = binary.BigEndian.AppendUint64(b, e.Term)
	b = append(b, uint8(e.Type))
	var at int64
	if !e.AppendedAt.IsZero() {
		at = e.AppendedAt.UnixNano()
	}
	b = binary.BigEndian.AppendUint64(b, uint64(at))
	b = binary.BigEndian.AppendUint32(b, uint32(len(e.Data)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(e.Extensions)))
	b = append(b, e.Data...)
	return append(b, e.Extensions...)
}

func entrySize(e *raft.Log) int { return entryBytes + len(e.Data) + len(e.Extensions) }

// decodeAppend takes only what raft's main loop can bear: it panics on a log type that it
// does not know and on a configuration that it cannot decode, and its log store would stop
// the process over entries out of order.
func decodeAppend(body, from []byte) (call uint64, command any, err error) {
	c := cursor{b: body}
	call = c.u64()
	r := &raft.AppendEntriesRequest{RPCHeader: sender(&c, from)}
	r.Term, r.PrevLogEntry, r.PrevLogTerm, r.LeaderCommitIndex = c.u64(), c.u64(), c.u64(), c.u64()
	n := int(c.u32())
	if n > maxFrameEntries || n > len(c.b)/entryBytes || r.PrevLogEntry > math.MaxInt64 {
		return 0, nil, errFormat
	}
	if n > 0 {
		logs := make([]raft.Log, n)
		r.Entries = make([]*raft.Log, n)
		term := r.PrevLogTerm
		for i := range logs {
			logs[i].Index = r.PrevLogEntry + 1 + uint64(i)
			if !decodeEntry(&c, &logs[i]) || logs[i].Term < term || logs[i].Term > r.Term {
				return 0, nil, errFormat
			}
			term = logs[i].Term
			r.Entries[i] = &logs[i]
		}
	}
	return call, r, c.end()
}

func decodeEntry(c *cursor, e *raft.Log) bool {
	e.Term = c.u64()
	e.Type = raft.LogType(c.u8())
	if at := int64(c.u64()); at != 0 {
		e.AppendedAt = time.Unix(0, at)
	}
	data, extensions := int(c.u32()), int(c.u32())
	if data > 0 {
		e.Data = c.take(data)
	}
	if extensions > 0 {
		e.Extensions = c.take(extensions)
	}
	switch e.Type {
	case raft.LogCommand, raft.LogNoop, raft.LogBarrier:
		return !c.bad
	case raft.LogConfiguration:
		return !c.bad && isConfiguration(e.Data)
	default: // the deprecated ones, too: no leader of ours writes them
		return false
	}
}

// isConfiguration says whether raft can decode b, which it panics over otherwise.
func isConfiguration(b []byte) (ok bool) {
	if len(b) > maxConfigurationBytes {
		return false
	}
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	raft.DecodeConfiguration(b)
	return true
}

func appendInstall(b []byte, r *raft.InstallSnapshotRequest) []byte {
	b = append(b, uint8(r.ProtocolVersion), uint8(r.SnapshotVersion))
	b = binary.BigEndian.AppendUint64(b, r.Term)
	b = binary.BigEndian.AppendUint64(b, r.LastLogIndex)
	b = binary.BigEndian.AppendUint64(b, r.LastLogTerm)
	b = binary.BigEndian.AppendUint64(b, r.ConfigurationIndex)
	b = binary.BigEndian.AppendUint64(b, uint64(r.Size))
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.Configuration)))
	return append(b, r.Configuration...)
}

// decodeInstall takes only headers that raft's main loop can bear. body may be used again.
func decodeInstall(body, from []byte) (*raft.InstallSnapshotRequest, error) {
	c := cursor{b: body}
	r := &raft.InstallSnapshotRequest{RPCHeader: sender(&c, from)}
	r.SnapshotVersion = raft.SnapshotVersion(c.u8())
	r.Term, r.LastLogIndex, r.LastLogTerm, r.ConfigurationIndex = c.u64(), c.u64(), c.u64(), c.u64()
	size := c.u64()
	n := int(c.u32())
	if size > math.MaxInt64 || n > maxConfigurationBytes || r.LastLogIndex > math.MaxInt64 ||
		r.LastLogTerm > r.Term || r.SnapshotVersion != raft.SnapshotVersionMax {
		return nil, errFormat
	}
	r.Size = int64(size)
	r.Configuration = append([]byte(nil), c.take(n)...)
	if err := c.end(); err != nil {
		return nil, err
	}
	if !isConfiguration(r.Configuration) {
		return nil, errFormat
	}
	return r, nil
}
