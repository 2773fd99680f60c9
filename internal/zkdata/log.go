package zkdata

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"io"

	"github.com/zkd-project/zkd/wire"
)

// A log of transactions:
//
//	magic "ZKLG" | int version 2 | long dbid
//	entries: long Adler-32 of the transaction | int length | transaction | byte 'B'
//	zeros, as far as the file was extended in advance
//
// A length of zero ends the log. So does an entry that is not complete: a crash has cut it off
// before it was acknowledged. ZooKeeper leaves it at that; but an entry can look incomplete
// because a bit of it has changed, and then whole ones follow it, which a crash does not do.
const (
	logMagic        = "ZKLG"
	logHeaderBytes  = 16
	entryHeadBytes  = 12
	entryEnd        = 'B'
	maxSearchedTail = 64 << 20
)

// A LogReader reads a log of transactions.
type LogReader struct {
	r     *bufio.Reader
	off   int64 // of the next entry
	entry []byte
	err   error
}

// NewLogReader reads the head of a log. A file that a crash has left without a whole one is a
// log without transactions.
func NewLogReader(r io.Reader) (*LogReader, error) {
	l := &LogReader{r: bufio.NewReaderSize(r, inputBuffer), off: logHeaderBytes}
	var head [logHeaderBytes]byte
	n, err := io.ReadFull(l.r, head[:])
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		if k := min(n, len(logMagic)); string(head[:k]) == logMagic[:k] || allZero(head[:n]) {
			l.err = io.EOF
			return l, nil
		}
	case err != nil:
		return nil, fmt.Errorf("offset 0: %w", err)
	}
	if allZero(head[:]) { // the space was there before its content
		l.err = l.tail(head[:], 0)
		return l, ignoreEOF(l.err)
	}
	if string(head[:4]) != logMagic {
		return nil, &Error{What: fmt.Sprintf("this is no log of ZooKeeper: it begins with %q", head[:4])}
	}
	if v := binary.BigEndian.Uint32(head[4:]); v != fileVersion {
		return nil, &Error{Offset: 4, What: fmt.Sprintf("the version of the format is %d, and %d is known", v, fileVersion)}
	}
	return l, nil
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// Next returns the next transaction and the offset of its entry. At the end it returns io.EOF;
// a faulty log is an *Error. What it returns is valid until the next call.
func (l *LogReader) Next() (t Txn, offset int64, err error) {
	if l.err == nil {
		t, l.err = l.next()
	}
	if l.err != nil {
		return Txn{}, l.off, l.err
	}
	offset = l.off
	l.off += int64(len(l.entry))
	return t, offset, nil
}

func (l *LogReader) next() (t Txn, err error) {
	b := l.entry[:0]
	if b, err = l.more(b, entryHeadBytes); err != nil {
		return t, l.end(b, err)
	}
	n := int(int32(binary.BigEndian.Uint32(b[8:])))
	if n <= 0 {
		return t, l.tail(b, l.off)
	}
	if b, err = l.more(b, n+1); err != nil {
		return t, l.end(b, err)
	}
	l.entry = b
	if b[len(b)-1] != entryEnd {
		return t, l.tail(b, l.off)
	}
	txn := b[entryHeadBytes : len(b)-1]
	if sum, want := uint64(adler32.Checksum(txn)), binary.BigEndian.Uint64(b); sum != want {
		return t, l.fault("the checksum of the transaction is %08x, and should be %08x: the file is damaged", sum, want)
	}
	if t, err = DecodeTxn(txn); err != nil {
		return t, l.fault("the transaction cannot be read: %v", err)
	}
	return t, nil
}

func (l *LogReader) fault(format string, args ...any) error {
	return &Error{Offset: l.off, What: fmt.Sprintf(format, args...)}
}

// more appends n bytes to b.
func (l *LogReader) more(b []byte, n int) ([]byte, error) {
	for n > 0 {
		k := min(n, max(step, len(b)))
		start := len(b)
		b = append(b, make([]byte, k)...)
		got, err := io.ReadFull(l.r, b[start:])
		if err != nil {
			return b[:start+got], err
		}
		n -= k
	}
	return b, nil
}

// end is the end of the file within an entry, of which b is there.
func (l *LogReader) end(b []byte, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return l.tail(b, l.off)
	}
	return fmt.Errorf("offset %d: %w", l.off+int64(len(b)), err)
}

// tail looks at what is behind the end of the log, beginning with b, which is at the offset.
// It returns io.EOF, or an error if there are transactions.
func (l *LogReader) tail(b []byte, offset int64) error {
	rest := bytes.Clone(b)
	for allZero(rest) {
		const overlap = entryHeadBytes // an entry begins with zeros, too
		drop := max(len(rest)-overlap, 0)
		offset += int64(drop)
		rest = rest[drop:]
		var err error
		if rest, err = l.more(rest, inputBuffer); err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				return fmt.Errorf("offset %d: %w", offset+int64(len(rest)), err)
			}
			break
		}
	}
	if allZero(rest) {
		return io.EOF
	}
	more, err := io.ReadAll(io.LimitReader(l.r, maxSearchedTail))
	if err != nil {
		return fmt.Errorf("offset %d: %w", offset+int64(len(rest)), err)
	}
	rest = append(rest, more...)
	for i := range rest {
		if wholeEntry(rest[i:]) {
			return l.fault("the transaction here is damaged: a whole one follows it at offset %d", offset+int64(i))
		}
	}
	return io.EOF
}

// wholeEntry says whether b begins with an entry.
func wholeEntry(b []byte) bool {
	if len(b) < entryHeadBytes+txnHeaderBytes || b[0]|b[1]|b[2]|b[3] != 0 {
		return false
	}
	n := int64(int32(binary.BigEndian.Uint32(b[8:])))
	if n < txnHeaderBytes || n > int64(len(b)-entryHeadBytes-1) || b[entryHeadBytes+n] != entryEnd {
		return false
	}
	txn := b[entryHeadBytes : entryHeadBytes+n]
	if adler32.Checksum(txn) != binary.BigEndian.Uint32(b[4:]) {
		return false
	}
	_, err := DecodeTxn(txn)
	return err == nil
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// AppendLogHeader appends the head of a log.
func AppendLogHeader(b []byte) []byte {
	b = wire.AppendInt32(append(b, logMagic...), fileVersion)
	return wire.AppendInt64(b, 0)
}

// AppendLogEntry appends the entry of a transaction.
func AppendLogEntry(b []byte, t *Txn) []byte {
	txn := t.Append(nil)
	b = wire.AppendInt64(b, int64(adler32.Checksum(txn)))
	b = wire.AppendBuffer(b, txn)
	return append(b, entryEnd)
}
