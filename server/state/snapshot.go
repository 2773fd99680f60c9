package state

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/snapshot"
	"github.com/zkd-project/zkd/server/znode"
)

// A machine in a snapshot container is at least four sections, in this order: each can be read
// when those before it have been.
//
//	1 meta      varint zxid | uvarint term | varint time, ms | uvarint feature level |
//	            settings as in a batch | uvarint version of the digest | digest (8 bytes) |
//	            in version 2 of the section: second byte of switches
//	2 lists     acl.Table
//	3 sessions  session.Table
//	4 tree      znode.Tree
//	5 members   if there is an ensemble; see appendMembership
//	6 restores  if something was restored, or is being; see restores.write
//	7 scope     only in a backup of a subtree: its path. A server does not begin with such a one
const (
	sectionMeta uint32 = 1 + iota
	sectionLists
	sectionSessions
	sectionTree
	sectionMembers
	sectionRestores
	sectionScope
	lastSection    = sectionScope
	lastObligatory = sectionTree

	// sectionVersion is the version of all sections but some of meta. What is in them has
	// versions of its own.
	sectionVersion = 1
	// metaVersionMore is the version of a meta section with a second byte of switches. It is
	// used only where one of them is on.
	metaVersionMore = 2
)

// digestVersion is the version of the calculation of Machine.Digest and of what goes into
// it. Restore compares digests only if it is that of the writer.
const digestVersion = 1

// maxMetaBytes bounds the meta section; LetAnySASLUserDo is all in it that can be long.
const maxMetaBytes = 1 << 20

// maxScopeBytes bounds a path.
const maxScopeBytes = 1 << 20

// A Snapshot is a Machine as it was at one moment, while the machine goes on.
type Snapshot struct {
	zxid        int64
	meta        []byte
	metaVersion uint32
	lists       *acl.Snapshot
	sessions    *session.Snapshot
	tree        *znode.Snapshot
	members     []byte    // nil if there is no ensemble
	restores    *restores // nil if nothing was ever restored
	scope       string    // "": all of the tree
}

// Snapshot fixes the machine as it is now, to be written by Write; it must be closed. It
// takes microseconds, whatever the size of the tree. The caller holds the writers' side of
// the lock. Only one can run at a time: the next one is void, and its Write fails with
// znode.ErrSnapshotBusy or acl.ErrSnapshotBusy.
func (m *Machine) Snapshot() *Snapshot {
	s := &Snapshot{
		zxid:  m.zxid,
		lists: m.acls.Snapshot(), sessions: m.sessions.Snapshot(), tree: m.tree.Snapshot(),
	}
	s.meta, s.metaVersion = m.appendMeta(nil)
	if m.members != nil {
		s.members = m.members.encoded
	}
	s.restores = m.restores.fixed()
	return s
}

// Zxid is that of the machine at the moment of the snapshot.
func (s *Snapshot) Zxid() int64 { return s.zxid }

// Nodes is the number of nodes in the snapshot: for progress.
func (s *Snapshot) Nodes() int { return s.tree.Len() }

// Close ends the snapshot, also before or while it is written. It needs no lock and may be
// called more than once.
func (s *Snapshot) Close() {
	s.lists.Close()
	s.tree.Close()
}

// Write writes the snapshot to w as a container. It takes l, the readers' side of the lock,
// for short moments only, and never while w is written to. It can be called once.
func (s *Snapshot) Write(l sync.Locker, w io.Writer) error {
	type part struct {
		id, version uint32
		write       func(io.Writer) error
	}
	plain := func(b []byte) func(io.Writer) error {
		return func(w io.Writer) error { _, err := w.Write(b); return err }
	}
	parts := []part{
		{sectionMeta, s.metaVersion, plain(s.meta)},
		{sectionLists, sectionVersion, func(w io.Writer) error { return s.lists.Write(l, w) }},
		{sectionSessions, sectionVersion, s.sessions.Write},
		{sectionTree, sectionVersion, func(w io.Writer) error { return s.tree.Write(l, w) }},
	}
	if s.members != nil {
		parts = append(parts, part{sectionMembers, sectionVersion, plain(s.members)})
	}
	if s.restores != nil {
		parts = append(parts, part{sectionRestores, sectionVersion, s.restores.write})
	}
	if s.scope != "" {
		parts = append(parts, part{sectionScope, sectionVersion, plain([]byte(s.scope))})
	}
	out := snapshot.NewWriter(w)
	for _, p := range parts {
		if err := p.write(out.Section(p.id, p.version)); err != nil {
			return err
		}
	}
	return out.Close()
}

func (m *Machine) appendMeta(b []byte) (meta []byte, version uint32) {
	b = binary.AppendVarint(b, m.zxid)
	b = binary.AppendUvarint(b, m.term)
	b = binary.AppendVarint(b, m.timeMs)
	b = binary.AppendUvarint(b, uint64(m.level))
	b = appendSettings(b, &m.settings)
	b = binary.AppendUvarint(b, digestVersion)
	b = binary.BigEndian.AppendUint64(b, m.Digest())
	if more := m.settings.more(); more != 0 {
		return append(b, more), metaVersionMore
	}
	return b, sectionVersion
}

