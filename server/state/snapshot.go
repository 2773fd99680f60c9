package state

import (
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

// A machine in a snapshot container is four sections, in this order: each can be read when
// those before it have been.
//
//	1 meta      varint zxid | uvarint term | varint time, ms | uvarint feature level |
//	            settings as in a batch | uvarint version of the digest | digest (8 bytes)
//	2 lists     acl.Table
//	3 sessions  session.Table
//	4 tree      znode.Tree
const (
	sectionMeta uint32 = 1 + iota
	sectionLists
	sectionSessions
	sectionTree
	lastSection = sectionTree

	// sectionVersion is the version of all sections. What is in them has versions of its own.
	sectionVersion = 1
)

// digestVersion is the version of the calculation of Machine.Digest and of what goes into
// it. Restore compares digests only if it is that of the writer.
const digestVersion = 1

// maxMetaBytes bounds the meta section; LetAnySASLUserDo is all in it that can be long.
const maxMetaBytes = 1 << 20

// A Snapshot is a Machine as it was at one moment, while the machine goes on.
type Snapshot struct {
	zxid     int64
	meta     []byte
	lists    *acl.Snapshot
	sessions *session.Snapshot
	tree     *znode.Snapshot
}

// Snapshot fixes the machine as it is now, to be written by Write; it must be closed. It
// takes microseconds, whatever the size of the tree. The caller holds the writers' side of
// the lock. Only one can run at a time: the next one is void, and its Write fails with
// znode.ErrSnapshotBusy or acl.ErrSnapshotBusy.
func (m *Machine) Snapshot() *Snapshot {
	return &Snapshot{
		zxid: m.zxid, meta: m.appendMeta(nil),
		lists: m.acls.Snapshot(), sessions: m.sessions.Snapshot(), tree: m.tree.Snapshot(),
	}
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
	out := snapshot.NewWriter(w)
	for _, section := range []struct {
		id    uint32
		write func(io.Writer) error
	}{
		{sectionMeta, func(w io.Writer) error { _, err := w.Write(s.meta); return err }},
		{sectionLists, func(w io.Writer) error { return s.lists.Write(l, w) }},
		{sectionSessions, s.sessions.Write},
		{sectionTree, func(w io.Writer) error { return s.tree.Write(l, w) }},
	} {
		if err := section.write(out.Section(section.id, sectionVersion)); err != nil {
			return err
		}
	}
	return out.Close()
}

func (m *Machine) appendMeta(b []byte) []byte {
	b = binary.AppendVarint(b, m.zxid)
	b = binary.AppendUvarint(b, m.term)
	b = binary.AppendVarint(b, m.timeMs)
	b = binary.AppendUvarint(b, uint64(m.level))
	b = appendSettings(b, &m.settings)
	b = binary.AppendUvarint(b, digestVersion)
	return binary.BigEndian.AppendUint64(b, m.Digest())
}

// Restore reads what Write wrote. A snapshot of a newer version is an *UnsupportedError,
// or wraps snapshot.ErrFormat; a damaged one never becomes a machine.
func Restore(r io.Reader) (*Machine, error) {
	in := snapshot.NewReader(r)
	p := restorer{m: &Machine{}}
	for want := sectionMeta; want <= lastSection; want++ {
		id, version, content, err := in.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("the snapshot ends before section %d: use another one", want)
		case err != nil:
			return nil, err
		case id != want:
			return nil, fmt.Errorf("the snapshot has section %d in the place of section %d: use another one", id, want)
		case version > sectionVersion:
			return nil, &UnsupportedError{"version of a snapshot section", uint64(version), sectionVersion}
		}
		if err := p.section(id, content); err != nil {
			return nil, err
		}
	}
	switch id, _, _, err := in.Next(); {
	case err == nil:
		return nil, &UnsupportedError{"snapshot section", uint64(id), uint64(lastSection)}
	case !errors.Is(err, io.EOF):
		return nil, err
	}
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
}

func (p *restorer) section(id uint32, content io.Reader) (err error) {
	m := p.m
	switch id {
	case sectionMeta:
		return p.meta(content)
	case sectionLists:
		m.acls, err = acl.Restore(content)
	case sectionSessions:
		m.sessions, err = session.Restore(content)
	case sectionTree:
		m.tree, err = znode.Restore(content, m.acls.Digest)
	}
	return err
}

func (p *restorer) meta(content io.Reader) error {
	b, err := io.ReadAll(io.LimitReader(content, maxMetaBytes+1))
	if err != nil {
		return err
	}
	if len(b) > maxMetaBytes {
		return fmt.Errorf("the head of the snapshot is longer than %d bytes: use another one", maxMetaBytes)
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
	if in.pos != len(b) {
		in.fail("%d bytes follow the digest", len(b)-in.pos)
	}
	if in.err != nil {
		return fmt.Errorf("the head of the snapshot: %w", in.err)
	}
	return nil
}
