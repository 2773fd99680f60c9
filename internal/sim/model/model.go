package model

import (
	"math"
	"strings"

	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/wire"
)

// The reserved paths: they always exist and cannot be deleted.
const (
	reservedZookeeper = "/zookeeper"
	reservedQuota     = "/zookeeper/quota"
	reservedConfig    = "/zookeeper/config"
)

// node is one znode. Data and ACL are replaced, never changed in place, so that copying
// the struct copies the node.
type node struct {
	data        []byte // nil is null
	acl         []wire.ACL
	czxid       int64
	mzxid       int64
	pzxid       int64
	ctimeMs     int64
	mtimeMs     int64
	version     int32
	aversion    int32
	created     int64 // children ever created, the next sequence number
	owner       int64 // session of an ephemeral, else 0
	isContainer bool
	ttlMs       int64 // of a TTL node, else 0
}

// tree maps full paths to nodes; the root is "/".
type tree map[string]node

type sessionState struct {
	password  [16]byte
	timeoutMs int32
	epoch     uint32
	origin    session.Origin
	lastReq   uint64
}

// Model is the machine after a prefix of the log.
type Model struct {
	nodes    tree
	sessions map[int64]sessionState
	zxid     int64
	term     uint64
	nowMs    int64
	level    uint32
	set      state.Settings
	members  *membership // nil: a single server without an ensemble
}

// New returns the machine before the first command: the four reserved nodes, no session.
func New() *Model {
	open := []wire.ACL{{Perms: 31, ID: wire.ID{Scheme: "world", ID: "anyone"}}}
	readOnly := []wire.ACL{{Perms: 1, ID: wire.ID{Scheme: "world", ID: "anyone"}}}
	return &Model{
		nodes: tree{
			"/":               {data: []byte{}, acl: open},
			reservedZookeeper: {data: []byte{}, acl: open},
			reservedQuota:     {data: []byte{}, acl: open},
			reservedConfig:    {data: []byte{}, acl: readOnly, aversion: -1},
		},
		sessions: map[int64]sessionState{},
		level:    1,
	}
}

// Plant makes an empty node below the root, in which so many children have been created.
func (m *Model) Plant(path string, created int64) {
	m.nodes[path] = node{acl: m.nodes["/"].acl, created: created}
}

// StartAt makes the log begin behind a transaction of another system.
func (m *Model) StartAt(zxid int64) { m.zxid = zxid }

// BeginBatch takes over what the header of a batch says: time, switches and, with a new
// term, a new epoch whose counter starts at 0.
func (m *Model) BeginBatch(h *state.BatchHeader) {
	m.set = h.Settings
	m.nowMs = max(m.nowMs, h.TimeMs)
	if h.Term != m.term {
		m.term = h.Term
		m.zxid = (m.zxid>>32 + 1) << 32
	}
}

// nextZxid gives the zxid of the next transaction. When the counter is used up the next
// epoch begins by itself.
func (m *Model) nextZxid() int64 {
	if uint32(m.zxid) == math.MaxUint32 {
		m.zxid = (m.zxid>>32 + 1) << 32
	}
	m.zxid++
	return m.zxid
}

// Apply runs one command.
func (m *Model) Apply(c *state.Command) state.Result {
	r := m.apply(c)
	r.Zxid = m.zxid
	return r
}

func (m *Model) apply(c *state.Command) state.Result {
	switch c.Kind {
	case state.KindWrite:
		return m.write(c)
	case state.KindCreateSession:
		return m.createSession(c)
	case state.KindAttach:
		return m.attach(c)
	case state.KindCloseSession:
		return m.closeSession(c)
	case state.KindExpire:
		return m.expire(c)
	case state.KindReap:
		return m.reap(c)
	case state.KindLevel:
		m.level = max(m.level, c.Level)
		return state.Result{Outcome: state.Applied}
	case state.KindMembers:
		return m.step(c)
	case state.KindSync:
		return state.Result{Outcome: state.Applied}
	default:
		panic("model: unknown kind of command")
	}
}

// clone is the deep copy that a multi works on.
func (t tree) clone() tree {
	c := make(tree, len(t))
	for path, n := range t {
		c[path] = n
	}
	return c
}

// parentOf cuts the last component off without judging the path: the parent of "/a/." is
// "/a", of "//a" it is "/", of "/a" it is "/".
func parentOf(path string) string {
	parent := path[:strings.LastIndexByte(path, '/')]
	if parent == "" {
		return "/"
	}
	return parent
}

// isUnder says whether path is p itself or a descendant of p.
func isUnder(path, p string) bool {
	return path == p || p == "/" || strings.HasPrefix(path, p+"/")
}

// children counts the direct children of path.
func (t tree) children(path string) int {
	return len(t.childPaths(path))
}

func (t tree) childPaths(path string) []string {
	var list []string
	for p := range t {
		if p != "/" && parentOf(p) == path {
			list = append(list, p)
		}
	}
	return list
}

// stat is what a client sees. The counter of the visible cversion counts creations and
// deletions of children: 2 * created - children.
func (t tree) stat(path string) wire.Stat {
	n := t[path]
	kids := t.children(path)
	return wire.Stat{
		Czxid: n.czxid, Mzxid: n.mzxid, Pzxid: n.pzxid,
		CtimeMs: n.ctimeMs, MtimeMs: n.mtimeMs,
		Version: n.version, Aversion: n.aversion,
		Cversion:       int32(2*n.created - int64(kids)),
		EphemeralOwner: n.owner,
		DataLength:     int32(len(n.data)),
		NumChildren:    int32(kids),
	}
}