// Restore reads what Write wrote. A snapshot of a newer version is an *UnsupportedError,
// or wraps snapshot.ErrFormat; a damaged one never becomes a machine.
func Restore(r io.Reader) (*Machine, error) {
	m, scope, err := RestoreBackup(r)
	if err == nil && scope != "" {
		return nil, fmt.Errorf("it is a backup of %q alone: restore it into a running cluster", scope)
	}
	return m, err
}

// RestoreBackup is Restore that takes a backup of a subtree, too, and returns its path; "" for
// a whole one. The machine of a subtree has nothing but that and what is above it.
func RestoreBackup(r io.Reader) (m *Machine, scope string, err error) {
	p := restorer{m: &Machine{}}
	if m, err = p.read(snapshot.NewReader(r)); err != nil {
		return nil, "", err
	}
	return m, p.scope, nil
}

func (p *restorer) read(in *snapshot.Reader) (*Machine, error) {
	for want := sectionMeta; ; want++ {
		id, version, content, err := in.Next()
		switch {
		case errors.Is(err, io.EOF) && want > lastObligatory:
			return p.finish()
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("the snapshot ends before section %d: use another one", want)
		case err != nil:
			return nil, err
		case want > lastObligatory && id > lastSection:
			return nil, &UnsupportedError{"snapshot section", uint64(id), uint64(lastSection)}
		case id < want || id > want && want <= lastObligatory:
			return nil, fmt.Errorf("the snapshot has section %d in the place of section %d: use another one", id, want)
		case version > highestVersion(id):
			return nil, &UnsupportedError{"version of a snapshot section", uint64(version), uint64(highestVersion(id))}
		}
		if err := p.section(id, version, content); err != nil {
			return nil, err
		}
		want = id
	}
}

// SnapshotZxid reads the zxid of a snapshot, which stands at its beginning: the rest need not
// be there.
func SnapshotZxid(r io.Reader) (int64, error) {
	id, _, content, err := snapshot.NewReader(r).Next()
	if err != nil {
		return 0, err
	}
	if id != sectionMeta {
		return 0, fmt.Errorf("the snapshot has section %d in the place of section %d: use another one", id, sectionMeta)
	}
	return binary.ReadVarint(bufio.NewReaderSize(content, 16))
}

func highestVersion(section uint32) uint32 {
	if section == sectionMeta {
		return metaVersionMore
	}
	return sectionVersion
}

// finish is the last check, when all sections have been read.
func (p *restorer) finish() (*Machine, error) {
	if got := p.m.Digest(); p.digestVersion == digestVersion && got != p.digest {
		return nil, fmt.Errorf("the digest of the snapshot is %016x and should be %016x: use another one", got, p.digest)
	}
	return p.m, nil
}

// A restorer fills a machine section by section.
type restorer struct {
	m             *Machine
	digestVersion uint64
	digest        uint64
	scope         string
}

func (p *restorer) section(id, version uint32, content io.Reader) (err error) {
	m := p.m
	switch id {
	case sectionMeta:
		return p.meta(version, content)
	case sectionLists:
		m.acls, err = acl.Restore(content)
	case sectionSessions:
		m.sessions, err = session.Restore(content)
	case sectionTree:
		m.tree, err = znode.Restore(content, m.acls.Digest)
	case sectionMembers:
		var b []byte
		if b, err = readShort(content, "ensemble", maxMembershipBytes); err != nil {
			return err
		}
		if err = m.restoreMembers(b); err != nil {
			return fmt.Errorf("the ensemble in the snapshot: %w", err)
		}
	case sectionRestores:
		if m.restores, err = readRestores(content); err != nil {
			return fmt.Errorf("the restore in the snapshot: %w", err)
		}
	case sectionScope:
		var b []byte
		if b, err = readShort(content, "scope", maxScopeBytes); err != nil {
			return err
		}
		if p.scope = string(b); znode.CheckPath(p.scope) != nil || p.m.tree.Lookup(p.scope) == nil {
			return fmt.Errorf("the snapshot is one of %q, which is not in it: use another one", p.scope)
		}
	}
	return err
}

// readShort reads a section that is at most limit bytes long.
func readShort(content io.Reader, name string, limit int) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(content, int64(limit)+1))
	if err == nil && len(b) > limit {
		err = fmt.Errorf("the %s of the snapshot is longer than %d bytes: use another one", name, limit)
	}
	return b, err
}

func (p *restorer) meta(version uint32, content io.Reader) error {
	b, err := readShort(content, "head", maxMetaBytes)
	if err != nil {
		return err
	}
	m, in := p.m, input{b: b}
	m.zxid = in.varint()
	m.term = in.uvarint()
	m.timeMs = in.varint()
	m.level = in.uint32()
	if in.err == nil && m.level > CurrentLevel {
		return &UnsupportedError{"feature level", uint64(m.level), uint64(CurrentLevel)}
	}
	in.settings(&m.settings)
	p.digestVersion = in.uvarint()
	p.digest = in.fixed64()
	if version == metaVersionMore {
		in.moreSettings(&m.settings)
	}
	if in.pos != len(b) {
		in.fail("%d bytes follow the end", len(b)-in.pos)
	}
	if in.err != nil {
		return fmt.Errorf("the head of the snapshot: %w", in.err)
	}
	return nil
}
