package server

import (
	"sync"

	"github.com/zkd-project/zkd/server/fourletter"
	"github.com/zkd-project/zkd/server/state"
)

const (
	digestEvery = 128  // transactions between two digests that are kept, as in ZooKeeper
	digestsKept = 1024 // newest digests
)

// digestLog remembers the digest of the tree at every 128th transaction, for the
// four-letter word hash: two servers that show the same zxid must show the same digest.
type digestLog struct {
	mu   sync.Mutex
	ring []fourletter.Digest // guarded by mu
	next int                 // guarded by mu: where the next goes once the ring is full
}

// note is called by the apply loop after each transaction.
func (d *digestLog) note(m *state.Machine) {
	zxid := m.Zxid()
	if zxid%digestEvery != 0 {
		return
	}
	e := fourletter.Digest{Zxid: zxid, Digest: m.Tree().ZKDigest()}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.ring) < digestsKept {
		d.ring = append(d.ring, e)
		return
	}
	d.ring[d.next] = e
	d.next = (d.next + 1) % digestsKept
}

// list returns what is remembered, oldest first.
func (d *digestLog) list() []fourletter.Digest {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append(append([]fourletter.Digest(nil), d.ring[d.next:]...), d.ring[:d.next]...)
}
