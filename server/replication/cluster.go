package replication

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/zkd-project/zkd/server/replication/peer"
)

// Timeouts of raft among several servers. raft itself notices a silent leader after one to two
// seconds; failover.go does after silenceLimit, and at once when its process dies. The timeouts
// are long because a machine or a disk that stands still for some hundred milliseconds keeps
// followers from answering, and a leader that then steps down helps nobody.
const (
	// maxAppendEntries go into one request of raft, and pipelineRequests are under way to a member.
	maxAppendEntries = 64
	pipelineRequests = 4
	// defaultTrailing entries are in a pipeline that is full, in a request that is answered and waits for
	// raft to look, and in one that raft looks at.
	defaultTrailing = (pipelineRequests + 2) * maxAppendEntries

	electionTimeout = 700 * time.Millisecond
	leaseTimeout    = 700 * time.Millisecond
	// commitTimeout is how long a follower waits for what raft did not send at once.
	commitTimeout = 50 * time.Millisecond
)

// Kinds of streams between members.
const (
	kindForward = peer.FirstKind     // commands on their way to the leader
	kindReport  = peer.FirstKind + 1 // the Observer's reports to the leader
	kindDigest  = peer.FirstKind + 2 // digests of the machine, for the leader to compare
	kindRepair  = peer.FirstKind + 3 // a snapshot for a member whose machine is wrong
	// kindTransfer: the leadership is to go to somebody
	kindTransfer = peer.FirstKind + 4
	kindLevel    = peer.FirstKind + 5 // the feature level is to be raised, see level.go
	kindPlace    = peer.FirstKind + 6 // where is a member, by the lines of another one? See place.go
)

// A Member is another server, or this one, as the configuration names it.
type Member struct {
	Number  int    // myid
	Address string // host:port of the peer port, resolved at every dial
	// More are further addresses of it, which are dialed in turn.
	More     []string
	Observer bool // has no vote
}

// A Cluster is what a Node needs to be one of several.
type Cluster struct {
	Members []Member // this one, too
	Listen  string   // address of the peer port
	// AlsoListen are further ones.
	AlsoListen []string
	Network    peer.Network
	TLS        *tls.Config // of the peer port; nil: none
	// Roots are the authorities that are trusted at present; nil: those of TLS.
	Roots func() *x509.CertPool
	// BootstrapMajority is the operator's word that the servers that do not answer when a
	// cluster is formed have empty disks.
	BootstrapMajority bool
	// Report is called for every stream that another member opens with Node.OpenReport while
	// this one leads. The stream is closed when it returns, and with the leadership.
	Report func(*peer.Stream)
}

// A Stream carries messages between two members.
type Stream = peer.Stream

func (c *Cluster) check(self int) error {
	if len(c.Members) == 0 || c.Listen == "" {
		return errors.New("replication: Cluster needs Members and Listen")
	}
	if !slices.ContainsFunc(c.Members, func(m Member) bool { return m.Number == self }) {
		return fmt.Errorf("there is no line server.%d: this server, whose myid is %d, is not among the members", self, self)
	}
	return nil
}

// plan is what the server lines say, for comparison.
func (c *Cluster) plan() string {
	members := slices.Clone(c.Members)
	slices.SortFunc(members, func(a, b Member) int { return a.Number - b.Number })
	var text []byte
	for _, m := range members {
		text = fmt.Appendf(text, "%d %t\n", m.Number, m.Observer)
	}
	return fmt.Sprintf("%d servers, %08x", len(members), crc32.Checksum(text, castagnoli))
}

// openPeers opens the peer port.
func (n *Node) openPeers() error {
	c := n.o.Cluster
	var err error
	n.peers, err = peer.New(peer.Options{
		ID: n.stores.id.serverID(), Cluster: n.stores.id.joined(), Boot: n.o.Boot,
		Listen: c.Listen, AlsoListen: c.AlsoListen, Network: c.Network, TLS: c.TLS, Roots: c.Roots, Resolve: n.resolve,
		Leads: n.leadsIn, Voters: n.voters, CommitLimit: n.commitLimit, PeerDown: n.peerDown, Introduce: n.introduce,
		MaxInflight: pipelineRequests, MaxMessageBytes: n.o.messageBytes(), MaxEntryBytes: n.o.entryBytes(),
		BeforeAnswer: n.durability.settle, Spool: n.spool(), Logger: n.o.Logger,
	})
	if err != nil {
		return err
	}
	n.peers.Handle(kindForward, n.serveForward)
	n.peers.Handle(kindReport, n.serveReport)
	n.peers.Handle(kindDigest, n.serveDigest)
	n.peers.Handle(kindRepair, n.serveRepair)
	n.peers.Handle(kindTransfer, n.serveTransfer)
	n.peers.Handle(kindLevel, n.serveLevel)
	n.peers.Handle(kindPlace, n.servePlace)
	return nil
}

