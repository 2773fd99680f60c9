package replication

import (
	"errors"
	"io"

	"github.com/hashicorp/raft"
)

// errNoPeers is returned for every message to another server.
var errNoPeers = errors.New("this server has no peers")

// soloTransport is the raft.Transport of a server without peers. All that passes it are
// messages of the server to itself.
//
// The heartbeat handler stays unset, here as in any transport to come: in raft's fast path
// a heartbeat of a newer term lets the old leader stamp an entry with that term
// (hashicorp/raft issue 695), so heartbeats go through the main loop.
type soloTransport struct {
	addr raft.ServerAddress
	rpcs chan raft.RPC
}

func newSoloTransport(id raft.ServerID) *soloTransport {
	return &soloTransport{addr: raft.ServerAddress(id), rpcs: make(chan raft.RPC, 1)}
}

// elect makes raft start an election at once, as if a leader had handed over. Waiting for
// the election timeout would cost a lone server more than a second.
func (t *soloTransport) elect(id raft.ServerID) {
	select {
	case t.rpcs <- raft.RPC{
		Command: &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{
			ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(id), Addr: []byte(t.addr),
		}},
		RespChan: make(chan raft.RPCResponse, 1), // nobody reads it
	}:
	default: // one is on its way
	}
}

func (t *soloTransport) Consumer() <-chan raft.RPC              { return t.rpcs }
func (t *soloTransport) LocalAddr() raft.ServerAddress          { return t.addr }
func (t *soloTransport) SetHeartbeatHandler(func(rpc raft.RPC)) {}

func (t *soloTransport) EncodePeer(_ raft.ServerID, addr raft.ServerAddress) []byte {
	return []byte(addr)
}

func (t *soloTransport) DecodePeer(b []byte) raft.ServerAddress { return raft.ServerAddress(b) }

func (t *soloTransport) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, errNoPeers
}

func (t *soloTransport) AppendEntries(raft.ServerID, raft.ServerAddress, *raft.AppendEntriesRequest, *raft.AppendEntriesResponse) error {
	return errNoPeers
}

func (t *soloTransport) RequestVote(raft.ServerID, raft.ServerAddress, *raft.RequestVoteRequest, *raft.RequestVoteResponse) error {
	return errNoPeers
}

func (t *soloTransport) RequestPreVote(raft.ServerID, raft.ServerAddress, *raft.RequestPreVoteRequest, *raft.RequestPreVoteResponse) error {
	return errNoPeers
}

func (t *soloTransport) InstallSnapshot(raft.ServerID, raft.ServerAddress, *raft.InstallSnapshotRequest, *raft.InstallSnapshotResponse, io.Reader) error {
	return errNoPeers
}

func (t *soloTransport) TimeoutNow(raft.ServerID, raft.ServerAddress, *raft.TimeoutNowRequest, *raft.TimeoutNowResponse) error {
	return errNoPeers
}
