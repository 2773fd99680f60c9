package replication

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"time"

	"github.com/hashicorp/raft"
	"github.com/klauspost/compress/zstd"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/replication/damage"
	"github.com/zkd-project/zkd/server/state"
)

// A snapshot file is a head, the machine compressed, and a tail.
//
//	head
//	 0  8  magic "zkdsnap\n"
//	 8  4  version, now 1
//	12  4  length of the description
//	16  n  description:
//	        0  8  raft index of the last entry that the snapshot contains
//	        8  8  its term
//	       16  8  index of the configuration
//	       24  8  time of creation, ms since 1970
//	       32     the configuration, as raft encodes it
//	 …  4  CRC32C of all before
//	body: the snapshot container of package state as one zstd stream. The container has
//	checksums of its own, block by block; the ones here tell which file is damaged before
//	anything is believed, and cover what zstd would skip.
//	tail, the last 40 bytes
//	 0  8  length of the container
//	 8  8  length of the body
//	16  8  zxid
//	24  4  CRC32C of head and body
//	28  4  CRC32C of bytes 0–27
//	32  8  magic "zkdsnap."
//
// Lengths and zxid are known at the end only, that is why they are there. A file without a
// tail has never been finished; it never gets its name either.
const (
	snapHeadMin  = 16 + 32 + 4
	snapTailSize = 40
	snapVersion  = 1
	// maxDescription is far more than the configuration of any cluster.
	maxDescription = 1 << 20
	// snapSyncBytes are written between two syncs of a growing snapshot. One sync at the end
	// would make the log's syncs wait for all of it.
	snapSyncBytes = 4 << 20
	// snapWindow bounds the memory for decompressing; the fastest level writes less.
	snapWindow = 8 << 20
)

var (
	snapMagic = [8]byte{'z', 'k', 'd', 's', 'n', 'a', 'p', '\n'}
	snapEnd   = [8]byte{'z', 'k', 'd', 's', 'n', 'a', 'p', '.'}
)

// snapDescription is what is known of a snapshot without reading the machine.
type snapDescription struct {
	index       uint64
	term        uint64
	configIndex uint64
	config      raft.Configuration
	created     time.Time
	zxid        int64
	size        int64 // of the container
	body        int64 // compressed
}

func (d *snapDescription) encodeHead() []byte {
	conf := raft.EncodeConfiguration(d.config)
	b := append([]byte(nil), snapMagic[:]...)
	b = binary.BigEndian.AppendUint32(b, snapVersion)
	b = binary.BigEndian.AppendUint32(b, uint32(32+len(conf)))
	b = binary.BigEndian.AppendUint64(b, d.index)
	b = binary.BigEndian.AppendUint64(b, d.term)
	b = binary.BigEndian.AppendUint64(b, d.configIndex)
	b = binary.BigEndian.AppendUint64(b, uint64(d.created.UnixMilli()))
	b = append(b, conf...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func (d *snapDescription) encodeTail(crc uint32) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(d.size))
	b = binary.BigEndian.AppendUint64(b, uint64(d.body))
	b = binary.BigEndian.AppendUint64(b, uint64(d.zxid))
	b = binary.BigEndian.AppendUint32(b, crc)
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	return append(b, snapEnd[:]...)
}

// decodeHead reads a head from r, which may go on behind it, and returns its bytes.
func (d *snapDescription) decodeHead(r io.Reader) ([]byte, error) {
	b := make([]byte, 16)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, err
	}
	if [8]byte(b) != snapMagic {
		return nil, errors.New("it does not begin as a snapshot of zkd")
	}
	if v := binary.BigEndian.Uint32(b[8:]); v != snapVersion {
		return nil, fmt.Errorf("snapshot format %d, this zkd knows %d", v, snapVersion)
	}
	n := int(binary.BigEndian.Uint32(b[12:]))
	if n < 32 || n > maxDescription {
		return nil, fmt.Errorf("a description of %d bytes", n)
	}
	b = append(b, make([]byte, n+4)...)
	if _, err := io.ReadFull(r, b[16:]); err != nil {
		return nil, err
	}
	if binary.BigEndian.Uint32(b[16+n:]) != crc32.Checksum(b[:16+n], castagnoli) {
		return nil, errors.New("wrong checksum of the head")
	}
	d.index = binary.BigEndian.Uint64(b[16:])
	d.term = binary.BigEndian.Uint64(b[24:])
	d.configIndex = binary.BigEndian.Uint64(b[32:])
	d.created = time.UnixMilli(int64(binary.BigEndian.Uint64(b[40:])))
	return b, d.decodeConfiguration(b[48 : 16+n])
}