// resolve finds a member by its number: the incarnation changes, the place does not.
func (n *Node) resolve(id raft.ServerID) ([]string, error) {
	number := peer.Number(id)
	agreed, _ := n.plannedAddresses(number)
	if all := placesOf(n.lineOf(number), agreed); len(all) > 0 {
		return all, nil
	}
	return nil, fmt.Errorf("server %d is no member, and there is no line server.%d", number, number)
}

// leadsIn says whether this server leads in a term.
func (n *Node) leadsIn(term uint64) bool {
	return !n.up.Load() || n.raft().State() == raft.Leader && n.raft().CurrentTerm() == term
}

// voters of raft's latest configuration.
func (n *Node) voters() []raft.ServerID {
	if !n.up.Load() {
		return nil
	}
	var ids []raft.ServerID
	for _, s := range n.raft().GetConfiguration().Configuration().Servers {
		if s.Suffrage == raft.Voter {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// introduce is what this server says to who asks for its number.
func (n *Node) introduce() peer.Introduction {
	in := peer.Introduction{Plan: n.o.Cluster.plan(), SilenceMs: uint32(min(n.silence().Milliseconds(), math.MaxUint32))}
	if n.up.Load() {
		for _, s := range n.raft().GetConfiguration().Configuration().Servers {
			in.Members = append(in.Members, s.ID)
		}
	}
	return in
}

// A leadership is who leads, as raft here sees it.
type leadership struct {
	leader  raft.ServerID // "" if nobody does
	changed chan struct{} // closed when it is out of date
}

func (n *Node) leadership() leadership {
	n.leaderMu.Lock()
	defer n.leaderMu.Unlock()
	return n.leaderNow
}

// watchLeader keeps leadership up to date. It ends with stop.
func (n *Node) watchLeader(stop <-chan struct{}) {
	for {
		e := n.engine.Load()
		n.watchEngine(e, stop)
		select {
		case <-e.replaced:
		case <-stop:
			return
		case <-n.dead:
			return
		}
	}
}

// watchEngine is watchLeader for one life of raft.
func (n *Node) watchEngine(e *engine, stop <-chan struct{}) {
	seen := make(chan raft.Observation, 64)
	o := raft.NewObserver(seen, false, func(o *raft.Observation) bool {
		_, is := o.Data.(raft.LeaderObservation)
		return is
	})
	e.RegisterObserver(o)
	defer e.DeregisterObserver(o)
	for {
		_, id := e.LeaderWithID()
		n.leaderMu.Lock()
		changed := id != n.leaderNow.leader
		if changed {
			close(n.leaderNow.changed)
			n.leaderNow = leadership{id, make(chan struct{})}
		}
		n.leaderMu.Unlock()
		if changed {
			n.tellLeader(id, e.CurrentTerm())
		}
		if changed && id != "" {
			n.queue.knowsLeader()
		}
		select {
		case <-seen:
		case <-e.replaced:
			return
		case <-stop:
			return
		case <-n.dead:
			return
		}
	}
}

// tellLeader logs who leads from now on. A term is what the logs of several servers are compared by.
func (n *Node) tellLeader(id raft.ServerID, term uint64) {
	switch id {
	case "":
		n.o.Logger.Info("no server leads", "term", term)
	case n.stores.id.serverID():
		n.o.Logger.Info("this server leads", "term", term)
	default:
		n.o.Logger.Info("another server leads", "leader", id, "term", term)
	}
}

// waitApplied returns when the machine has seen an entry.
func (n *Node) waitApplied(ctx context.Context, index uint64) error {
	for {
		n.progressMu.Lock()
		if n.applied.Load() >= index {
			n.progressMu.Unlock()
			return nil
		}
		if n.progress == nil {
			n.progress = make(chan struct{})
			n.awaited.Store(true)
		}
		progress := n.progress
		n.progressMu.Unlock()
		if n.applied.Load() >= index {
			return nil // it was stored before awaited was seen
		}
		select {
		case <-progress:
		case <-n.dead:
			return n.deadError()
		case <-ctx.Done():
			return contextError(ctx, "the log to be applied")
		}
	}
}

// progressed wakes those who wait for an entry to be applied.
func (n *Node) progressed() {
	if !n.awaited.Load() {
		return
	}
	n.progressMu.Lock()
	defer n.progressMu.Unlock()
	n.awaited.Store(false)
	if n.progress != nil {
		close(n.progress)
		n.progress = nil
	}
}

// tellCommit has the followers learn of a commit at once, if this server leads.
func (n *Node) tellCommit(entry *raft.Log) {
	if n.peers != nil && n.up.Load() && n.raft().State() == raft.Leader {
		n.peers.Advance(entry.Term, entry.Index)
	}
}

// commitLimit is the highest index that followers may be told to be committed.
func (n *Node) commitLimit() uint64 { return n.durability.limit() }
