package wire

// OpCode is the type field of a request header. The numbers are fixed by deployed clients
// (ZooDefs.OpCode in Apache ZooKeeper).
type OpCode int32

// The opcodes, in numeric order. "Write" in a comment means: goes through the log and
// takes a zxid, also when it fails.
const (
	OpCloseSession         OpCode = -11 // write
	OpCreateSession        OpCode = -10 // internal: never accepted from a client
	OpError                OpCode = -1  // internal: log and multi results only
	OpNotification         OpCode = 0   // never a request
	OpCreate               OpCode = 1   // write
	OpDelete               OpCode = 2   // write
	OpExists               OpCode = 3
	OpGetData              OpCode = 4
	OpSetData              OpCode = 5 // write
	OpGetACL               OpCode = 6
	OpSetACL               OpCode = 7 // write
	OpGetChildren          OpCode = 8
	OpSync                 OpCode = 9
	OpPing                 OpCode = 11
	OpGetChildren2         OpCode = 12
	OpCheck                OpCode = 13 // only inside multi
	OpMulti                OpCode = 14 // write
	OpCreate2              OpCode = 15 // write
	OpReconfig             OpCode = 16 // write
	OpCheckWatches         OpCode = 17
	OpRemoveWatches        OpCode = 18
	OpCreateContainer      OpCode = 19 // write
	OpDeleteContainer      OpCode = 20 // internal write
	OpCreateTTL            OpCode = 21 // write
	OpMultiRead            OpCode = 22
	OpAuth                 OpCode = 100
	OpSetWatches           OpCode = 101
	OpSASL                 OpCode = 102
	OpGetEphemerals        OpCode = 103
	OpGetAllChildrenNumber OpCode = 104
	OpSetWatches2          OpCode = 105
	OpAddWatch             OpCode = 106
	OpWhoAmI               OpCode = 107
)

// The xids that are not a client's own count.
const (
	XidNotification int32 = -1 // server to client: a watch event
	XidPing         int32 = -2 // ping; the reply carries it whatever the request carried
	XidAuth         int32 = -4 // auth packet (Java, C, kazoo)
	XidSetWatches   int32 = -8 // setWatches (C client only)
)
