package stats

import "github.com/zkd-project/zkd/wire"

// An opInfo is what is known of one opcode for counting.
type opInfo struct {
	op    wire.OpCode
	last  string // code in the lop field of cons (FinalRequestProcessor of Apache ZooKeeper)
	count string // the op_count_ counter it belongs to (ZooKeeper 3.10), "" for none
	write bool   // goes through the log: updatelatency, else readlatency
}

// ops lists the opcodes that are counted one by one; the rest share the last place.
var ops = [...]opInfo{
	{wire.OpCreateSession, "SESS", "create_session", true},
	{wire.OpCloseSession, "CLOS", "close_session", true},
	{wire.OpPing, "PING", "ping", false},
	{wire.OpCreate, "CREA", "create", true},
	{wire.OpCreate2, "CREA", "create", true},
	{wire.OpCreateContainer, "CREA", "create", true},
	{wire.OpCreateTTL, "CREA", "create", true},
	{wire.OpDelete, "DELE", "delete", true},
	{wire.OpDeleteContainer, "DELE", "delete", true},
	{wire.OpSetData, "SETD", "set_data", true},
	{wire.OpSetACL, "SETA", "set_acl", true},
	{wire.OpCheck, "CHEC", "check", true},
	{wire.OpMulti, "MULT", "multi", true},
	{wire.OpReconfig, "RECO", "reconfig", true},
	{wire.OpSync, "SYNC", "sync", false},
	{wire.OpExists, "EXIS", "exists", false},
	{wire.OpGetData, "GETD", "get_data", false},
	{wire.OpGetACL, "GETA", "get_acl", false},
	{wire.OpGetChildren, "GETC", "get_children", false},
	{wire.OpGetChildren2, "GETC", "get_children", false},
	{wire.OpGetAllChildrenNumber, "GETACN", "get_all_children_number", false},
	{wire.OpGetEphemerals, "GETE", "get_ephemerals", false},
	{wire.OpMultiRead, "MLTR", "multi_read", false},
	{wire.OpSetWatches, "SETW", "set_watches", false},
	{wire.OpSetWatches2, "STW2", "set_watches", false},
	{wire.OpAddWatch, "ADDW", "add_watch", false},
	{wire.OpCheckWatches, "CHKW", "check_watches", false},
	{wire.OpRemoveWatches, "REMW", "remove_watches", false},
	{wire.OpWhoAmI, "HOMI", "who_am_i", false},
	{wire.OpAuth, "NA", "", false},
	{wire.OpSASL, "NA", "", false},
	{otherOp, "NA", "", false},
}

// otherOp stands for every opcode that has no place of its own.
const (
	otherOp    wire.OpCode = -1000
	otherIndex             = len(ops) - 1
)

// opIndexes maps opcode - minOp to the index in ops.
var opIndexes = func() (t [128]uint8) {
	for i := range t {
		t[i] = uint8(otherIndex)
	}
	for i, o := range ops[:otherIndex] {
		t[o.op-minOp] = uint8(i)
	}
	return t
}()

// minOp is the smallest opcode with a place of its own (closeSession).
const minOp = wire.OpCloseSession

func opIndex(op wire.OpCode) int {
	if i := uint32(op - minOp); i < uint32(len(opIndexes)) {
		return int(opIndexes[i])
	}
	return otherIndex
}

// LastOp is the code by which cons names an opcode, such as GETD, or NA.
func LastOp(op wire.OpCode) string {
	return ops[opIndex(op)].last
}

// opKey is the key of an opcode in zkd_op_latency_ms.
func opKey(i int) string {
	if i == otherIndex {
		return otherKey
	}
	return ops[i].op.String()
}
