package state

import (
	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/wire"
)

// A Kind says what a Command is about.
type Kind uint8

// The kinds. "zxid" in a comment means that applying it takes the next zxid, also when it
// fails with a Code that a client sees.
const (
	// KindWrite is a client's write: Op and Body as they came in the frame. zxid.
	KindWrite Kind = 1
	// KindCreateSession makes Session with Password, TimeoutMs and Origin. Idempotent by
	// (id, password); SessionTaken if the id belongs to another password. zxid.
	KindCreateSession Kind = 2
	// KindAttach moves Session to the connection Origin and raises its epoch, provided
	// that Password is right and its epoch is still Epoch (the one that it replaces). A
	// repeat from the same Origin is Duplicate. No zxid.
	KindAttach Kind = 3
	// KindCloseSession is a client's closeSession, numbered like a write. zxid.
	KindCloseSession Kind = 4
	// KindExpire closes Session because the leader has not heard of it, provided that its
	// epoch is still Epoch: a session that has come back meanwhile lives on. zxid, if it
	// closes anything.
	KindExpire Kind = 5
	// KindReap deletes the container or TTL node at Path, if it is still due. zxid, also
	// when the node has changed meanwhile: then it fails as a delete would.
	KindReap Kind = 6
	// KindSync changes nothing: the proposer learns that all before it is applied. No zxid.
	KindSync Kind = 7
	// KindLevel raises the feature level to Level. No zxid.
	KindLevel Kind = 8
	// KindMembers tells how far the membership of the cluster is: Members says in what way.
	// Stale if it is about a target that is not pending (any more). zxid, if it changes
	// /zookeeper/config.
	KindMembers Kind = 9
	// KindRestore is a step of putting a backup in the place of the tree, or of a part of it:
	// Restore says which; see restore.go. The commit takes a zxid. Since LevelRestore.
	KindRestore Kind = 10
)

// A RestoreStep says what a KindRestore is about. Target is the number of the restore, drawn by
// whoever proposes it.
type RestoreStep uint8

// The steps. Stale is a step of a restore that is not, or no longer, under way.
const (
	// RestoreBegin: the backup goes to Path. Stale while another restore is under way.
	RestoreBegin RestoreStep = 1
	// RestoreChunk: Body has nodes, as a RestoreEncoder makes them. Req numbers the chunks from 1:
	// one that is there already is a Duplicate, one too early a Gap.
	RestoreChunk RestoreStep = 2
	// RestoreCommit: there are Req nodes, and Body has the sum of all chunks (8 bytes). If that is
	// so they take their place, all at one zxid.
	RestoreCommit RestoreStep = 3
	// RestoreAbort: what has come is dropped.
	RestoreAbort RestoreStep = 4
)

// A MembersStep says what a KindMembers is about. The leader proposes all of them; Body is the
// text of a configuration where one is mentioned, and its version does not count.
type MembersStep uint8

// The steps.
const (
	// MembersInitial: Body has the members that the cluster was made of. Stale if the machine
	// has an ensemble already.
	MembersInitial MembersStep = 1
	// MembersReached: Body has the members after a change of one server on the way to Target.
	// Req numbers these from 1; Stale unless it is the next.
	MembersReached MembersStep = 2
	// MembersDone: Target is reached, and becomes the configuration.
	MembersDone MembersStep = 3
	// MembersAborted: Target is given up, and who asked for it gets Code. What was reached on
	// the way becomes the configuration.
	MembersAborted MembersStep = 4
)

// Settings are the switches that Apply consults, as the leader has them: they travel in
// every batch header, so that servers with different configurations cannot diverge.
type Settings struct {
	ACL           acl.Settings
	EnforceQuota  bool
	ExtendedTypes bool // TTL nodes allowed
	Reconfig      bool // reconfig opcode allowed
	SingleVoter   bool // reconfig may leave one participant (standaloneEnabled=false)
	MultiAddress  bool // reconfig may give a server several addresses (multiAddress.enabled)
	// MaxNeverUsedMs: a container that never had a child is due after this time; 0: never.
	MaxNeverUsedMs int64
}

// BatchHeader is what all commands of one log entry share.
type BatchHeader struct {
	TimeMs   int64 // the leader's wall clock; Apply never lets time fall
	Settings Settings

	// Term and Index are the log entry's own, set by the reader of the log, not encoded.
	// The first batch of a term starts a new zxid epoch.
	Term  uint64
	Index uint64
}

// Command is one entry of a batch. Which fields count depends on Kind.
type Command struct {
	Kind    Kind
	Session int64
	// Epoch is the connection epoch of the session: the attach that the connection
	// belongs to (write, close), or the one that is replaced or was seen (attach, expire).
	Epoch uint32
	// Req numbers the writes of one connection epoch from 1 (write, close), so that a
	// command that is proposed twice is applied once. For sync it is the proposer's tag.
	Req  uint64
	Op   wire.OpCode
	Body []byte    // request record or configuration; aliases the log entry: copy what is kept
	IDs  []wire.ID // identities of the connection when the request was received

	Password  [16]byte
	TimeoutMs int32
	Origin    session.Origin
	Path      string
	Level     uint32

	Members MembersStep
	Restore RestoreStep
	Target  int64 // Target.Zxid, but for MembersInitial; or the number of a restore
	Code    wire.Code
}
