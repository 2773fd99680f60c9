package peer

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hashicorp/raft"
)

// Options say who a Transport is and whom it asks. ID, Listen and Resolve are
// required. The callbacks may be called from several goroutines, also before New returns,
// and must neither block for long nor call Close.
type Options struct {
	ID raft.ServerID // of this member, myid-incarnation; at most 128 bytes
	// Cluster is what only members of this cluster know; at most 64 bytes. Without it the
	// member belongs to none before Join.
	Cluster string
	// Boot tells this process from those before and after it with the same ID. Random if 0.
	Boot uint64

	Listen     string   // address of the peer port
	AlsoListen []string // further ones, where it has several
	Network    Network
	// Resolve returns the addresses of a member, or of Anybody with a number: at least one, and
	// they are dialed in turn. It is called at every dial, so a member may move.
	Resolve func(raft.ServerID) ([]string, error)

	// TLS makes all connections mutual TLS. It needs certificates, and RootCAs or Options.Roots;
	// ClientCAs are the same if nil. Certificates can be renewed by its callbacks, revoked ones refused by
	// its VerifyConnection. Without TLS the port takes log entries from everybody who knows
	// Cluster and the members' IDs.
	TLS *tls.Config
	// Roots returns the authorities that are trusted at present, in the place of those in TLS. It
	// is asked at every handshake and now and then, and must be quick. When it returns another
	// pool than before, connections whose certificate that does not vouch for are closed.
	Roots func() *x509.CertPool
	// VerifyMember says whether a verified certificate is that of a member; the function
	// VerifyMember by default.
	VerifyMember func(raft.ServerID, *x509.Certificate) error
	// Admit says whether a member may open a connection; nil admits all. It is where members
	// that were removed are refused. A leader must be admitted by who does not know it yet:
	// a new member learns the configuration from it.
	Admit func(from raft.ServerID, kind Kind) error

	// Voters returns the voters of raft's latest configuration, this member among them if it
	// is one. Ask needs it.
	Voters func() []raft.ServerID
	// Introduce says what a member tells who asks for its number: Members, SilenceMs and Plan
	// count, the rest is filled in. nil: nothing.
	Introduce func() Introduction
	// CommitLimit is the highest commit index that may be told to others; nil: no limit. It
	// is called for every AppendEntries. When it rises, call Advance.
	CommitLimit func() uint64
	// Leads says whether raft here leads in a term; nil: as long as it asks. Requests to members
	// that are away wait no longer than that.
	Leads func(term uint64) bool
	// BeforeAnswer is called before an answer of raft here is sent to another member: it may
	// acknowledge entries that were stored before, in another role. Where that would not be true it
	// ends its goroutine, and nothing is sent.
	BeforeAnswer func()
	// PeerDown is called when the process at the other end of a connection is gone: see Down.
	PeerDown func(Down)
	// Spool returns a place for an incoming snapshot of so many bytes. raft gets it when it is
	// complete and its checksum right, and answers heartbeats meanwhile. Without Spool raft's
	// main loop reads from the network, and answers nothing until the snapshot is installed.
	Spool func(size int64) (Spool, error)

	Logger *slog.Logger

	// Durations, with the defaults of limits.go where 0.
	Timeout          time.Duration // for an answer of another member's raft
	DialTimeout      time.Duration
	HandshakeTimeout time.Duration
	StallTimeout     time.Duration // without progress of a stream or snapshot
	IdleTimeout      time.Duration // until an unused raft or control connection is closed
	InstallTimeout   time.Duration // for raft to install a snapshot that has arrived

	MaxInflight      int   // requests of a pipeline, at least 1
	MaxEntryBytes    int   // of a log entry; a larger one cannot be replicated
	MaxMessageBytes  int   // of a message of a Stream
	MaxSnapshotBytes int64 // of a snapshot that is taken; 0: any
}

func (o *Options) setDefaults() error {
	switch {
	case o.ID == "" || len(o.ID) > maxIDBytes:
		return fmt.Errorf("peer: Options.ID must have 1 to %d bytes", maxIDBytes)
	case len(o.Cluster) > maxClusterBytes:
		return fmt.Errorf("peer: Options.Cluster can have %d bytes at most", maxClusterBytes)
	case o.Listen == "" || o.Resolve == nil:
		return errors.New("peer: Options.Listen and Options.Resolve are required")
	case o.MaxEntryBytes > maxMaxBytes || o.MaxMessageBytes > maxMaxBytes:
		return fmt.Errorf("peer: Options.MaxEntryBytes and Options.MaxMessageBytes can be %d at most", maxMaxBytes)
	}
	if o.TLS != nil {
		if err := checkTLS(o.TLS, o.Roots != nil); err != nil {
			return err
		}
	}
	for o.Boot == 0 {
		var b [8]byte
		if _, err := rand.Read(b[:]); err != nil {
			return fmt.Errorf("cannot draw a random number: %w", err)
		}
		o.Boot = binary.BigEndian.Uint64(b[:])
	}
	if o.Network == nil {
		o.Network = TCP{}
	}
	if o.VerifyMember == nil {
		o.VerifyMember = VerifyMember
	}
	if o.Admit == nil {
		o.Admit = func(raft.ServerID, Kind) error { return nil }
	}
	if o.Voters == nil {
		o.Voters = func() []raft.ServerID { return nil }
	}
	if o.Introduce == nil {
		o.Introduce = func() Introduction { return Introduction{} }
	}
	if o.Leads == nil {
		o.Leads = func(uint64) bool { return true }
	}
	if o.BeforeAnswer == nil {
		o.BeforeAnswer = func() {}
	}
	if o.PeerDown == nil {
		o.PeerDown = func(Down) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	setDefault(&o.Timeout, defaultTimeout)
	setDefault(&o.DialTimeout, defaultDialTimeout)
	setDefault(&o.HandshakeTimeout, defaultHandshakeTimeout)
	setDefault(&o.StallTimeout, defaultStallTimeout)
	setDefault(&o.IdleTimeout, defaultIdleTimeout)
	setDefault(&o.InstallTimeout, defaultInstallTimeout)
	setDefault(&o.MaxInflight, defaultMaxInflight)
	setDefault(&o.MaxEntryBytes, defaultMaxEntryBytes)
	setDefault(&o.MaxMessageBytes, defaultMaxMessageBytes)
	return nil
}

func setDefault[N int | time.Duration](v *N, d N) {
	if *v <= 0 {
		*v = d
	}
}
