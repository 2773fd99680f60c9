package wire

// Permission bits of an ACL entry. Any int32 is stored unchecked.
const (
	PermRead   int32 = 1
	PermWrite  int32 = 2
	PermCreate int32 = 4
	PermDelete int32 = 8
	PermAdmin  int32 = 16
	PermAll    int32 = 31
)

// ID is an identity: an authentication scheme and a name within it.
type ID struct {
	Scheme string
	ID     string
}

// ACL is one entry of an access control list.
type ACL struct {
	Perms int32
	ID    ID
}

// Stat is what a client sees of a znode (68 bytes on the wire).
type Stat struct {
	Czxid          int64 // zxid of the creating transaction
	Mzxid          int64 // zxid of the last data change; the creation counts
	CtimeMs        int64 // leader's wall clock at creation
	MtimeMs        int64 // the same at the last data change
	Version        int32 // number of data changes
	Cversion       int32 // children created + children deleted
	Aversion       int32 // number of ACL changes
	EphemeralOwner int64 // session id; 0 for persistent, container and TTL nodes alike
	DataLength     int32 // 0 for null data
	NumChildren    int32
	Pzxid          int64 // zxid of the last create or delete of a direct child; own czxid at first
}

// Create modes: the flags of CreateRequest and CreateTTLRequest.
const (
	FlagPersistent              int32 = 0
	FlagEphemeral               int32 = 1
	FlagPersistentSequential    int32 = 2
	FlagEphemeralSequential     int32 = 3
	FlagContainer               int32 = 4
	FlagPersistentTTL           int32 = 5
	FlagPersistentSequentialTTL int32 = 6
)

// RequestHeader starts every request frame but the first.
type RequestHeader struct {
	Xid int32
	Op  OpCode
}

// ReplyHeader starts every reply frame but the first. A body follows only if Err is OK.
type ReplyHeader struct {
	Xid  int32
	Zxid int64
	Err  Code
}

// ConnectRequest is the first frame of a client. HasReadOnly says whether the optional
// last byte was there: the response then carries it too, and only then.
type ConnectRequest struct {
	ProtocolVersion int32
	LastZxidSeen    int64
	TimeoutMs       int32
	SessionID       int64  // 0: a new session
	Password        []byte // aliases the frame
	ReadOnly        bool
	HasReadOnly     bool
}

// ConnectResponse is the first frame of a server. A refusal has TimeoutMs 0, SessionID 0
// and 16 zero bytes.
type ConnectResponse struct {
	ProtocolVersion int32
	TimeoutMs       int32
	SessionID       int64
	Password        []byte
	ReadOnly        bool
	HasReadOnly     bool // whether the ReadOnly byte is on the wire
}

// CreateRequest is the body of opcodes 1, 15 and 19.
type CreateRequest struct {
	Path  string
	Data  []byte // aliases the frame; nil is null
	ACL   []ACL  // nil when null or empty
	Flags int32
}

// CreateTTLRequest is the body of opcode 21.
type CreateTTLRequest struct {
	Path  string
	Data  []byte // aliases the frame; nil is null
	ACL   []ACL
	Flags int32
	TTLMs int64
}

// DeleteRequest is the body of opcode 2.
type DeleteRequest struct {
	Path    string
	Version int32 // expected data version; -1 matches any
}

// SetDataRequest is the body of opcode 5.
type SetDataRequest struct {
	Path    string
	Data    []byte // aliases the frame; nil is null
	Version int32  // expected data version; -1 matches any
}

// SetACLRequest is the body of opcode 7.
type SetACLRequest struct {
	Path    string
	ACL     []ACL
	Version int32 // expected ACL version; -1 matches any
}

// CheckRequest is the body of opcode 13, inside a multi.
type CheckRequest struct {
	Path    string
	Version int32 // expected data version; -1: the node must merely exist
}

// PathWatchRequest is the body of exists, getData, getChildren and getChildren2.
type PathWatchRequest struct {
	Path  string
	Watch bool
}

// PathRequest is the body of getACL, sync, getEphemerals (a prefix) and
// getAllChildrenNumber, and the response of create and sync.
type PathRequest struct {
	Path string
}

// ReconfigRequest is the body of opcode 16.
type ReconfigRequest struct {
	Joining     string
	Leaving     string
	NewMembers  string
	CurConfigID int64
}

// WatcherType selects watches in removeWatches and checkWatches.
type WatcherType int32

// The watcher types (Watcher.WatcherType in Apache ZooKeeper).
const (
	WatcherChildren            WatcherType = 1
	WatcherData                WatcherType = 2
	WatcherAny                 WatcherType = 3
	WatcherPersistent          WatcherType = 4
	WatcherPersistentRecursive WatcherType = 5
)

// WatchesRequest is the body of removeWatches and checkWatches.
type WatchesRequest struct {
	Path string
	Type WatcherType
}

// The modes of addWatch.
const (
	AddWatchPersistent          int32 = 0
	AddWatchPersistentRecursive int32 = 1
)

// AddWatchRequest is the body of opcode 106.
type AddWatchRequest struct {
	Path string
	Mode int32
}

// SetWatches2 is the body of opcode 105, and with the last two lists absent of opcode 101.
type SetWatches2 struct {
	RelativeZxid               int64
	DataWatches                []string
	ExistWatches               []string
	ChildWatches               []string
	PersistentWatches          []string
	PersistentRecursiveWatches []string
}

// AuthPacket is the body of opcode 100.
type AuthPacket struct {
	Type   int32 // ignored
	Scheme string
	Auth   []byte // aliases the frame; nil is null
}

// SASLToken is the body and the response of opcode 102.
type SASLToken struct {
	Token []byte // aliases the frame; nil is null
}

// ClientInfo is one identity in the response of whoAmI.
type ClientInfo struct {
	Scheme string
	User   string
}

// MultiHeader precedes every operation and every result of a multi, and ends the list with
// {-1, true, -1}.
type MultiHeader struct {
	Op   OpCode
	Done bool
	Err  Code
}

// EventType says what happened to a watched path.
type EventType int32

// The event types that travel on the wire.
const (
	EventNodeCreated         EventType = 1
	EventNodeDeleted         EventType = 2
	EventNodeDataChanged     EventType = 3
	EventNodeChildrenChanged EventType = 4
)

// KeeperStateSyncConnected is the only state that travels in a watch event.
const KeeperStateSyncConnected int32 = 3

// WatcherEvent is the body of a notification.
type WatcherEvent struct {
	Type  EventType
	State int32
	Path  string
}
