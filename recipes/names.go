package recipes

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/client"
)

// How contenders name their nodes, and in which order they stand. A name is a unique part, a
// mark that says what the contender wants, and the server's number:
//
//	_c_2f0d8a0e-5b1c-4c8e-9d62-0e7c5d3f9b10-lock-0000000042      Curator, mutex
//	_c_2f0d8a0e-5b1c-4c8e-9d62-0e7c5d3f9b10-__READ__0000000042   Curator, read lock
//	2f0d8a0e5b1c4c8e9d620e7c5d3f9b10__lock__0000000042           kazoo
//
// Curator sorts by the text after the last mark, kazoo by the digits, the server gives the
// number out as a signed int32 that may wrap around. We compare numbers, on that circle.

// A Format says whose node names a recipe uses.
type Format int

// The formats.
const (
	// Curator is shared with Java (Curator) and with the Lock of go-zookeeper/zk as they are,
	// and with kazoo through a subclass of its Lock:
	//
	//	class CuratorLock(kazoo.recipe.lock.Lock):
	//	    _NODE_NAME, _EXCLUDE_NAMES = "-lock-", ["-lock-"]
	Curator Format = iota

	// Kazoo is shared with Python programs that use kazoo as it is.
	Kazoo
)

// A kind is what a contender wants.
type kind uint8

const (
	exclusive kind = iota
	shared
)

// A mark is the text before the number of a contender of some kind.
type mark struct {
	text string
	kind kind
}

// A naming is the names of one recipe in one format. The first mark of a kind is the one that
// we write.
type naming struct {
	format Format
	marks  []mark
}

func lockNames(f Format) naming {
	if f == Kazoo {
		return naming{f, []mark{{"__lock__", exclusive}}}
	}
	return naming{f, []mark{{"lock-", exclusive}}}
}

func latchNames(f Format) naming {
	if f == Kazoo {
		return lockNames(f)
	}
	return naming{f, []mark{{"latch-", exclusive}}}
}

func readWriteNames(f Format) naming {
	if f == Kazoo {
		return naming{f, []mark{{"__lock__", exclusive}, {"__rlock__", shared}}}
	}
	return naming{f, []mark{{"__WRIT__", exclusive}, {"__READ__", shared}}}
}

// fresh makes the name of a new contender, without the number. It is unique.
func (n naming) fresh(k kind) string {
	text := ""
	for _, m := range n.marks {
		if m.kind == k {
			text = m.text
			break
		}
	}
	id := client.NewUUID()
	if n.format == Kazoo {
		return strings.ReplaceAll(id, "-", "") + text
	}
	return "_c_" + id + "-" + text
}

// A contender is a node that stands in a queue.
type contender struct {
	name    string
	seq     int32
	kind    kind
	foreign bool
}

// read tells what a child of the queue's node is. ok is false for one that is no contender, as
// it has no number.
func (n naming) read(name string) (c contender, ok bool) {
	at := -1
	for _, m := range n.marks {
		i := strings.LastIndex(name, m.text)
		if i < 0 || i < at {
			continue
		}
		if seq, ok := parseNumber(name[i+len(m.text):]); ok {
			at, c = i, contender{name: name, seq: seq, kind: m.kind}
		}
	}
	if at >= 0 {
		return c, true
	}
	if seq, ok := trailingNumber(name); ok {
		return contender{name: name, seq: seq, foreign: true}, true
	}
	return contender{}, false
}

// parseNumber reads a sequence number as servers print it: %010d of an int32.
func parseNumber(s string) (int32, bool) {
	if len(s) < 10 || strings.Trim(strings.TrimPrefix(s, "-"), "0123456789") != "" {
		return 0, false
	}
	v, err := strconv.ParseInt(s, 10, 32)
	return int32(v), err == nil
}

// trailingNumber finds a sequence number at the end of a name of unknown form. The sign of a
// negative one cannot be told from a dash of the name where ten digits follow.
func trailingNumber(name string) (int32, bool) {
	if len(name) < 10 {
		return 0, false
	}
	return parseNumber(name[len(name)-10:])
}

// before says whether a was given out before b. The difference is taken on the circle of 32
// bits, since after 2147483647 the server goes on at -2147483648: contenders that wait at the
// same time are never half a circle apart.
func before(a, b int32) bool { return a-b < 0 }

// order sorts a queue. A reader that carries its writer's number comes behind it.
func order(q []contender) {
	slices.SortFunc(q, func(a, b contender) int {
		switch {
		case before(a.seq, b.seq):
			return -1
		case before(b.seq, a.seq):
			return 1
		}
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name))
	})
}

// join appends a child's name to a path.
func join(parent, name string) string {
	if parent == "/" {
		return "/" + name
	}
	return parent + "/" + name
}

// base is the last name in a path.
func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// sortedWithout sorts names as texts, without one of them.
func sortedWithout(names []string, without string) []string {
	names = slices.DeleteFunc(names, func(s string) bool { return s == without })
	slices.Sort(names)
	return names
}
