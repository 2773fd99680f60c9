package replication

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"syscall"
	"time"

	"github.com/hashicorp/raft"

	"github.com/zkd-project/zkd/internal/wait"
	"github.com/zkd-project/zkd/server/replication/peer"
	"github.com/zkd-project/zkd/server/state"
)

// repair gets the machine of another server, and returns when it is in its place.
func (n *Node) repair(ctx context.Context) {
	now := n.o.Now()
	n.repairs = slices.DeleteFunc(n.repairs, func(at time.Time) bool { return now.Sub(at) > repairWindow })
	if n.repairs = append(n.repairs, now); len(n.repairs) > maxRepairs {
		n.fail(fmt.Errorf("this server's data went wrong %d times within %v: its memory or its disk cannot be trusted, replace the machine",
			len(n.repairs), repairWindow))
		return
	}
	for n.InQuarantine() && ctx.Err() == nil {
		l := n.leadership()
		select {
		case <-n.restarts: // the leader has sent a snapshot of its own accord
			n.awaitInstalled(ctx)
			n.restart(ctx, "a snapshot was installed below the end of the log", nil)
			continue
		default:
		}
		switch l.leader {
		case "":
		case n.stores.id.serverID():
			n.handOver()
		default:
			if err := n.repairFrom(ctx, l); err != nil && ctx.Err() == nil {
				n.o.Logger.Warn("not repaired yet", "leader", l.leader, "reason", err)
			}
		}
		wait.Pause(ctx, repairPause)
	}
}

// How a snapshot gets to a member in quarantine:
//
//	member → leader   8 bytes: the entry that it has applied; the snapshot must not be older,
//	                  for its clients have seen that
//	leader → member   head of the snapshot file, 8 bytes length of the container, 8 bytes zxid
//	                  the container, in pieces
//	                  4 bytes CRC32C of the container
//	member → leader   an empty message: all has arrived
var errRepair = errors.New("a message about a repair that cannot be decoded")

// repairFrom fetches a snapshot of the leader and restarts raft on it.
func (n *Node) repairFrom(ctx context.Context, l leadership) error {
	ctx, cancel := whileLeads(ctx, l)
	defer cancel()
	return n.withStream(ctx, l.leader, kindRepair, n.fetchRepair)
}

// fetchRepair is repairFrom on an open stream.
func (n *Node) fetchRepair(s *peer.Stream) error {
	if err := s.Send(binary.BigEndian.AppendUint64(nil, n.sickAt.Load())); err != nil {
		return err
	}
	head, err := s.Receive()
	if err != nil {
		return err
	}
	var d snapDescription
	if err := decodeRepairHead(head, &d); err != nil {
		return err
	}
	if d.index < n.sickAt.Load() {
		return fmt.Errorf("a snapshot of entry %d, which is older than what was served here", d.index)
	}
	sink, err := n.stores.snaps.Create(raft.SnapshotVersionMax, d.index, d.term, d.config, d.configIndex, n.peers)
	if err != nil {
		if !errors.Is(err, syscall.ENOSPC) { // else there may be room later
			n.fail(err)
		}
		return err
	}
	defer sink.Cancel() // does nothing after Close
	m, err := n.receiveMachine(s, &d, sink)
	if err != nil {
		return err
	}
	_ = s.Send(nil)
	if z, ok := sink.(interface{ setZxid(int64) }); ok {
		z.setZxid(d.zxid)
	}
	// From here on the leader may change.
	whole, stop := n.until(n.halt)
	defer stop()
	n.restart(whole, "this server is repaired with a snapshot of the leader", func() error { return n.takeOver(&d, sink, m) })
	return nil
}

// receiveMachine reads the container into a machine, and into a snapshot on the way.
func (n *Node) receiveMachine(s *peer.Stream, d *snapDescription, sink io.Writer) (_ *state.Machine, err error) {
	p := n.newProgress("receiving a snapshot for the repair", d.size, "from", s.Peer(), "index", d.index)
	defer func() { p.end(err) }()
	in := &pieces{receive: s.Receive, left: d.size, p: p}
	tee := io.TeeReader(in, sink)
	m, err := state.Restore(tee)
	if err != nil {
		return nil, err
	}
	if k, err := io.Copy(io.Discard, tee); err != nil || k > 0 {
		return nil, errors.Join(errRepair, err)
	}
	return m, nil
}

// takeOver makes the received machine the one of this server. raft is down meanwhile. The
// older snapshots go: they may be of the machine that was wrong.
func (n *Node) takeOver(d *snapDescription, sink raft.SnapshotSink, m *state.Machine) error {
	if !n.InQuarantine() {
		return nil // raft has installed a snapshot in between
	}
	if err := sink.Close(); errors.Is(err, syscall.ENOSPC) {
		n.o.Logger.Warn("not repaired yet", "reason", err)
		return nil
	} else if err != nil {
		return err
	}
	if err := n.stores.snaps.purge(1); err != nil {
		return fmt.Errorf("cannot remove the snapshots of wrong data: %w", err)
	}
	n.replaceMachine(m, d.index, false)
	n.noteHealth()
	n.o.Logger.Warn("this server is repaired and serves again", "index", d.index, "zxid", fmt.Sprintf("0x%x", d.zxid), "digest", hex64(m.Digest()))
	return nil
}

