package peer

import "encoding/binary"

// A cursor takes fields from the body of a frame. Taking more than there is makes it bad, and
// everything it gives from then on is zero, so that a decoder checks once, at its end.
// Nothing is allocated on the word of a length.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) take(n int) []byte {
	if c.bad || n < 0 || n > len(c.b) {
		c.bad = true
		return nil
	}
	v := c.b[:n:n]
	c.b = c.b[n:]
	return v
}

func (c *cursor) u8() uint8 {
	if v := c.take(1); v != nil {
		return v[0]
	}
	return 0
}

func (c *cursor) u16() uint16 {
	if v := c.take(2); v != nil {
		return binary.BigEndian.Uint16(v)
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if v := c.take(4); v != nil {
		return binary.BigEndian.Uint32(v)
	}
	return 0
}

func (c *cursor) u64() uint64 {
	if v := c.take(8); v != nil {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

// text takes a length of two bytes and so many bytes.
func (c *cursor) text(maxBytes int) string {
	n := int(c.u16())
	if n > maxBytes {
		c.bad = true
	}
	return string(c.take(n))
}

// end returns an error unless everything was there and nothing is left.
func (c *cursor) end() error {
	if c.bad || len(c.b) > 0 {
		return errFormat
	}
	return nil
}

func appendText(b []byte, s string, maxBytes int) []byte {
	s = s[:min(len(s), maxBytes)]
	b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
	return append(b, s...)
}
