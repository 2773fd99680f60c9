package model

import (
	"maps"
	"slices"

	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/wire"
)

// Zxid is the zxid of the last transaction.
func (m *Model) Zxid() int64 { return m.zxid }

// NowMs is the time of the last batch.
func (m *Model) NowMs() int64 { return m.nowMs }

// Level is the feature level.
func (m *Model) Level() uint32 { return m.level }

// Paths lists all nodes, sorted.
func (m *Model) Paths() []string { return slices.Sorted(maps.Keys(m.nodes)) }

// Node is all there is to know of one node.
type Node struct {
	Path        string
	Data        []byte // nil is null
	Stat        wire.Stat
	ACL         []wire.ACL
	Created     int64 // children ever created
	IsContainer bool
	TTLMs       int64 // of a TTL node, else 0
}

// Node describes the node at path; ok is false if there is none.
func (m *Model) Node(path string) (n Node, ok bool) {
	v, ok := m.nodes[path]
	if !ok {
		return Node{}, false
	}
	return Node{
		Path: path, Data: v.data, Stat: m.nodes.stat(path), ACL: v.acl, Created: v.created,
		IsContainer: v.isContainer, TTLMs: v.ttlMs,
	}, true
}

// Reapable lists the containers and TTL nodes that are due, sorted.
func (m *Model) Reapable() []string {
	var list []string
	for path, n := range m.nodes {
		if (n.isContainer || n.ttlMs != 0) && m.nodes.children(path) == 0 && m.due(n) {
			list = append(list, path)
		}
	}
	slices.Sort(list)
	return list
}

// Session is all there is to know of one session.
type Session struct {
	ID        int64
	Password  [16]byte
	TimeoutMs int32
	Epoch     uint32
	Origin    session.Origin
	LastReq   uint64
}

// Sessions lists all sessions in the order of their ids.
func (m *Model) Sessions() []Session {
	var list []Session
	for _, id := range slices.Sorted(maps.Keys(m.sessions)) {
		s := m.sessions[id]
		list = append(list, Session{id, s.password, s.timeoutMs, s.epoch, s.origin, s.lastReq})
	}
	return list
}