// decodeConfiguration: raft's decoder panics on what is no configuration.
func (d *snapDescription) decodeConfiguration(b []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the configuration in it cannot be read: %v", p)
		}
	}()
	d.config = raft.DecodeConfiguration(b)
	return nil
}

func (d *snapDescription) decodeTail(b []byte) (crc uint32, err error) {
	if len(b) != snapTailSize || [8]byte(b[32:]) != snapEnd {
		return 0, errors.New("it does not end as a snapshot does")
	}
	if binary.BigEndian.Uint32(b[28:]) != crc32.Checksum(b[:28], castagnoli) {
		return 0, errors.New("wrong checksum of the tail")
	}
	d.size = int64(binary.BigEndian.Uint64(b))
	d.body = int64(binary.BigEndian.Uint64(b[8:]))
	d.zxid = int64(binary.BigEndian.Uint64(b[16:]))
	return binary.BigEndian.Uint32(b[24:]), nil
}

// snapWriter writes a snapshot to a file or to memory.
type snapWriter struct {
	d    snapDescription
	out  *bufio.Writer
	zstd *zstd.Encoder
	crc  uint32
	body int64 // compressed bytes so far; the head while it is not negative
}

// newSnapWriter writes the head to w.
func newSnapWriter(w io.Writer, d snapDescription) (*snapWriter, error) {
	s := &snapWriter{d: d, out: bufio.NewWriterSize(w, 256<<10)}
	if _, err := (*snapBody)(s).Write(d.encodeHead()); err != nil {
		return nil, err
	}
	s.body = 0
	enc, err := zstd.NewWriter((*snapBody)(s),
		zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	s.zstd = enc
	return s, nil
}

// snapBody is the side of a snapWriter that takes what goes into the file as it is.
type snapBody snapWriter

func (s *snapBody) Write(p []byte) (int, error) {
	s.crc = crc32.Update(s.crc, castagnoli, p)
	n, err := s.out.Write(p)
	s.body += int64(n)
	return n, err
}

func (s *snapWriter) Write(p []byte) (int, error) {
	n, err := s.zstd.Write(p)
	s.d.size += int64(n)
	return n, err
}

// finish writes the rest and the tail.
func (s *snapWriter) finish() error {
	if err := s.zstd.Close(); err != nil {
		return err
	}
	s.d.body = s.body
	if _, err := s.out.Write(s.d.encodeTail(s.crc)); err != nil {
		return err
	}
	return s.out.Flush()
}

// abandon lets go of the encoder's memory.
func (s *snapWriter) abandon() { s.zstd.Reset(nil) }

// snapReader gives the container of a snapshot. It says io.EOF only when every checksum was
// right; damage is a *DamageError.
type snapReader struct {
	d      snapDescription
	file   io.Closer
	name   string
	repair string
	in     *bufio.Reader // compressed
	zstd   *zstd.Decoder
	crc    uint32 // of what was read
	want   uint32
	left   int64 // of the container
	taken  int64 // of the body by the decompressor
	ioErr  error // of reading the file: no damage
}

// openSnapshot reads head and tail of a snapshot of the given length and gets ready to read
// the container. It closes file if it fails.
func openSnapshot(file BackupFile, size int64, name string) (_ *snapReader, err error) {
	// Two: one goroutine decompresses while the reader builds the tree.
	return openSnapshotWith(file, size, name, snapshotTuning{concurrency: 2, buffer: 256 << 10, repair: damage.Rejoin})
}

// snapshotTuning is how a snapshot is read. Without concurrency and with a small buffer the place
// of damage is known better.
type snapshotTuning struct {
	concurrency, buffer int
	repair              string
}

func openSnapshotWith(file BackupFile, size int64, name string, t snapshotTuning) (_ *snapReader, err error) {
	r := &snapReader{file: file, name: name, repair: t.repair}
	defer func() {
		if err != nil {
			file.Close()
		}
	}()
	if size < snapHeadMin+snapTailSize {
		return nil, r.damaged(0, fmt.Sprintf("%d bytes are no whole snapshot", size))
	}
	head, err := r.d.decodeHead(io.NewSectionReader(file, 0, size-snapTailSize))
	var readErr *fs.PathError
	if errors.As(err, &readErr) {
		return nil, fmt.Errorf("cannot read a snapshot: %w", err)
	}
	if err != nil {
		return nil, r.damaged(0, err.Error())
	}
	tail := make([]byte, snapTailSize)
	if _, err := file.ReadAt(tail, size-snapTailSize); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("cannot read %s: %w", name, err)
	}
	if r.want, err = r.d.decodeTail(tail); err != nil {
		return nil, r.damaged(size-snapTailSize, err.Error())
	}
	start := int64(len(head))
	if r.d.body != size-snapTailSize-start {
		return nil, r.damaged(size-snapTailSize, fmt.Sprintf("it has %d bytes, not %d as when it was written",
			size-snapTailSize-start, r.d.body))
	}
	r.crc = crc32.Checksum(head, castagnoli)
	r.left = r.d.size
	r.in = bufio.NewReaderSize(io.NewSectionReader(file, start, r.d.body), t.buffer)
	r.zstd, err = zstd.NewReader((*snapSource)(r), zstd.WithDecoderConcurrency(t.concurrency), zstd.WithDecoderMaxWindow(snapWindow))
	return r, err
}

