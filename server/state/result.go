package state

import "github.com/zkd-project/zkd/wire"

// An Outcome says whether a command took effect; only Applied and Failed answer a client.
type Outcome uint8

// The outcomes.
const (
	Applied      Outcome = iota // done; Code is OK
	Failed                      // refused: the client sees Code, or the results of a failed multi
	Duplicate                   // proposed twice: skipped, the first one counts
	Gap                         // an earlier request of the connection is missing: send again from there
	Moved                       // the session belongs to another connection: close this one without a reply
	NoSession                   // the session is unknown or closed, or the password is wrong
	SessionTaken                // create: the id is in use, draw another
	Stale                       // attach, expire: the epoch has moved on; members: so has the target
)

// Event is a change of one node, in the order in which watchers must hear of it. The watch
// table works out who hears what (protocol: data table, then child table, then parent).
type Event struct {
	Type wire.EventType // NodeCreated, NodeDeleted or NodeDataChanged
	Path string
	Zxid int64
	// ACL of the node (for a deleted one: as it was) and ParentACL of its parent: an event
	// reaches only those who may read. Nobody who watches the parent hears of changed data,
	// so ParentACL is nil then. The lists are shared: do not change them.
	ACL       []wire.ACL
	ParentACL []wire.ACL
}

// Result is what Apply says of one command. It is reused: copy what is kept.
type Result struct {
	Outcome Outcome
	Code    wire.Code // of the reply header: OK also for a failed multi
	Zxid    int64     // the machine's zxid after the command
	Op      wire.OpCode
	Path    string             // create: the actual path
	Stat    wire.Stat          // setData, setACL, create2 …
	Multi   []wire.MultiResult // multi
	Data    []byte             // reconfig, members: the new configuration

	// Deferred: a reconfig was found in order, and nothing is to be answered yet. A later
	// KindMembers that is Applied has it as Asker: then the answer is Code and AppendBody of
	// that result. Asker is zero if nobody waits (any more).
	Deferred bool
	Asker    Asker

	// OverQuota is the path of a quota of which the command passed a soft limit, or a hard
	// one that is not enforced: worth a line in the log, and no more.
	OverQuota string
	// Refused is the path of a write that a hard limit of a quota has refused.
	Refused string
	// TTLCreated nodes that the command has made have a time to live, and TTLReaped of those
	// that it has removed had one that was over.
	TTLCreated, TTLReaped int

	// Session, Epoch and TimeoutMs are the session's after create and attach; Closed is
	// the session that a close or an expiry removed, else 0.
	Session   int64
	Epoch     uint32
	TimeoutMs int32
	Closed    int64

	Events []Event
}

// maxKept is how many results and events (some 200 and 90 bytes each) a Result keeps room
// for; what a rare large multi needed is let go.
const maxKept = 1024

// reset empties the result but keeps its memory.
func (r *Result) reset() {
	clear(r.Multi)
	clear(r.Events) // lets go of paths
	if cap(r.Multi) > maxKept {
		r.Multi = nil
	}
	if cap(r.Events) > maxKept {
		r.Events = nil
	}
	*r = Result{Multi: r.Multi[:0], Events: r.Events[:0]}
}

// AppendBody appends the record that follows the reply header, nothing if Code is not OK,
// the Outcome is not one that a client sees, the answer is deferred, or the operation has none.
func (r *Result) AppendBody(b []byte) []byte {
	if r.Code != wire.OK || r.Outcome > Failed || r.Deferred {
		return b
	}
	switch r.Op {
	case wire.OpCreate:
		return wire.AppendString(b, r.Path)
	case wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		return r.Stat.Append(wire.AppendString(b, r.Path))
	case wire.OpSetData, wire.OpSetACL:
		return r.Stat.Append(b)
	case wire.OpMulti:
		return wire.AppendMultiResults(b, r.Multi)
	case wire.OpReconfig:
		return r.Stat.Append(wire.AppendBuffer(b, r.Data))
	}
	return b
}
