package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A Writer writes one snapshot. The first error sticks; Close returns it.
type Writer struct {
	w   io.Writer
	err error
	crc uint32
	sum totals

	block   []byte // prefix and payload of the data block that is being filled
	open    *section
	section uint64 // bytes in the open section
}

var errClosed = errors.New("snapshot: write to a section that has ended")

// NewWriter starts a snapshot. Nothing is written before the first Section or Close.
func NewWriter(w io.Writer) *Writer {
	return &Writer{w: w}
}

// Section ends the section before and begins one with that id, which says what is in it,
// and version, which says in what form. Writes to the section are cut into blocks; it is
// good until the next Section or Close.
func (w *Writer) Section(id, version uint32) io.Writer {
	w.endSection()
	w.head()
	w.sum.sections++
	w.emit(kindBegin, binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(w.payload(), id), version))
	w.open = &section{w}
	return w.open
}

// Close ends the last section and writes the trailer, without which the snapshot is not
// whole. The underlying writer is the caller's to sync and close.
func (w *Writer) Close() error {
	w.endSection()
	w.head()
	b := binary.BigEndian.AppendUint32(w.payload(), w.sum.sections)
	b = binary.BigEndian.AppendUint64(b, w.sum.blocks)
	w.emit(kindTrailer, binary.BigEndian.AppendUint64(b, w.sum.bytes))
	err := w.err
	if w.err == nil {
		w.err = errClosed
	}
	return err
}

// section is what the owner of a section writes to.
type section struct{ w *Writer }

func (s *section) Write(p []byte) (int, error) {
	w := s.w
	if w.err == nil && w.open != s {
		return 0, errClosed
	}
	n := 0
	for n < len(p) && w.err == nil {
		k := min(len(p)-n, prefixBytes+maxPayload-len(w.block))
		w.block = append(w.block, p[n:n+k]...)
		n += k
		if len(w.block) == prefixBytes+maxPayload {
			w.flush()
		}
	}
	return n, w.err
}

// flush writes the data block that is being filled, if there is something in it.
func (w *Writer) flush() {
	n := len(w.block) - prefixBytes
	if n <= 0 {
		return
	}
	w.section += uint64(n)
	w.sum.bytes += uint64(n)
	w.emit(kindData, w.block)
	w.payload()
}

func (w *Writer) endSection() {
	if w.open == nil {
		return
	}
	w.flush()
	w.emit(kindEnd, binary.BigEndian.AppendUint64(w.payload(), w.section))
	w.open, w.section = nil, 0
	w.payload()
}

// payload returns the block buffer, empty but for room for the prefix.
func (w *Writer) payload() []byte {
	if w.block == nil {
		w.block = make([]byte, 0, prefixBytes+maxPayload)
	}
	w.block = w.block[:prefixBytes]
	return w.block
}

// emit fills in the prefix of block and writes it.
func (w *Writer) emit(k kind, block []byte) {
	binary.BigEndian.PutUint32(block, uint32(k)<<24|uint32(len(block)-prefixBytes))
	w.crc = crc32.Update(w.crc, castagnoli, block[:4])
	w.crc = crc32.Update(w.crc, castagnoli, block[prefixBytes:])
	binary.BigEndian.PutUint32(block[4:], w.crc)
	w.sum.blocks++
	w.write(block)
}

// head writes the head of the file, once.
func (w *Writer) head() {
	if w.sum.blocks > 0 || w.err != nil {
		return
	}
	b := binary.BigEndian.AppendUint32([]byte(magic), formatVersion)
	w.crc = crc32.Checksum(b, castagnoli)
	w.write(binary.BigEndian.AppendUint32(b, w.crc))
}

func (w *Writer) write(b []byte) {
	if w.err != nil {
		return
	}
	if _, err := w.w.Write(b); err != nil {
		w.err = fmt.Errorf("write snapshot: %w", err)
	}
}
