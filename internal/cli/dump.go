package cli

import (
	"fmt"
	"strings"
)

// hexDump is data as zkCli's get -x prints it (the hex dump of Netty): a frame, sixteen bytes a
// line, and beside them the letters of ASCII. No data is no text.
func hexDump(data []byte) string {
	if len(data) == 0 {
		return ""
	}
	var b strings.Builder
	rule := "+--------+-------------------------------------------------+----------------+"
	b.WriteString("         +-------------------------------------------------+\n")
	b.WriteString("         |  0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f |\n")
	b.WriteString(rule)
	for at := 0; at < len(data); at += 16 {
		line := data[at:min(at+16, len(data))]
		fmt.Fprintf(&b, "\n|%08x|", at)
		for _, c := range line {
			fmt.Fprintf(&b, " %02x", c)
		}
		b.WriteString(strings.Repeat("   ", 16-len(line)) + " |")
		for _, c := range line {
			if c <= 0x1f || c >= 0x7f {
				c = '.'
			}
			b.WriteByte(c)
		}
		b.WriteString(strings.Repeat(" ", 16-len(line)) + "|")
	}
	b.WriteString("\n" + rule)
	return b.String()
}
