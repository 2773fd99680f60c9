package peer

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"github.com/hashicorp/raft"
)

// A snapshot has a connection of its own:
//
//	install, chunk, chunk, … end   →
//	                               ←   working, every second; then reply or failure
//
// Heartbeats have theirs, so a snapshot does not keep them from arriving. It does not keep
// raft from answering them either, if the receiver has a Spool: raft's main loop installs a
// snapshot, and answers nothing meanwhile, so it gets the snapshot when it is complete.
//
// A member takes one snapshot at a time from each other one. That is more than economy: raft
// installs what it is given even if it is older than what it has, so of two from one leader
// the older must never come second. While the first is in raft's hands the next is refused,
// and leaders of other terms raft tells apart itself.

// errTooLarge and others are what the receiver answers with.
var (
	errTooLarge = errors.New("the snapshot is beyond the limit of this member")
	errBusy     = errors.New("this member is receiving other snapshots")
	errShort    = errors.New("the snapshot has not the size that was announced")
)

// InstallSnapshot implements raft.Transport.
func (t *Transport) InstallSnapshot(id raft.ServerID, _ raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	if err := t.checkHeader(&args.RPCHeader); err != nil {
		return err
	}
	if args.Size < 0 || len(args.Configuration) > maxConfigurationBytes || args.SnapshotVersion != raft.SnapshotVersionMax {
		return fmt.Errorf("a snapshot of %d bytes, version %d, with a configuration of %d bytes cannot be sent",
			args.Size, args.SnapshotVersion, len(args.Configuration))
	}
	p, err := t.peer(id)
	if err != nil {
		return err
	}
	c, err := t.dial(t.ctx, id, KindSnapshot)
	if err != nil {
		p.await(args.Term)
		c, err = t.dial(t.ctx, id, KindSnapshot)
	}
	if err != nil {
		return err
	}
	defer t.drop(c)
	limitSilence(c.raw, t.o.StallTimeout)
	u := &upload{t: t, c: c, answered: make(chan struct{})}
	if !t.spawn(u.listen) {
		c.end(ErrClosed, true)
		return ErrClosed
	}
	err = u.run(args, data)
	c.end(errBye, true)
	<-u.answered
	if c.broken() {
		p.lost(c.boot, c.err())
	}
	if err != nil {
		return err
	}
	p.heard()
	*resp = raft.InstallSnapshotResponse{
		RPCHeader: header(u.reply.version, p.bytes), Term: u.reply.term, Success: u.reply.success,
	}
	return nil
}

// An upload is a snapshot on its way to another member.
type upload struct {
	t *Transport
	c *conn

	// Set by listen before answered is closed.
	answered chan struct{}
	reply    reply
	err      error
}

func (u *upload) run(args *raft.InstallSnapshotRequest, data io.Reader) error {
	err := u.c.send(frameInstall, u.t.o.StallTimeout, func(b []byte) []byte { return appendInstall(b, args) })
	if err == nil {
		err = u.sendBody(data, args.Size)
	}
	if err != nil {
		select {
		case <-u.answered: // it says more than that the connection is gone
			return errors.Join(u.err, err)
		default:
			return err
		}
	}
	timer := time.NewTimer(u.t.o.InstallTimeout)
	defer timer.Stop()
	select {
	case <-u.answered:
		return u.err
	case <-timer.C:
		return fmt.Errorf("snapshot for member %s: %w", u.c.peer, errNoAnswer)
	}
}

// sendBody sends exactly size bytes of data, and then their checksum.
func (u *upload) sendBody(data io.Reader, size int64) error {
	chunk := make([]byte, min(size, chunkBytes))
	end := snapshotEnd{size: uint64(size)}
	for left := size; left > 0; {
		n, err := io.ReadFull(data, chunk[:min(left, int64(len(chunk)))])
		if err != nil {
			return fmt.Errorf("cannot read the snapshot, %d bytes before its end: %w", left, err)
		}
		select {
		case <-u.answered:
			return errors.Join(u.err, errShort)
		default:
		}
		part := chunk[:n]
		end.sum = crc32.Update(end.sum, castagnoli, part)
		if err := u.c.send(frameChunk, u.t.o.StallTimeout, func(b []byte) []byte { return append(b, part...) }); err != nil {
			return err
		}
		left -= int64(n)
	}
	return u.c.send(frameEnd, u.t.o.StallTimeout, func(b []byte) []byte { return appendEnd(b, end) })
}

// listen waits for the answer. The other side gives a sign of life every workingInterval.
func (u *upload) listen() {
	defer close(u.answered)
	var buf [8 + 2 + maxFailureBytes]byte
	for {
		err := u.c.nc.SetReadDeadline(time.Now().Add(u.t.o.StallTimeout))
		var f frameType
		var body []byte
		if err == nil {
			f, body, err = u.c.in.next(acceptSnapshotAnswer, buf[:])
		}
		switch {
		case err != nil:
		case f == frameWorking:
			continue
		case f == frameReply:
			_, u.reply, err = decodeReply(body)
			if err == nil {
				return
			}
		default:
			var text string
			if _, text, err = decodeFailure(body); err == nil {
				u.err = fmt.Errorf("member %s did not take the snapshot: %s", u.c.peer, text)
				return
			}
		}
		u.c.end(fmt.Errorf("lost member %s while sending a snapshot: %w", u.c.peer, err), false)
		u.err = u.c.err()
		return
	}
}