// replaceMachine puts m, which is that of a log entry, in the place of the machine. With freeze
// nothing is applied from then on until raft is restarted.
func (n *Node) replaceMachine(m *state.Machine, index uint64, freeze bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.machine = m
	n.applied.Store(index)
	n.notes.forget()
	if freeze {
		n.restarting.Store(true)
	}
	if index >= n.sickAt.Load() {
		n.sickAt.Store(0)
	}
	n.progressed()
	n.o.Observer.Restored()
}

func appendRepairHead(b []byte, d *snapDescription) []byte {
	b = append(b, d.encodeHead()...)
	b = binary.BigEndian.AppendUint64(b, uint64(d.size))
	return binary.BigEndian.AppendUint64(b, uint64(d.zxid))
}

func decodeRepairHead(b []byte, d *snapDescription) error {
	if len(b) < 16 {
		return errRepair
	}
	at := len(b) - 16
	head, err := d.decodeHead(bytes.NewReader(b[:at]))
	if err != nil || len(head) != at {
		return errors.Join(errRepair, err)
	}
	d.size, d.zxid = int64(binary.BigEndian.Uint64(b[at:])), int64(binary.BigEndian.Uint64(b[at+8:]))
	if d.size <= 0 {
		return errRepair
	}
	return nil
}

// pieces reads a container from messages. It gives io.EOF only after all of it, with the right
// checksum.
type pieces struct {
	receive func() ([]byte, error)
	left    int64
	rest    []byte
	sum     uint32
	p       *progress
	err     error
}

func (r *pieces) Read(b []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.err == nil {
			r.rest, r.err = r.next()
		}
		if r.err != nil {
			return 0, r.err
		}
	}
	k := copy(b, r.rest)
	r.rest = r.rest[k:]
	return k, nil
}

func (r *pieces) next() ([]byte, error) {
	m, err := r.receive()
	switch {
	case errors.Is(err, io.EOF):
		return nil, io.ErrUnexpectedEOF // the end of the stream is not that of the container
	case err != nil:
		return nil, err
	case r.left > 0 && (len(m) == 0 || int64(len(m)) > r.left):
		return nil, errRepair
	case r.left > 0:
		r.left -= int64(len(m))
		r.sum = crc32.Update(r.sum, castagnoli, m)
		r.p.add(len(m))
		return m, nil
	case len(m) != 4:
		return nil, errRepair
	case binary.BigEndian.Uint32(m) != r.sum:
		return nil, errors.New("wrong checksum of the snapshot")
	}
	return nil, io.EOF
}

// serveRepair sends a member a snapshot, while this server leads.
func (n *Node) serveRepair(s *peer.Stream) {
	_, end, err := n.whileLeading(s)
	if err != nil {
		return
	}
	defer end()
	request, err := s.Receive()
	if err != nil || len(request) != 8 || n.InQuarantine() {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	arrived := make(chan error, 1)
	go func() { // ends with the stream
		_, err := s.Receive()
		arrived <- err
		cancel()
	}()
	if err := n.sendRepair(ctx, s, binary.BigEndian.Uint64(request)); err != nil {
		n.o.Logger.Warn("a member was not repaired, it will ask again", "member", s.Peer(), "reason", err)
		s.Close()
	} else {
		n.o.Meters.SnapshotSent()
	}
	<-arrived
}

func (n *Node) sendRepair(ctx context.Context, s *peer.Stream, applied uint64) (err error) {
	if err := n.waitApplied(ctx, applied); err != nil {
		return err
	}
	if err := n.keeper.request(ctx); err != nil {
		return err
	}
	files := n.stores.snaps.all()
	if len(files) == 0 || files[len(files)-1].index < applied {
		return errors.New("no snapshot is new enough")
	}
	_, in, err := n.stores.snaps.Open(files[len(files)-1].name)
	if err != nil {
		return err
	}
	defer in.Close()
	r, err := unwrapSnapshot(in)
	if err != nil {
		return err
	}
	p := n.newProgress("sending a snapshot for a repair", r.d.size, "to", s.Peer(), "index", r.d.index)
	defer func() { p.end(err) }()
	if err := s.Send(appendRepairHead(nil, &r.d)); err != nil {
		return err
	}
	var sum uint32
	for chunk := make([]byte, repairChunk); ; {
		k, err := io.ReadFull(r, chunk)
		if k > 0 {
			sum = crc32.Update(sum, castagnoli, chunk[:k])
			p.add(k)
			if err := s.Send(chunk[:k]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			return s.Send(binary.BigEndian.AppendUint32(nil, sum))
		case err != nil:
			return err
		}
	}
}
