package fourletter

import (
	"io"
	"net/netip"
	"strconv"
)

// chunkBytes is how much of an answer is gathered before it is written.
const chunkBytes = 16 << 10

// A text is an answer on its way: it is gathered in chunks, and after the first failed write
// everything more is dropped.
type text struct {
	w   io.Writer
	buf []byte
	err error
}

func newText(w io.Writer) *text {
	return &text{w: w, buf: make([]byte, 0, 512)}
}

// str adds strings as they are.
func (t *text) str(parts ...string) {
	for _, s := range parts {
		t.buf = append(t.buf, s...)
	}
	if len(t.buf) >= chunkBytes {
		t.flush()
	}
}

// line adds strings and a line end.
func (t *text) line(parts ...string) {
	t.str(parts...)
	t.str("\n")
}

// flush writes what is gathered and returns the first error of all writes.
func (t *text) flush() error {
	if t.err == nil && len(t.buf) > 0 {
		_, t.err = t.w.Write(t.buf)
	}
	t.buf = t.buf[:0]
	return t.err
}

func dec[T int | int32 | int64](n T) string {
	return strconv.FormatInt(int64(n), 10)
}

// hex is "0x" and the bits of n, as Long.toHexString prints them.
func hex(n int64) string {
	return "0x" + strconv.FormatUint(uint64(n), 16)
}

// javaAddr renders an address as Java's InetSocketAddress does: a slash where the host name
// would stand, and IPv6 in full length within brackets.
func javaAddr(a netip.AddrPort) string {
	if !a.IsValid() {
		return "/unknown:0"
	}
	ip := a.Addr().Unmap()
	port := ":" + strconv.Itoa(int(a.Port()))
	if ip.Is4() {
		return "/" + ip.String() + port
	}
	out := []byte("/[")
	for i, b := 0, ip.As16(); i < 16; i += 2 {
		if i > 0 {
			out = append(out, ':')
		}
		out = strconv.AppendUint(out, uint64(b[i])<<8|uint64(b[i+1]), 16)
	}
	if zone := ip.Zone(); zone != "" {
		out = append(append(out, '%'), zone...)
	}
	return string(out) + "]" + port
}
