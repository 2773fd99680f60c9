package cluster

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/zkd-project/zkd/jepsen/history"
	"github.com/zkd-project/zkd/wire"
)

// A Kind says what an Entry of a History is about.
type Kind uint8

// The kinds of entries.
const (
	Opened   Kind = iota + 1 // a connection has a session: a new one, or the one of before
	Closed                   // a connection has ended
	Expired                  // a server has told that the session is over
	Sent                     // a request is about to be written
	Replied                  // its reply has been read
	Lost                     // its connection ended before: the outcome is unknown
	Notified                 // a watch event has been read
	Alive                    // a ping has been answered
	Held                     // the client knows that an ephemeral node is its own
	Released                 // the client no longer counts on it
	Broken                   // the conversation broke the rules; Note says how
	Fault                    // the nemesis did what Note says
)

var kindNames = [...]string{
	Opened: "opened", Closed: "closed", Expired: "expired", Sent: "sent", Replied: "replied", Lost: "lost",
	Notified: "notified", Alive: "alive", Held: "held", Released: "released", Broken: "broken", Fault: "fault",
}

// String is the name of the kind.
func (k Kind) String() string { return kindNames[k] }

// An Op is a request. Which fields count depends on Code.
type Op struct {
	Code    wire.OpCode
	Path    string
	Data    string
	Version int32
	Flags   int32
	Watch   bool
	Parts   []history.Part // of a multi or a multi-read
}

// A Result is what a reply says. Stat fields are 0 where there is none.
type Result struct {
	Err                 wire.Code
	Zxid                int64 // of the header
	Path                string
	Data                string
	Children            []string
	Version             int32
	Czxid, Mzxid, Pzxid int64
	Owner               int64 // ephemeralOwner
	Parts               []history.Part
}

// An Entry is one thing that happened.
type Entry struct {
	Seq     int           // its place in the history, from 1
	At      time.Duration // since the beginning
	Kind    Kind
	Client  int
	Session int64
	Link    int // the client's connections are numbered from 1
	Call    int // joins Sent with its Replied or Lost
	Op      Op
	Result  Result
	Event   wire.EventType
	SentAt  time.Duration // Opened, Alive: when that was sent which the server has answered
	Timeout time.Duration // Opened: of the session
	// Since is the Seq from which on a read must know all: that of the Sent of the sync before
	// it. 0: the read may be stale.
	Since int
	Note  string
}

// String shows the entry in one line.
func (e *Entry) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%6d %10.3fs client %d session %x link %d %-8v", e.Seq, e.At.Seconds(), e.Client, uint64(e.Session), e.Link, e.Kind)
	if e.Call != 0 {
		fmt.Fprintf(&b, " #%d", e.Call)
	}
	switch {
	case e.Op.Path == "":
	case e.Op.Code == wire.OpNotification:
		b.WriteString(" " + e.Op.Path)
	default:
		fmt.Fprintf(&b, " %v %s %q version %d watch %v", e.Op.Code, e.Op.Path, e.Op.Data, e.Op.Version, e.Op.Watch)
	}
	switch e.Kind {
	case Replied:
		r := &e.Result
		fmt.Fprintf(&b, " → %v zxid %x %q version %d mzxid %x %s", r.Err, r.Zxid, r.Data, r.Version, r.Mzxid, r.Path)
	case Notified:
		fmt.Fprintf(&b, " %v zxid %x", e.Event, e.Result.Zxid)
	case Alive, Opened:
		fmt.Fprintf(&b, " sent at %.3fs", e.SentAt.Seconds())
	}
	return b.String() + " " + e.Note
}

// A History is all that happened, in the order in which it did: what one entry shows can have
// caused only later ones.
type History struct {
	start time.Time

	mu      sync.Mutex
	entries []Entry // guarded by mu
	calls   int     // guarded by mu
}

// add puts an entry at the end and returns its Seq.
func (h *History) add(e Entry) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.addLocked(e)
}

func (h *History) addLocked(e Entry) int {
	e.Seq, e.At = len(h.entries)+1, h.now()
	h.entries = append(h.entries, e)
	return e.Seq
}

// send adds a Sent with a new Call.
func (h *History) send(e Entry) (seq, call int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls++
	e.Kind, e.Call = Sent, h.calls
	return h.addLocked(e), h.calls
}

func (h *History) now() time.Duration { return time.Since(h.start) }

// list returns the entries; nobody adds any more.
func (h *History) list() []Entry {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.entries
}