// serveSnapshot takes one snapshot.
func (t *Transport) serveSnapshot(c *conn, p *peer) error {
	if err := c.nc.SetReadDeadline(time.Now().Add(t.o.StallTimeout)); err != nil {
		return err
	}
	_, body, err := c.in.next(acceptSnapshotHeader, nil)
	if err != nil {
		return err
	}
	request, err := decodeInstall(body, []byte(c.peer))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(t.ctx)
	working := make(chan struct{})
	if !t.spawn(func() { defer close(working); t.sayWorking(ctx, c) }) {
		cancel()
		return ErrClosed
	}
	answer := t.install(c, request)
	cancel()
	<-working
	p.leave(c) // raft is done with it: the sender, once it knows, may send the next
	err = t.sendAnswer(c, 0, answer)
	if err == nil && answer.Error != nil {
		t.drain(c)
	}
	c.end(errBye, err == nil)
	return err
}

// sayWorking keeps the sender patient.
func (t *Transport) sayWorking(ctx context.Context, c *conn) {
	tick := time.NewTicker(min(workingInterval, t.o.StallTimeout/3))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if c.send(frameWorking, t.o.StallTimeout, nil) != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// drain lets a failure arrive: closing with bytes unread would have the kernel reset the
// connection, and the answer be lost with it.
func (t *Transport) drain(c *conn) {
	if c.nc.SetReadDeadline(time.Now().Add(t.o.HandshakeTimeout)) == nil {
		_, _ = io.Copy(io.Discard, c.nc)
	}
}

// install receives the body, into a Spool if there is one, and has raft install it.
func (t *Transport) install(c *conn, request *raft.InstallSnapshotRequest) raft.RPCResponse {
	if limit := t.o.MaxSnapshotBytes; limit > 0 && request.Size > limit {
		return raft.RPCResponse{Error: fmt.Errorf("%w: %d bytes, it takes %d", errTooLarge, request.Size, limit)}
	}
	select {
	case t.spooling <- struct{}{}:
		defer func() { <-t.spooling }()
	default:
		return raft.RPCResponse{Error: errBusy}
	}
	d := &download{t: t, c: c, size: request.Size, buf: make([]byte, 0, min(request.Size, chunkBytes))}
	if t.o.Spool == nil {
		return t.handSnapshot(c, request, d)
	}
	spool, err := t.o.Spool(request.Size)
	if err != nil {
		return raft.RPCResponse{Error: fmt.Errorf("no place for the snapshot: %w", err)}
	}
	defer spool.Close()
	if _, err := io.Copy(spool, d); err != nil {
		return raft.RPCResponse{Error: fmt.Errorf("cannot receive the snapshot: %w", err)}
	}
	r, err := spool.Reader()
	if err != nil {
		return raft.RPCResponse{Error: fmt.Errorf("cannot read the snapshot back: %w", err)}
	}
	return t.handSnapshot(c, request, r)
}

// handSnapshot gives a snapshot to raft and waits for its answer: once raft has it, until
// the end, even if the sender is gone, for raft reads from what would be closed.
func (t *Transport) handSnapshot(c *conn, request *raft.InstallSnapshotRequest, body io.Reader) raft.RPCResponse {
	answer := make(chan raft.RPCResponse, 1)
	select {
	case t.rpcs <- raft.RPC{Command: request, Reader: body, RespChan: answer}:
	case <-c.done:
		return raft.RPCResponse{Error: c.err()}
	case <-t.ctx.Done():
		return raft.RPCResponse{Error: ErrClosed}
	}
	select {
	case a := <-answer:
		return a
	case <-t.ctx.Done():
		return raft.RPCResponse{Error: ErrClosed}
	}
}

// A download reads the body of a snapshot. It gives io.EOF only after exactly the bytes that
// were announced, with the right checksum; after an error it gives nothing else.
type download struct {
	t    *Transport
	c    *conn
	size int64
	got  int64
	sum  uint32
	rest []byte // of the last chunk, in buf
	buf  []byte
	err  error
}

// Read implements io.Reader.
func (d *download) Read(b []byte) (int, error) {
	for len(d.rest) == 0 {
		if d.err == nil {
			d.err = d.next()
		}
		if d.err != nil {
			return 0, d.err
		}
	}
	n := copy(b, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

func (d *download) next() error {
	if err := d.c.nc.SetReadDeadline(time.Now().Add(d.t.o.StallTimeout)); err != nil {
		return err
	}
	f, body, err := d.c.in.next(acceptSnapshotBody, d.buf)
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // raft would take it for the end
		}
		d.c.end(err, false)
		return err
	}
	if f == frameChunk {
		d.got += int64(len(body))
		if d.got > d.size {
			return errShort
		}
		d.sum = crc32.Update(d.sum, castagnoli, body)
		d.rest = body
		return nil
	}
	end, err := decodeEnd(body)
	switch {
	case err != nil:
		return err
	case d.got != d.size || end.size != uint64(d.size):
		return errShort
	case end.sum != d.sum:
		return errChecksum
	}
	return io.EOF
}
