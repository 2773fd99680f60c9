package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// A Transport is a member's end of the connections to all others. It is raft's Transport,
// offers streams to everybody else, and carries what the leader has to say of its own.
//
// Goroutines: one accepts; each connection has one that reads, and those for messages of
// raft one more that sends raft's answers; each pipeline has one; a courier per member runs
// while there is a commit index to carry. Close ends and awaits them all.
type Transport struct {
	o         Options
	idBytes   []byte
	accepting atomic.Pointer[tls.Config] // of the side that accepts; see serverTLS
	listeners []net.Listener             // at least one
	reached   sync.Map                   // by member: the address that answered last, of several
	rpcs      chan raft.RPC
	ctx       context.Context // ends with Close
	cancel    context.CancelFunc
	tasks     sync.WaitGroup
	lobby     lobby
	notices   limiter
	counters  counters

	cluster   atomic.Pointer[string] // what only members know; nil: none yet
	committed atomic.Pointer[commit] // what Advance was told last
	spooling  chan struct{}          // a token per snapshot that is being received
	hurry     broadcast              // nobody should wait for a member that is away

	mu       sync.Mutex // guards the fields below
	closed   bool
	peers    map[raft.ServerID]*peer
	everyone []*peer // those of peers; replaced, never changed
	handlers map[Kind]func(*Stream)
	conns    map[*conn]struct{}
}

var (
	_ raft.Transport   = (*Transport)(nil)
	_ raft.WithPreVote = (*Transport)(nil)
	_ raft.WithClose   = (*Transport)(nil)
)

// New opens the peer port and takes connections from then on.
func New(o Options) (*Transport, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	t := &Transport{
		o:        o,
		idBytes:  []byte(o.ID),
		rpcs:     make(chan raft.RPC),
		peers:    map[raft.ServerID]*peer{},
		handlers: map[Kind]func(*Stream){},
		conns:    map[*conn]struct{}{},
		spooling: make(chan struct{}, maxSpooled),
	}
	if o.Cluster != "" {
		t.cluster.Store(&o.Cluster)
	}
	for _, address := range append([]string{o.Listen}, o.AlsoListen...) {
		l, err := o.Network.Listen(address)
		if err != nil {
			t.closeListeners()
			return nil, fmt.Errorf("cannot open the peer port: %w", err)
		}
		t.listeners = append(t.listeners, l)
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	for _, l := range t.listeners {
		t.spawn(func() { t.acceptLoop(l) })
	}
	if o.TLS != nil && o.Roots != nil {
		t.spawn(t.watchRoots)
	}
	return t, nil
}

func (t *Transport) closeListeners() {
	for _, l := range t.listeners {
		l.Close()
	}
}

// Close ends all connections and calls, and returns when no goroutine of the Transport is
// left; handlers of streams must return when their stream fails. The listener goes first:
// others look for a dead process by dialing it again, and must not find this one.
//
// Call it before waiting for raft's shutdown, which waits for the calls that it has under way.
func (t *Transport) Close() error {
	t.mu.Lock()
	first := !t.closed
	t.closed = true
	conns := make([]*conn, 0, len(t.conns))
	for c := range t.conns {
		conns = append(conns, c)
	}
	t.mu.Unlock()
	if first {
		t.closeListeners()
		t.cancel()
		t.lobby.closeAll()
		for _, c := range conns {
			c.end(ErrClosed, true)
		}
	}
	t.tasks.Wait()
	return nil
}

// spawn starts a goroutine that Close awaits; false after Close.
func (t *Transport) spawn(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.tasks.Go(f)
	return true
}

// keep has Close end the connection; false after Close.
func (t *Transport) keep(c *conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.conns[c] = struct{}{}
	}
	return !t.closed
}

func (t *Transport) drop(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.conns, c)
}

// peer returns the state of another member, new if it is the first time.
func (t *Transport) peer(id raft.ServerID) (*peer, error) {
	t.mu.Lock()
	p, full := t.peers[id], len(t.peers) >= maxPeers
	t.mu.Unlock()
	switch {
	case p != nil:
		return p, nil
	case id == t.o.ID || id == "" || len(id) > maxIDBytes:
		return nil, fmt.Errorf("%q is not the id of another member", id)
	case full && !t.makeRoom():
		return nil, fmt.Errorf("%d members are connected, no more are taken", maxPeers)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.peers[id]; p != nil {
		return p, nil
	}
	p = newPeer(t, id)
	t.peers[id] = p
	t.everyone = slices.Collect(maps.Values(t.peers))
	return p, nil
}

// makeRoom forgets the member that was not heard for longest, of those with nothing open:
// there are as many members as there have been incarnations.
func (t *Transport) makeRoom() bool {
	var oldest *peer
	var since time.Time
	for _, p := range t.others() {
		if at, idle := p.idleSince(); idle && (oldest == nil || at.Before(since)) {
			oldest, since = p, at
		}
	}
	if oldest == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.peers, oldest.id)
	return true
}

// others returns all members that are known. The slice must not be changed.
func (t *Transport) others() []*peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.everyone
}

// takes says whether connections of a kind are taken.
func (t *Transport) takes(k Kind) bool {
	switch k {
	case KindRaft, KindSnapshot, KindControl, KindProbe:
		return true
	default:
		return t.handler(k) != nil
	}
}

// Addr is the address of the peer port, the first if it has several.
func (t *Transport) Addr() net.Addr { return t.listeners[0].Addr() }

// Boot is the nonce of this process.
func (t *Transport) Boot() uint64 { return t.o.Boot }

// LocalAddr implements raft.Transport. For raft, a member's address is its id and never
// changes; where it is, is asked at every dial.
func (t *Transport) LocalAddr() raft.ServerAddress { return raft.ServerAddress(t.o.ID) }

