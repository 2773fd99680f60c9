package state

import (
	"errors"
	"fmt"
	"io"

	"github.com/zkd-project/zkd/server/snapshot"
	"github.com/zkd-project/zkd/server/znode"
)

// What is done to the machine of a backup, which nobody applies a log to.

// Why a backup is not restored. Nothing has changed then.
var (
	// ErrBadBackup is returned for a backup that is damaged, or has no use at that place.
	ErrBadBackup = errors.New("the backup cannot be restored")
	// ErrRestoring is returned while another restore is under way.
	ErrRestoring = errors.New("another restore is under way")
	// ErrRestoreLost is returned when the cluster has dropped the restore, because it made no
	// progress for too long.
	ErrRestoreLost = errors.New("the restore was dropped, nothing was changed: try again")
)

// SetScope makes the snapshot a backup of the subtree at path alone. It is called before Write.
func (s *Snapshot) SetScope(path string) { s.scope = path }

// Subtree is a machine that has of m nothing but the node at path, what is below it, and the
// nodes above it; ephemeral nodes stay behind, as there are no sessions. Its zxid and time are those of
// m.
func (m *Machine) Subtree(path string) (*Machine, error) {
	if m.tree.Lookup(path) == nil {
		return nil, fmt.Errorf("there is no node %q", path)
	}
	sub := New()
	take := func(path string, n *znode.Node) error {
		p := n.Persisted()
		if p.Owner.Kind() == znode.Ephemeral {
			return nil
		}
		_, err := sub.ImportNode(path, n.Data(), m.acls.List(n.ACL()), p)
		if made := sub.tree.Lookup(path); made != nil {
			sub.tree.Raise(made, n.Created(), 0)
		}
		return err
	}
	for i := 0; i < len(path); i++ { // the nodes above it, the root first
		above := path[:i]
		switch {
		case path[i] != '/':
			continue
		case i == 0:
			above = "/"
		}
		if err := take(above, m.tree.Lookup(above)); err != nil {
			return nil, err
		}
	}
	var err error
	m.tree.WalkFrom(path, func(path string, n *znode.Node) bool {
		if path != "/" {
			err = take(path, n)
		}
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	sub.level, sub.settings, sub.term = m.level, m.settings, m.term
	sub.FinishImport(m.zxid, m.timeMs)
	return sub, nil
}

// BeginAnew makes the machine the beginning of a new cluster, whose members it does not know and
// whose zxids begin at zxid. Sessions end, and with them their ephemeral nodes, unless they are
// to be kept.
func (m *Machine) BeginAnew(zxid int64, keepSessions bool) {
	m.zxid = max(m.zxid, zxid)
	m.term, m.restores = 0, nil
	if m.members != nil {
		m.members = nil
		n := m.tree.Lookup(znode.ConfigPath)
		m.tree.Put(n, []byte{}, n.ACL(), znode.Persisted{Aversion: n.Aversion()})
	}
	if keepSessions {
		return
	}
	var ids []int64
	for s := range m.Sessions() {
		ids = append(ids, s.ID)
	}
	for _, id := range ids {
		for _, path := range m.tree.Ephemerals(id, "") {
			n := m.tree.Lookup(path)
			ref := n.ACL()
			m.tree.Delete(n, m.zxid)
			m.acls.Release(ref)
		}
		m.sessions.Remove(id)
	}
}

// Restorable calls f for the nodes at and below from as a restore to into takes them, until it
// returns false: without ephemeral nodes, and without what belongs to a cluster and not to its
// data. The node is valid during the call.
func (m *Machine) Restorable(from, into string, f func(n *RestoredNode) bool) {
	m.tree.WalkFrom(from, func(path string, n *znode.Node) bool {
		skip := znode.ConfigPath
		if into != "/" {
			skip = znode.ZooKeeperPath
		}
		if n.Kind() == znode.Ephemeral || within(path, skip) {
			return true
		}
		p := n.Persisted()
		return f(&RestoredNode{
			Path: moved(path, from, into), Data: n.Data(), ACL: m.acls.List(n.ACL()), Version: p.Version, Aversion: p.Aversion,
			Created: n.Created(), Owner: p.Owner, CtimeMs: p.CtimeMs, MtimeMs: p.MtimeMs,
		})
	})
}

// moved is the place of a path when from is moved to into.
func moved(path, from, into string) string {
	switch {
	case from == into:
		return path
	case path == from:
		return into
	case from == "/":
		return into + path
	}
	return into + path[len(from):]
}

// CanRestore says why what is at from in a backup cannot be restored to into, nil if it can.
func (m *Machine) CanRestore(from, into string) error {
	n := m.tree.Lookup(from)
	switch {
	case n == nil:
		return fmt.Errorf("the backup has no node %q", from)
	case n.Kind() == znode.Ephemeral:
		return fmt.Errorf("%q is an ephemeral node in the backup: those are not restored", from)
	case into == "/" && from != "/":
		return fmt.Errorf("only the whole tree can take the place of the whole tree: name another place than / for %q", from)
	case from != "/" && within(from, znode.ZooKeeperPath):
		return fmt.Errorf("%q is restored with the whole tree alone", from)
	case !restorable(into):
		return fmt.Errorf("%q is no place for a restore: a path outside of /zookeeper is meant, such as /app", into)
	}
	return nil
}

// A Head is what stands at the beginning of a snapshot.
type Head struct {
	Zxid   int64
	TimeMs int64 // the leader's time in the last batch
	Level  uint32
	Digest uint64
}

// ReadHead reads the beginning of a snapshot, and verifies no more than that.
func ReadHead(r io.Reader) (Head, error) { return readHead(snapshot.NewReader(r)) }

func readHead(in *snapshot.Reader) (Head, error) {
	id, version, content, err := in.Next()
	if err != nil {
		return Head{}, err
	}
	if id != sectionMeta || version > highestVersion(id) {
		return Head{}, &UnsupportedError{"version of a snapshot section", uint64(version), uint64(highestVersion(sectionMeta))}
	}
	p := restorer{m: &Machine{}}
	if err := p.meta(version, content); err != nil {
		return Head{}, err
	}
	return Head{p.m.zxid, p.m.timeMs, p.m.level, p.digest}, nil
}

// VerifySums verifies every checksum of a snapshot, without memory for a machine: so not its
// digest.
func VerifySums(r io.Reader) (Head, error) {
	in := snapshot.NewReader(r)
	h, err := readHead(in)
	for err == nil {
		_, _, _, err = in.Next()
	}
	if errors.Is(err, io.EOF) {
		return h, nil
	}
	return Head{}, err
}
