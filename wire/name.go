package wire

import "strconv"

// String returns ZooKeeper's name of the opcode (Request.op2String), as in "create2".
func (o OpCode) String() string {
	switch o {
	case OpCloseSession:
		return "closeSession"
	case OpCreateSession:
		return "createSession"
	case OpError:
		return "error"
	case OpNotification:
		return "notification"
	case OpCreate:
		return "create"
	case OpDelete:
		return "delete"
	case OpExists:
		return "exists"
	case OpGetData:
		return "getData"
	case OpSetData:
		return "setData"
	case OpGetACL:
		return "getACL"
	case OpSetACL:
		return "setACL"
	case OpGetChildren:
		return "getChildren"
	case OpSync:
		return "sync"
	case OpPing:
		return "ping"
	case OpGetChildren2:
		return "getChildren2"
	case OpCheck:
		return "check"
	case OpMulti:
		return "multi"
	case OpCreate2:
		return "create2"
	case OpReconfig:
		return "reconfig"
	case OpCheckWatches:
		return "checkWatches"
	case OpRemoveWatches:
		return "removeWatches"
	case OpCreateContainer:
		return "createContainer"
	case OpDeleteContainer:
		return "deleteContainer"
	case OpCreateTTL:
		return "createTTL"
	case OpMultiRead:
		return "multiRead"
	case OpAuth:
		return "auth"
	case OpSetWatches:
		return "setWatches"
	case OpSASL:
		return "sasl"
	case OpGetEphemerals:
		return "getEphemerals"
	case OpGetAllChildrenNumber:
		return "getAllChildrenNumber"
	case OpSetWatches2:
		return "setWatches2"
	case OpAddWatch:
		return "addWatch"
	case OpWhoAmI:
		return "whoAmI"
	}
	return "unknown " + strconv.Itoa(int(o))
}

// codeNames holds, for each code, ZooKeeper's name (KeeperException.Code) and what it says
// to someone who reads an error message.
var codeNames = map[Code]struct{ name, text string }{
	OK:                           {"OK", "ok"},
	SystemError:                  {"SYSTEMERROR", "system error"},
	RuntimeInconsistency:         {"RUNTIMEINCONSISTENCY", "not tried because an earlier operation of the multi failed"},
	DataInconsistency:            {"DATAINCONSISTENCY", "data inconsistency"},
	ConnectionLoss:               {"CONNECTIONLOSS", "connection lost, the outcome is unknown"},
	MarshallingError:             {"MARSHALLINGERROR", "the request cannot be decoded"},
	Unimplemented:                {"UNIMPLEMENTED", "the server does not support the operation"},
	OperationTimeout:             {"OPERATIONTIMEOUT", "operation timed out"},
	BadArguments:                 {"BADARGUMENTS", "bad arguments"},
	UnknownSession:               {"UNKNOWNSESSION", "unknown session"},
	NewConfigNoQuorum:            {"NEWCONFIGNOQUORUM", "no quorum of the new configuration is in sync"},
	ReconfigInProgress:           {"RECONFIGINPROGRESS", "another reconfiguration is in progress"},
	APIError:                     {"APIERROR", "api error"},
	NoNode:                       {"NONODE", "node does not exist"},
	NoAuth:                       {"NOAUTH", "not permitted by the acl"},
	BadVersion:                   {"BADVERSION", "version is not the expected one"},
	NoChildrenForEphemerals:      {"NOCHILDRENFOREPHEMERALS", "ephemeral nodes cannot have children"},
	NodeExists:                   {"NODEEXISTS", "node already exists"},
	NotEmpty:                     {"NOTEMPTY", "node has children"},
	SessionExpired:               {"SESSIONEXPIRED", "session expired"},
	InvalidCallback:              {"INVALIDCALLBACK", "invalid callback"},
	InvalidACL:                   {"INVALIDACL", "invalid acl"},
	AuthFailed:                   {"AUTHFAILED", "authentication failed"},
	SessionMoved:                 {"SESSIONMOVED", "session has moved to another connection"},
	NotReadOnly:                  {"NOTREADONLY", "the server is read-only"},
	EphemeralOnLocalSession:      {"EPHEMERALONLOCALSESSION", "a local session cannot create ephemeral nodes"},
	NoWatcher:                    {"NOWATCHER", "no such watch"},
	RequestTimeout:               {"REQUESTTIMEOUT", "request timed out"},
	ReconfigDisabled:             {"RECONFIGDISABLED", "reconfiguration is disabled"},
	SessionClosedRequireSASLAuth: {"SESSIONCLOSEDREQUIRESASLAUTH", "the server requires authentication"},
	QuotaExceeded:                {"QUOTAEXCEEDED", "quota exceeded"},
	ThrottledOp:                  {"THROTTLEDOP", "the request waited too long and was not executed"},
}

// String returns ZooKeeper's name of the code (KeeperException.Code), as in "NONODE".
func (c Code) String() string {
	if n, ok := codeNames[c]; ok {
		return n.name
	}
	return "unknown " + strconv.Itoa(int(c))
}

// Error implements error, so that a client can return a code and compare with errors.Is.
// It names what happened and the code, as in "node does not exist (NONODE)".
func (c Code) Error() string {
	if n, ok := codeNames[c]; ok {
		return n.text + " (" + n.name + ")"
	}
	return "unknown error code " + strconv.Itoa(int(c))
}

// String returns ZooKeeper's name of the event (Watcher.Event.EventType).
func (t EventType) String() string {
	switch t {
	case EventNodeCreated:
		return "NodeCreated"
	case EventNodeDeleted:
		return "NodeDeleted"
	case EventNodeDataChanged:
		return "NodeDataChanged"
	case EventNodeChildrenChanged:
		return "NodeChildrenChanged"
	}
	return "unknown " + strconv.Itoa(int(t))
}

// String returns ZooKeeper's name of the watcher type (Watcher.WatcherType).
func (t WatcherType) String() string {
	switch t {
	case WatcherChildren:
		return "Children"
	case WatcherData:
		return "Data"
	case WatcherAny:
		return "Any"
	case WatcherPersistent:
		return "Persistent"
	case WatcherPersistentRecursive:
		return "PersistentRecursive"
	}
	return "unknown " + strconv.Itoa(int(t))
}
