package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"math"

	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/znode"
	"github.com/zkd-project/zkd/wire"
)

// A Machine is the state after applying a prefix of the log.
//
// Invariants; Check verifies all but M3:
//
//	M1  tree and acls hold their own invariants, and the count of a list is the number of
//	    nodes that have it;
//	M2  the owner of an ephemeral node is a session;
//	M3  zxid, timeMs, term and level never fall;
//	M4  outside of Apply no multi is open;
//	M5  configurations hold their own invariants; a target differs from the configuration,
//	    and is younger; what it has reached differs from the configuration only by steps;
//	M6  the nodes of a restore under way are in order: committing them cannot fail halfway.
//
// Owner: the apply loop. Readers may look between two batches.
type Machine struct {
	tree     *znode.Tree
	acls     *acl.Table
	sessions *session.Table
	members  *membership // nil if there is no ensemble
	restores *restores   // nil if nothing was ever restored

	zxid     int64  // of the last transaction
	term     uint64 // raft term of the last batch
	timeMs   int64  // the leader's time in the last batch
	level    uint32
	settings Settings // of the last batch; reads use them

	// A multi that is open, see multi.go.
	inMulti  bool
	interned []acl.Ref // given back if the multi fails
	released []acl.Ref // given back if it succeeds
}

// configACL is the list of /zookeeper/config: everyone may read, only the super user write.
var configACL = []wire.ACL{{Perms: wire.PermRead, ID: wire.ID{Scheme: acl.SchemeWorld, ID: "anyone"}}}

// New returns the machine of an empty log.
func New() *Machine {
	acls := acl.NewTable()
	return &Machine{
		tree:     znode.New(acls.Intern(configACL), acls.Digest),
		acls:     acls,
		sessions: session.New(),
		level:    firstLevel,
	}
}

// BeginBatch prepares for the commands of a batch. The first batch of a raft term starts a
// new epoch: its zxid is epoch<<32, which is no transaction's.
func (m *Machine) BeginBatch(h *BatchHeader) {
	if h.Term > m.term {
		m.term = h.Term
		m.zxid = nextEpoch(m.zxid)
	}
	m.timeMs = max(m.timeMs, h.TimeMs)
	m.settings = h.Settings
	m.dropStalledRestore()
}

func nextEpoch(zxid int64) int64 { return (zxid>>32 + 1) << 32 }

// nextZxid takes the next zxid. When the counter is used up a new epoch begins by itself,
// with no election: ZooKeeper's leader has to step down for it.
func (m *Machine) nextZxid() {
	if uint32(m.zxid) == math.MaxUint32 {
		m.zxid = nextEpoch(m.zxid)
	}
	m.zxid++
}

// Apply runs one command of the batch that BeginBatch was called for, and fills r. A
// command that breaks a rule is a Result with an Outcome and a Code. Kinds and levels that
// this version does not know never get here: BatchDecoder stops at them.
func (m *Machine) Apply(h *BatchHeader, c *Command, r *Result) {
	r.reset()
	switch c.Kind {
	case KindWrite:
		m.write(h, c, r)
	case KindCreateSession:
		m.createSession(c, r)
	case KindAttach:
		m.attach(c, r)
	case KindCloseSession:
		m.closeSession(c, r)
	case KindExpire:
		m.expire(c, r)
	case KindReap:
		m.reap(h, c, r)
	case KindSync: // its place in the log is all
	case KindLevel:
		if c.Level > CurrentLevel {
			panic(fmt.Sprintf("state: feature level %d, this version knows up to %d", c.Level, CurrentLevel))
		}
		m.level = max(m.level, c.Level)
	case KindMembers:
		m.step(c, r)
	case KindRestore:
		m.restore(c, r)
	default:
		panic(fmt.Sprintf("state: command of unknown kind %d", c.Kind))
	}
	r.Zxid = m.zxid
}

// Zxid is the zxid of the last transaction, or epoch<<32 if the epoch has none yet.
func (m *Machine) Zxid() int64 { return m.zxid }

// TimeMs is the leader's time in the last batch.
func (m *Machine) TimeMs() int64 { return m.timeMs }

// Level is the feature level.
func (m *Machine) Level() uint32 { return m.level }

// Settings are those of the last batch. They change with the next one.
func (m *Machine) Settings() *Settings { return &m.settings }

// Tree is the tree, to look at: counts, sizes, lists of ephemerals.
func (m *Machine) Tree() *znode.Tree { return m.tree }

// ACLs is the table of access control lists, to look at.
func (m *Machine) ACLs() *acl.Table { return m.acls }

// Session returns the session, nil if there is none. It is valid until the next batch.
func (m *Machine) Session(id int64) *session.Session { return m.sessions.Get(id) }

// SessionCount is the number of sessions.
func (m *Machine) SessionCount() int { return m.sessions.Len() }

// Sessions iterates over the sessions in the order of their ids.
func (m *Machine) Sessions() iter.Seq[*session.Session] {
	return func(yield func(*session.Session) bool) { m.sessions.Range(yield) }
}

// Reapable are the paths of at most limit containers and TTL nodes that are due at nowMs:
// each is to be proposed as a KindReap.
func (m *Machine) Reapable(nowMs, maxNeverUsedMs int64, limit int) []string {
	return m.tree.Reapable(nowMs, maxNeverUsedMs, limit)
}

// Digest is a 64-bit digest of everything that commands have made: equal machines have
// equal digests, and others almost surely not. It costs next to nothing: the parts keep
// theirs up to date with every change.
func (m *Machine) Digest() uint64 {
	h := fnv.New64a()
	add := func(part uint64) {
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], part)
		h.Write(b[:])
	}
	for _, part := range [...]uint64{
		m.tree.Digest(), m.acls.TableDigest(), m.sessions.Digest(),
		uint64(m.zxid), m.term, uint64(m.timeMs), uint64(m.level),
	} {
		add(part)
	}
	if m.members != nil { // without an ensemble the digest is that of versions that knew none
		add(m.members.digest)
	}
	if m.restores != nil { // likewise
		add(m.restores.digest())
	}
	return h.Sum64()
}

// Check verifies the invariants.
func (m *Machine) Check() error {
	if m.inMulti || len(m.interned)+len(m.released) > 0 {
		return errors.New("state: a multi was left open")
	}
	if err := m.tree.Check(); err != nil {
		return err
	}
	if err := m.acls.Check(); err != nil {
		return err
	}
	if m.members != nil {
		if err := m.members.check(); err != nil {
			return fmt.Errorf("state: %w", err)
		}
	}
	if m.restores != nil {
		if err := m.restores.check(); err != nil {
			return fmt.Errorf("state: %w", err)
		}
	}
	var err error
	counts := make(map[acl.Ref]int)
	m.tree.Walk(func(path string, n *znode.Node) bool {
		if n.ACL() != acl.OpenRef {
			counts[n.ACL()]++
		}
		if owner := n.Owner(); owner != 0 && m.sessions.Get(owner) == nil {
			err = fmt.Errorf("state: %s is an ephemeral of session %#x, which does not exist", path, uint64(owner))
		}
		return err == nil
	})
	for ref, n := range counts {
		if got := m.acls.Count(ref); got != n {
			err = errors.Join(err, fmt.Errorf("state: list %d is counted %d times, %d nodes have it", ref, got, n))
		}
	}
	if err == nil && len(counts) != m.acls.Len() {
		err = fmt.Errorf("state: %d lists, nodes have %d", m.acls.Len(), len(counts))
	}
	return err
}
