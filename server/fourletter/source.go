package fourletter

import (
	"iter"
	"net/netip"
	"time"

	"github.com/zkd-project/zkd/server/stats"
)

// A Source is what the words read from a server. Its methods are called by any number of
// goroutines at once, and must return at once: people ask when a server hangs, so nothing
// here may wait for other servers, a quorum or a disk.
//
// A sequence must hold no lock while it yields, for it is written to a client meanwhile:
// copy some ids, then look one thing after the other up. It need not be one moment's
// picture. What was yielded is not kept.
type Source interface {
	// Serving says whether clients are served; while a server looks for a leader most
	// words answer that they are not.
	Serving() bool
	// Status is for srvr, stat, isro and mntr.
	Status() Status
	// Config is for conf.
	Config() Config
	// DirSizes are the bytes of the snapshots and of the log, for conf and dirs.
	DirSizes() (dataBytes, logBytes int64)

	// Connections yields every open connection, the one that asks included: stat, cons,
	// dump.
	Connections() iter.Seq[Connection]
	// ResetConnections resets the numbers of every connection: crst.
	ResetConnections()

	// Sessions is the first part of dump.
	Sessions() Sessions
	// Ephemerals is the second part of dump.
	Ephemerals() Ephemerals

	// WatchSummary is for wchs, WatchesBySession for wchc, WatchesByPath for wchp. All three
	// are about data watches only, as in ZooKeeper.
	WatchSummary() WatchSummary
	WatchesBySession() iter.Seq2[int64, []string]
	WatchesByPath() iter.Seq2[string, []int64]

	// Digests yields the digests of the state that the server remembers, oldest first: hash.
	Digests() iter.Seq[Digest]

	// TraceMask and SetTraceMask are for gtmk and stmk. The mask does nothing but come back;
	// it begins as DefaultTraceMask.
	TraceMask() int64
	SetTraceMask(mask int64)
}

// DefaultTraceMask is the trace mask of a ZooKeeper that nobody has asked to trace.
const DefaultTraceMask = 306

// Status is what a server is and does at the moment.
type Status struct {
	Mode        string // standalone, leader, follower, observer or read-only
	ReadOnly    bool   // serves only read-only clients, cut off from its quorum
	PeerState   string // as "leading - broadcast"; "" on a standalone server
	MasterID    int64  // of an observer: the server it follows
	Zxid        int64  // last applied
	Nodes       int64  // in the tree
	Connections int64
	Outstanding int64 // requests without an answer
}

// Modes of Status.
const (
	ModeStandalone = "standalone"
	ModeLeader     = "leader"
	ModeFollower   = "follower"
	ModeObserver   = "observer"
	ModeReadOnly   = "read-only"
)

// Config is what conf shows of the configuration.
type Config struct {
	ClientPort          int
	SecureClientPort    int // -1 when there is none
	DataDir             string
	DataLogDir          string
	TickTimeMs          int
	MaxClientCnxns      int // per address, 0 for no limit
	MinSessionTimeoutMs int
	MaxSessionTimeoutMs int
	ClientPortBacklog   int // -1 for the system's default
	ServerID            int64
	Ensemble            *Ensemble // nil on a standalone server
}

// Ensemble is what conf shows on a member of an ensemble.
type Ensemble struct {
	InitLimit    int // ticks
	SyncLimit    int // ticks
	ElectionAlg  int // 3 in every ZooKeeper since 3.4
	ElectionPort int
	QuorumPort   int
	Observer     bool
	Membership   string // text of /zookeeper/config: server lines and version=<hex>; "" in read-only mode
}

// A Connection is an open connection of a client.
type Connection struct {
	Remote      netip.AddrPort // zero when the transport has no addresses
	SessionID   int64          // 0 before the handshake
	TimeoutMs   int32          // negotiated session timeout
	Secure      bool           // over TLS
	InterestOps int            // 1 while frames are read, 0 while not, 4 more while replies wait to be sent
	Expires     time.Time      // when it is closed if nothing comes, rounded up to a tick
	Stats       stats.ConnSnapshot
}

// Sessions is what a server knows of sessions.
type Sessions struct {
	// Learner says that another server decides on expiry: Known is shown, else Expiring.
	Learner  bool
	Expiring []SessionBucket // by time
	Known    []KnownSession  // by id
	// Local are the sessions known to this server only, nil where there are no such.
	Local []SessionBucket
}

// A SessionBucket are the sessions that expire at the same time if nothing is heard of them.
type SessionBucket struct {
	Expires time.Time
	IDs     []int64
}

// A KnownSession is a session whose expiry another server decides on.
type KnownSession struct {
	ID        int64
	TimeoutMs int32
}

// Ephemerals are the ephemeral nodes by session.
type Ephemerals struct {
	Sessions int                        // sessions that have one
	Each     iter.Seq2[int64, []string] // session id and paths
}

// WatchSummary counts data watches.
type WatchSummary struct {
	Connections int // that have one
	Paths       int // that have one
	Watches     int
}

// A Digest is the digest of the state after a transaction.
type Digest struct {
	Zxid   int64
	Digest uint64
}

// An Observer is the connection of an observer to the server that it follows; no word shows
// it, only the admin server.
type Observer struct {
	ID            int64
	Remote        netip.AddrPort
	EstablishedMs int64 // since 1970
	Queued        int64 // messages to it that wait
	QueuedBytes   int64
	Received      int64 // messages
	Sent          int64
	Requests      int64 // writes that it has forwarded
	LastZxid      int64 // that it has acknowledged, -1 before the first
}
