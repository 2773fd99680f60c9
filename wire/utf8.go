package wire

import (
	"unicode/utf8"
)

// Text reads a buffer as text, as a Decoder reads a string: for proofs and tokens, which become
// names that others see.
func Text(b []byte) string { return lenientString(b) }

// lenientString copies b into a string, with U+FFFD in place of malformed UTF-8 as Java's
// String constructor puts it: one for each longest beginning of a well-formed sequence,
// and one for each surrogate in three bytes (which is how Java clients send a character
// outside the basic plane: two surrogates).
func lenientString(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	out := make([]byte, 0, len(b)+len(b)/2)
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			n = malformedLen(b)
		}
		out = utf8.AppendRune(out, r)
		b = b[n:]
	}
	return string(out)
}

// malformedLen returns how many bytes of b, which does not start with a well-formed
// sequence, Java replaces by one U+FFFD.
func malformedLen(b []byte) int {
	want := 1 // length of the sequence that the first byte announces
	low, high := byte(0x80), byte(0xbf)
	switch c := b[0]; {
	case c >= 0xc2 && c <= 0xdf:
		want = 2
	case c >= 0xe0 && c <= 0xef:
		want = 3
		if c == 0xe0 {
			low = 0xa0 // below it is overlong
		}
	case c >= 0xf0 && c <= 0xf4:
		want = 4
		if c == 0xf0 {
			low = 0x90 // below it is overlong
		}
		if c == 0xf4 {
			high = 0x8f // above it is beyond U+10FFFF
		}
	}
	n := 1
	for n < want && n < len(b) && b[n] >= low && b[n] <= high {
		low, high = 0x80, 0xbf // only the second byte has bounds of its own
		n++
	}
	return n
}