// snapSource is the side of a snapReader that gives the compressed bytes.
type snapSource snapReader

func (s *snapSource) Read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	s.taken += int64(n)
	s.crc = crc32.Update(s.crc, castagnoli, p[:n])
	if err != nil && !errors.Is(err, io.EOF) {
		s.ioErr = err
	}
	return n, err
}

func (r *snapReader) Read(p []byte) (int, error) {
	n, err := r.zstd.Read(p)
	r.left -= int64(n)
	switch {
	case errors.Is(err, io.EOF):
		if r.left != 0 {
			return n, r.damaged(-1, "its length is not that when it was written")
		}
		// The decompressor has read everything, or it would not have seen the end.
		if r.crc != r.want {
			return n, r.damaged(-1, "wrong checksum")
		}
	case err != nil && r.ioErr == nil:
		err = r.damaged(-1, err.Error())
	}
	return n, err
}

// machine reads the machine, and on to the end, where the checksums are compared.
func (r *snapReader) machine() (*state.Machine, error) {
	m, err := state.Restore(r)
	var known *damage.Error
	var newer *state.UnsupportedError
	switch {
	case r.ioErr != nil:
		return nil, fmt.Errorf("cannot read %s: %w", r.name, r.ioErr)
	case errors.As(err, &known) || errors.As(err, &newer):
		return nil, err
	case err != nil:
		return nil, r.damaged(-1, err.Error())
	}
	if n, err := io.Copy(io.Discard, r); err != nil {
		return nil, err
	} else if n > 0 {
		return nil, r.damaged(-1, fmt.Sprintf("%d bytes follow the machine", n))
	}
	return m, nil
}

func (r *snapReader) damaged(off int64, what string) error {
	return &damage.Error{File: r.name, Offset: off, What: what, Repair: r.repair}
}

// Close lets go of file and decompressor.
func (r *snapReader) Close() error {
	r.zstd.Close()
	return r.file.Close()
}

// syncingFile syncs a growing file every few megabytes.
type syncingFile struct {
	vfs.File
	unsynced int
}

func (f *syncingFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	f.unsynced += n
	if err == nil && f.unsynced >= snapSyncBytes {
		f.unsynced = 0
		err = f.Sync()
	}
	return n, err
}