// EncodePeer implements raft.Transport.
func (t *Transport) EncodePeer(id raft.ServerID, _ raft.ServerAddress) []byte { return []byte(id) }

// DecodePeer implements raft.Transport.
func (t *Transport) DecodePeer(b []byte) raft.ServerAddress { return raft.ServerAddress(b) }

// Consumer implements raft.Transport.
func (t *Transport) Consumer() <-chan raft.RPC { return t.rpcs }

// SetHeartbeatHandler implements raft.Transport, and ignores the handler: heartbeats go
// through raft's main loop as everything else. In raft's fast path a heartbeat of a newer
// term changes the term beside the main loop, and a leader that is just appending stamps its
// client's entry with a term in which it does not lead (hashicorp/raft issue 695).
func (t *Transport) SetHeartbeatHandler(func(raft.RPC)) {}

// errNotOurs is returned when raft runs under another identity than the transport, whose
// handshakes would vouch for it.
var errNotOurs = errors.New("raft's LocalID and the ID of its transport differ")

func (t *Transport) checkHeader(h *raft.RPCHeader) error {
	if string(h.ID) != string(t.o.ID) || string(h.Addr) != string(t.o.ID) ||
		h.ProtocolVersion < 1 || h.ProtocolVersion > raft.ProtocolVersionMax {
		return fmt.Errorf("%w: %q at %q, and %q", errNotOurs, h.ID, h.Addr, t.o.ID)
	}
	return nil
}

// RequestVote implements raft.Transport.
func (t *Transport) RequestVote(id raft.ServerID, _ raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	r, err := t.request(id, &args.RPCHeader, frameVote, func(b []byte, call uint64) []byte { return appendVote(b, call, args) })
	if err != nil {
		return err
	}
	*resp = raft.RequestVoteResponse{RPCHeader: header(r.version, []byte(id)), Term: r.term, Granted: r.success}
	return nil
}

// RequestPreVote implements raft.WithPreVote. Its term is one that nobody has yet.
func (t *Transport) RequestPreVote(id raft.ServerID, _ raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	r, err := t.request(id, &args.RPCHeader, framePreVote, func(b []byte, call uint64) []byte { return appendPreVote(b, call, args) })
	if err != nil {
		return err
	}
	*resp = raft.RequestPreVoteResponse{RPCHeader: header(r.version, []byte(id)), Term: r.term, Granted: r.success}
	return nil
}

// TimeoutNow implements raft.Transport. Sent to this member itself it makes raft here stand
// for election at once: what a follower does that knows its leader dead, and a lone voter
// at its start. raft obeys in any state, so look at the state again just before: it would
// depose this member, or a leader that has been elected meanwhile.
func (t *Transport) TimeoutNow(id raft.ServerID, _ raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	if id == t.o.ID {
		return t.timeoutSelf(args)
	}
	r, err := t.request(id, &args.RPCHeader, frameTimeoutNow, func(b []byte, call uint64) []byte { return appendTimeoutNow(b, call, args) })
	if err != nil {
		return err
	}
	*resp = raft.TimeoutNowResponse{RPCHeader: header(r.version, []byte(id))}
	return nil
}

// timeoutSelf fills in the header: who calls it is not raft and has none.
func (t *Transport) timeoutSelf(args *raft.TimeoutNowRequest) error {
	answer := make(chan raft.RPCResponse, 1)
	request := &raft.TimeoutNowRequest{RPCHeader: args.RPCHeader}
	if len(request.ID) == 0 {
		request.RPCHeader = header(uint8(raft.ProtocolVersionMax), t.idBytes)
	}
	timer := time.NewTimer(t.o.Timeout)
	defer timer.Stop()
	select {
	case t.rpcs <- raft.RPC{Command: request, RespChan: answer}:
	case <-timer.C:
		return fmt.Errorf("raft here did not take a TimeoutNow: %w", errNoAnswer)
	case <-t.ctx.Done():
		return ErrClosed
	}
	select {
	case a := <-answer:
		return a.Error
	case <-timer.C:
		return fmt.Errorf("raft here did not answer a TimeoutNow: %w", errNoAnswer)
	case <-t.ctx.Done():
		return ErrClosed
	}
}

// request sends a message of raft that has no entries, and waits for the answer.
func (t *Transport) request(id raft.ServerID, h *raft.RPCHeader, f frameType, fill func([]byte, uint64) []byte) (reply, error) {
	if err := t.checkHeader(h); err != nil {
		return reply{}, err
	}
	p, err := t.peer(id)
	if err != nil {
		return reply{}, err
	}
	a, err := p.ask(t.ctx, lineRaft, f, fill)
	if err != nil {
		return reply{}, err
	}
	p.heard()
	return a.reply, nil
}

// Status is what is known of another member.
type Status struct {
	ID        raft.ServerID
	Boot      uint64    // nonce of its process; 0 if none was ever met
	Connected bool      // messages of raft can be sent without a dial
	Inbound   int       // connections that it has opened to this member
	Contact   time.Time // of its last answer to a message of raft; zero if there was none

	// Of the term in which raft here last sent it an AppendEntries: up to where its log is
	// known to be that of this member, and the highest commit index it was sent.
	Term, Acked, Told uint64
}

// Peers returns the status of all members that are known, in the order of their ids.
func (t *Transport) Peers() []Status {
	var all []Status
	for _, p := range t.others() {
		all = append(all, p.status())
	}
	slices.SortFunc(all, func(a, b Status) int {
		switch {
		case a.ID < b.ID:
			return -1
		case a.ID > b.ID:
			return 1
		}
		return 0
	})
	return all
}
