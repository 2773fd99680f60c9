package recipes

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A QueueForm says with which programs a Queue is shared.
type QueueForm int

// The forms of a queue. All take the items with the lowest priority, the earliest time, and the
// lowest number first.
const (
	// QueueSimple is Curator's SimpleDistributedQueue and the DistributedQueue of ZooKeeper's own
	// recipes: qn-<seq>, the bytes as they are.
	QueueSimple QueueForm = iota

	// QueueKazoo is kazoo's Queue: entry-<priority>-<seq>, priorities from 0 to 999, 100 if none
	// is given.
	QueueKazoo

	// QueueKazooLocking is kazoo's LockingQueue: as QueueKazoo, in entries/, and taken/ for what is
	// being worked on. It is for Hold.
	QueueKazooLocking

	// QueueCurator is Curator's DistributedQueue, with the option ID its DistributedIdQueue, with
	// Priority its DistributedPriorityQueue, with At its DistributedDelayQueue: queue-<…><seq>, the
	// bytes in Curator's frame. One queue uses one of these, in all its items.
	QueueCurator
)

// A PutOption says more of an item that is put into a queue.
type PutOption func(*putConfig)

type putConfig struct {
	priority    int32
	hasPriority bool
	at          time.Time
	id          string
}

// Priority puts an item before those of a higher priority number. QueueSimple has none.
func Priority(n int32) PutOption {
	return func(c *putConfig) { c.priority, c.hasPriority = n, true }
}

// At holds an item back until then. Only QueueCurator knows that.
func At(t time.Time) PutOption { return func(c *putConfig) { c.at = t } }

// ID gives an item a name, by which Remove finds it. Only QueueCurator knows that.
func ID(id string) PutOption { return func(c *putConfig) { c.id = id } }

// An entry is a node of a queue, as its name tells.
type entry struct {
	name     string
	priority int64
	at       int64 // milliseconds since 1970; 0: at once
	seq      int32
}

// earlier compares entries in the order in which they are taken.
func earlier(a, b entry) int {
	if c := cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.at, b.at)); c != 0 {
		return c
	}
	switch {
	case before(a.seq, b.seq):
		return -1
	case before(b.seq, a.seq):
		return 1
	}
	return strings.Compare(a.name, b.name)
}

// name makes the name of an item, without its number.
func (f QueueForm) name(c putConfig) (string, error) {
	if f != QueueCurator && (c.id != "" || !c.at.IsZero()) {
		return "", errors.New("only QueueCurator has items with an id or a time")
	}
	switch f {
	case QueueSimple:
		if c.hasPriority {
			return "", errors.New("QueueSimple has no priorities")
		}
		return "qn-", nil
	case QueueKazoo, QueueKazooLocking:
		if !c.hasPriority {
			c.priority = 100
		}
		if c.priority < 0 || c.priority > 999 {
			return "", fmt.Errorf("the priority %d is not between 0 and 999", c.priority)
		}
		return fmt.Sprintf("entry-%03d-", c.priority), nil
	}
	switch {
	case c.id != "" && !c.at.IsZero() || c.hasPriority && (c.id != "" || !c.at.IsZero()):
		return "", errors.New("an item has an id, a time or a priority, and no two of them")
	case c.id != "":
		return "queue-|" + fixID(c.id) + "|", nil
	case !c.at.IsZero():
		return fmt.Sprintf("queue-|%08X|", c.at.UnixMilli()), nil
	case c.hasPriority:
		sign := 1
		if c.priority < 0 {
			sign = 0
		}
		return fmt.Sprintf("queue-%d%08X", sign, uint32(c.priority)), nil
	}
	return "queue-", nil
}

// fixID makes an id fit into a name, as Curator does.
func fixID(id string) string { return strings.NewReplacer("/", "_", "|", "_").Replace(id) }

// read tells what an item's name says; false for one of another form.
func (f QueueForm) read(name string) (entry, bool) {
	e := entry{name: name}
	rest, ok := strings.CutPrefix(name, [...]string{"qn-", "entry-", "entry-", "queue-"}[f])
	if !ok {
		return e, false
	}
	switch f {
	case QueueKazoo, QueueKazooLocking:
		priority, seq, ok := strings.Cut(rest, "-")
		n, err := strconv.ParseInt(priority, 10, 32)
		e.priority, rest = n, seq
		if !ok || err != nil || len(priority) != 3 {
			return e, false
		}
	case QueueCurator:
		rest = e.readCurator(rest)
	}
	e.seq, ok = parseNumber(rest)
	return e, ok
}

// readCurator reads what stands before the number.
func (e *entry) readCurator(rest string) (number string) {
	if text, ok := strings.CutPrefix(rest, "|"); ok {
		i := strings.LastIndexByte(text, '|')
		if i < 0 {
			return ""
		}
		if ms, err := strconv.ParseInt(text[:i], 16, 64); err == nil && len(text[:i]) >= 8 && ms > 0 {
			e.at = ms // an id that looks like a time would be one in Curator, too
		}
		return text[i+1:]
	}
	if len(rest) < 9+10 {
		return rest
	}
	v, err := strconv.ParseUint(rest[1:9], 16, 32)
	if err != nil || rest[0] != '0' && rest[0] != '1' {
		return ""
	}
	e.priority = int64(int32(v))
	return rest[9:]
}

// Curator's frame: a version, then for each item a mark, its length and its bytes, and an end.
const (
	frameVersion = 0x00010001
	frameItem    = 0x01
	frameEnd     = 0x02
)

func packItems(items ...[]byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, frameVersion)
	for _, item := range items {
		b = append(b, frameItem)
		b = binary.BigEndian.AppendUint32(b, uint32(len(item)))
		b = append(b, item...)
	}
	return append(b, frameEnd)
}

// errNoFrame is returned for data that Curator has not written.
var errNoFrame = errors.New("the item is not in Curator's frame: another form of queue is in use")

func unpackItems(b []byte) ([][]byte, error) {
	if len(b) < 4 || binary.BigEndian.Uint32(b) != frameVersion {
		return nil, errNoFrame
	}
	var items [][]byte
	for b = b[4:]; ; {
		switch {
		case len(b) == 1 && b[0] == frameEnd:
			return items, nil
		case len(b) < 5 || b[0] != frameItem:
			return nil, errNoFrame
		}
		n := uint64(binary.BigEndian.Uint32(b[1:]))
		if b = b[5:]; n > uint64(len(b)) {
			return nil, errNoFrame
		}
		items = append(items, b[:n:n])
		b = b[n:]
	}
}
