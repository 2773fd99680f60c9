package wire

// Code is the err field of a reply header; OK is zero. The numbers are fixed by deployed
// clients (KeeperException.Code in Apache ZooKeeper): never invent one, kazoo dies on a
// code that it does not know.
type Code int32

// The codes, with when a server sends them. Those marked "client" exist only in clients.
const (
	OK                           Code = 0
	SystemError                  Code = -1   // client
	RuntimeInconsistency         Code = -2   // in a failed multi: an operation after the failing one
	DataInconsistency            Code = -3   // client
	ConnectionLoss               Code = -4   // client: the reply is unknown
	MarshallingError             Code = -5   // the record cannot be decoded
	Unimplemented                Code = -6   // unknown opcode (the connection is closed after it), TTL while disabled
	OperationTimeout             Code = -7   // client
	BadArguments                 Code = -8   // path, flags, ttl, reconfig text
	UnknownSession               Code = -12  // internal
	NewConfigNoQuorum            Code = -13  // reconfig
	ReconfigInProgress           Code = -14  // reconfig
	APIError                     Code = -100 // client
	NoNode                       Code = -101
	NoAuth                       Code = -102 // the ACL does not permit it
	BadVersion                   Code = -103 // the expected version is neither -1 nor the current one
	NoChildrenForEphemerals      Code = -108
	NodeExists                   Code = -110
	NotEmpty                     Code = -111
	SessionExpired               Code = -112 // a write of a session that is closed or unknown
	InvalidCallback              Code = -113 // client
	InvalidACL                   Code = -114
	AuthFailed                   Code = -115 // auth or sasl; the connection is closed after it
	SessionMoved                 Code = -118 // never on the wire: the connection is closed instead
	NotReadOnly                  Code = -119 // a write on a read-only server
	EphemeralOnLocalSession      Code = -120
	NoWatcher                    Code = -121 // removeWatches, checkWatches
	RequestTimeout               Code = -122 // client
	ReconfigDisabled             Code = -123
	SessionClosedRequireSASLAuth Code = -124 // authentication is enforced; the connection is closed after it
	QuotaExceeded                Code = -125
	ThrottledOp                  Code = -127 // waited too long in the throttle queue; not executed
)
