package fourletter

import (
	"slices"
	"strings"
)

// words are all that ZooKeeper 3.9 answers on a client port.
var words = []string{
	"conf", "cons", "crst", "dirs", "dump", "envi", "gtmk", "hash", "isro", "mntr", "ruok", "srst", "srvr", "stat",
	"stmk", "wchc", "wchp", "wchs",
}

// traceMaskBytes is what stmk brings along: the new mask, big-endian.
const traceMaskBytes = 8

// Is says whether the first four bytes of a connection are a four-letter word. As the length
// of a frame they would be more than a gigabyte, so nothing is mistaken for a word.
func Is(first4 [4]byte) bool {
	_, known := slices.BinarySearch(words, string(first4[:]))
	return known
}

// Words are all known words in order.
func Words() []string {
	return slices.Clone(words)
}

// ExtraBytes is how many bytes after a word belong to it: 8 for stmk, none else. What comes
// beyond them is ignored.
func ExtraBytes(word string) int {
	if word == "stmk" {
		return traceMaskBytes
	}
	return 0
}

// A Whitelist says which words are executed. The zero value allows none.
type Whitelist struct {
	allowed map[string]bool
}

// ParseWhitelist reads the value of 4lw.commands.whitelist: words between commas, or "*" for
// all. srvr is always allowed, since zkServer.sh needs it, and isro where read-only mode is
// enabled, since clients need it. A word that does not exist is passed over, as ZooKeeper
// does; Unknown names such.
func ParseWhitelist(list string, readOnlyEnabled bool) Whitelist {
	w := Whitelist{map[string]bool{"srvr": true}}
	if readOnlyEnabled {
		w.allowed["isro"] = true
	}
	for _, word := range splitList(list) {
		if word == "*" {
			for _, each := range words {
				w.allowed[each] = true
			}
			break
		}
		w.allowed[word] = true
	}
	return w
}

// Allows says whether a word is executed.
func (w Whitelist) Allows(word string) bool {
	return w.allowed[word]
}

// Unknown are the entries of a whitelist that are no words, for a warning.
func Unknown(list string) []string {
	var unknown []string
	for _, word := range splitList(list) {
		if word != "*" && !slices.Contains(words, word) {
			unknown = append(unknown, word)
		}
	}
	return unknown
}

func splitList(list string) []string {
	var out []string
	for word := range strings.SplitSeq(list, ",") {
		if word = strings.TrimSpace(word); word != "" {
			out = append(out, word)
		}
	}
	return out
}
