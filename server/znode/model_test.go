package znode

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/wire"
	"pgregory.net/rapid"
)

// A model is a tree as one would write it down first: a map from path to node.
type model map[string]modelNode

type modelNode struct {
	data []byte // nil is null
	ref  acl.Ref
	st   Persisted
}

func newModel() model {
	m := model{}
	for _, p := range reservedPaths {
		m[p] = modelNode{data: []byte{}}
	}
	n := m[ConfigPath]
	n.ref, n.st.Aversion = configACL, -1
	m[ConfigPath] = n
	return m
}

func (m model) clone() model { return maps.Clone(m) }

func (m model) paths() []string { return slices.Sorted(maps.Keys(m)) }

func (m model) children(path string) []string {
	var names []string
	for p := range m {
		if parent, name, _ := SplitPath(p); p != "/" && parent == path {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (m model) below(path string) (nodes int, bytes int64) {
	for p, n := range m {
		if p != path && strings.HasPrefix(p, strings.TrimSuffix(path, "/")+"/") {
			nodes++
			bytes += int64(len(n.data))
		}
	}
	return nodes, bytes
}

func (m model) create(path string, data []byte, ref acl.Ref, owner Owner, zxid, timeMs int64) {
	parent, name, _ := SplitPath(path)
	p := m[parent]
	p.st.Cversion++
	p.st.Pzxid = zxid
	m[parent] = p
	st := Persisted{Czxid: zxid, Mzxid: zxid, Pzxid: zxid, CtimeMs: timeMs, MtimeMs: timeMs, Owner: owner}
	m[path] = modelNode{data, ref, st}
	if target, ok := quotaTarget(path); ok && name == statsName {
		m.setStats(path, m.usage(target))
	}
	m.quota(path, 1, int64(len(data)), true)
}

func (m model) delete(path string, zxid int64) {
	parent, _, _ := SplitPath(path)
	p := m[parent]
	p.st.Pzxid = zxid
	m[parent] = p
	size := int64(len(m[path].data))
	delete(m, path)
	m.quota(path, -1, -size, false)
}

func (m model) setData(path string, data []byte, zxid, timeMs int64) {
	n := m[path]
	delta := int64(len(data) - len(n.data))
	n.data = data
	n.st.Mzxid, n.st.MtimeMs = zxid, timeMs
	n.st.Version++
	m[path] = n
	if delta != 0 {
		m.quota(path, 0, delta, false)
	}
}

func (m model) setACL(path string, ref acl.Ref) {
	n := m[path]
	n.ref = ref
	n.st.Aversion = nextVersion(n.st.Aversion)
	m[path] = n
}

func (m model) usage(path string) Usage {
	n, ok := m[path]
	if !ok {
		return Usage{0, 0, -1, -1}
	}
	nodes, bytes := m.below(path)
	return Usage{int64(nodes) + 1, bytes + int64(len(n.data)), -1, -1}
}

func (m model) setStats(path string, u Usage) {
	n := m[path]
	n.data = []byte(u.String())
	m[path] = n
}

// quota looks for the longest prefix that has a limits node. A stats node that is created
// below its own quota is counted with the data that the server has put in.
func (m model) quota(path string, nodes, size int64, created bool) {
	for p := path; p != "/"; p, _, _ = SplitPath(p) {
		if _, ok := m[QuotaPath+p+"/"+limitsName]; !ok {
			continue
		}
		stats := QuotaPath + p + "/" + statsName
		n, ok := m[stats]
		if !ok {
			return
		}
		if created {
			size = int64(len(m[path].data))
		}
		u := ParseUsage(string(n.data))
		if u.Count < 0 || u.Bytes < 0 {
			u = m.usage(p)
		} else {
			u.Count += nodes
			u.Bytes += size
		}
		m.setStats(stats, u)
		return
	}
}

// zkDigest is protocol section 18.3 as it stands.
func (m model) zkDigest() uint64 {
	var sum uint64
	for p, n := range m {
		if strings.HasPrefix(p, ZooKeeperPath+"/") {
			continue
		}
		if p == "/" {
			p = ""
		}
		var b []byte
		b = append(append(b, p...), n.data...)
		for _, v := range []int64{n.st.Czxid, n.st.Mzxid, n.st.Pzxid, n.st.CtimeMs, n.st.MtimeMs} {
			b = wire.AppendInt64(b, v)
		}
		for _, v := range []int32{n.st.Version, n.st.Cversion, n.st.Aversion} {
			b = wire.AppendInt32(b, v)
		}
		b = wire.AppendInt64(b, int64(n.st.Owner))
		sum += uint64(crc32.ChecksumIEEE(b))
	}
	return sum
}

// importTree builds the model's tree in another order and by other means: its digests must
// be the same.
func (m model) importTree() (*Tree, error) {
	t := New(configACL, contentDigest)
	for _, p := range slices.Backward(m.paths()) {
		// the parents first, whatever they hold
		for i, c := range p {
			if c == '/' && i > 0 {
				if err := m.importNode(t, p[:i]); err != nil {
					return nil, err
				}
			}
		}
		if err := m.importNode(t, p); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (m model) importNode(t *Tree, path string) error {
	n := m[path]
	_, err := t.Import(path, n.data, n.ref, n.st)
	return err
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// compare fails unless the tree is the model.
func (m model) compare(t fataler, tree *Tree) {
	t.Helper()
	if err := tree.Check(); err != nil {
		t.Fatalf("%v", err)
	}
	size, owned := int64(1), map[int64][]string{}
	for _, p := range m.paths() {
		n := tree.Lookup(p)
		if n == nil {
			t.Fatalf("%s is missing", p)
		}
		m.compareNode(t, tree, p, n)
		if s := n.Owner(); s != 0 {
			owned[s] = append(owned[s], p)
		}
		size += int64(len(m[p].data))
		if p != "/" {
			size += int64(len(p))
		}
	}
	if tree.Len() != len(m) || tree.ApproximateDataSize() != size {
		t.Fatalf("%d nodes, size %d; want %d, %d", tree.Len(), tree.ApproximateDataSize(), len(m), size)
	}
	for s, paths := range owned {
		if got := tree.Ephemerals(s, ""); !slices.Equal(got, paths) {
			t.Fatalf("ephemerals of %d: %q, want %q", s, got, paths)
		}
	}
	if tree.ZKDigest() != m.zkDigest() {
		t.Fatalf("ZKDigest %d, want %d", tree.ZKDigest(), m.zkDigest())
	}
	other, err := m.importTree()
	if err != nil {
		t.Fatalf("%v", err)
	}
	if other.Digest() != tree.Digest() || other.ZKDigest() != tree.ZKDigest() {
		t.Fatalf("the digest depends on history: %x and %x", tree.Digest(), other.Digest())
	}
}

func (m model) compareNode(t fataler, tree *Tree, p string, n *Node) {
	t.Helper()
	want, names := m[p], m.children(p)
	if n.Persisted() != want.st || n.ACL() != want.ref || n.RawOwner() != want.st.Owner {
		t.Fatalf("%s: %+v, ACL %d; want %+v, %d", p, n.Persisted(), n.ACL(), want.st, want.ref)
	}
	if !bytes.Equal(n.Data(), want.data) || (n.Data() == nil) != (want.data == nil) {
		t.Fatalf("%s: data %q (%v), want %q (%v)", p, n.Data(), n.Data() == nil, want.data, want.data == nil)
	}
	if got := tree.Children(n); !slices.Equal(got, names) || n.NumChildren() != len(names) {
		t.Fatalf("%s: children %q, want %q", p, got, names)
	}
	st := n.Stat()
	if st.Cversion != 2*want.st.Cversion-int32(len(names)) || int(st.DataLength) != len(want.data) || int(st.NumChildren) != len(names) {
		t.Fatalf("%s: stat %+v", p, st)
	}
	if below, _ := m.below(p); tree.Descendants(n) != below || tree.Path(n) != p {
		t.Fatalf("%s: %d descendants, want %d; path %q", p, tree.Descendants(n), below, tree.Path(n))
	}
}

// A world is a tree and its model, changed side by side.
type world struct {
	tree    *Tree
	model   model
	zxid    int64
	before  model // at Begin
	inMulti bool
}

func newWorld() *world {
	return &world{tree: New(configACL, contentDigest), model: newModel()}
}

// step does one random operation.
func (w *world) step(t *rapid.T) {
	w.zxid++
	now := 1000 + 10*w.zxid
	path := rapid.SampledFrom(w.model.paths()).Draw(t, "path")
	n := w.tree.Lookup(path)
	switch rapid.IntRange(0, 13).Draw(t, "op") {
	case 0, 1, 2, 3, 4:
		w.create(path, drawName(t), drawData(t), drawOwner(t), acl.Ref(rapid.IntRange(0, 3).Draw(t, "acl")), now)
	case 5, 6, 7:
		if n.NumChildren() == 0 && !Reserved(path) {
			w.tree.Delete(n, w.zxid)
			w.model.delete(path, w.zxid)
		}
	case 8, 9:
		data := drawData(t)
		w.tree.SetData(n, data, w.zxid, now)
		w.model.setData(path, data, w.zxid, now)
	case 10:
		ref := acl.Ref(rapid.IntRange(0, 3).Draw(t, "acl"))
		w.tree.SetACL(n, ref)
		w.model.setACL(path, ref)
	case 11:
		w.setQuota(path, now)
	default:
		w.multi(t)
	}
}

func (w *world) create(parent, name string, data []byte, owner Owner, ref acl.Ref, now int64) {
	path := strings.TrimSuffix(parent, "/") + "/" + name
	_, exists := w.model[path]
	p, ok := w.model[parent]
	if exists || !ok || p.st.Owner.Kind() == Ephemeral {
		return
	}
	w.tree.Create(path, data, ref, owner, w.zxid, now)
	w.model.create(path, data, ref, owner, w.zxid, now)
}

// setQuota does what zkCli does.
func (w *world) setQuota(path string, now int64) {
	if path == "/" || strings.HasPrefix(path, QuotaPath) {
		return
	}
	at := QuotaPath
	for _, name := range strings.Split(path[1:], "/") {
		w.create(at, name, nil, NoOwner, 0, now)
		at += "/" + name
	}
	w.create(at, limitsName, []byte("count=3,bytes=10"), NoOwner, 0, now)
	w.create(at, statsName, []byte("count=0,bytes=0"), NoOwner, 0, now)
}

func (w *world) multi(t *rapid.T) {
	switch {
	case !w.inMulti:
		w.tree.Begin()
		w.inMulti, w.before = true, w.model.clone()
	case rapid.Bool().Draw(t, "commit"):
		w.tree.Commit()
		w.inMulti = false
	default:
		w.tree.Rollback()
		w.inMulti, w.model = false, w.before
	}
}

// settle ends a multi.
func (w *world) settle() {
	if w.inMulti {
		w.tree.Commit()
		w.inMulti = false
	}
}

func drawName(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "b", "c", "d", limitsName, statsName}).Draw(t, "name")
}

func drawData(t *rapid.T) []byte {
	i := rapid.IntRange(0, 12).Draw(t, "data")
	switch i {
	case 0:
		return nil
	case 1:
		return []byte("count=1,bytes=2=;byteHardLimit=3")
	}
	return bytes.Repeat([]byte{'x'}, i-2)
}

func drawOwner(t *rapid.T) Owner {
	return rapid.SampledFrom([]Owner{NoOwner, NoOwner, NoOwner, ContainerOwner, TTLOwner(50), SessionOwner(1), SessionOwner(2)}).Draw(t, "owner")
}

func TestTreeIsTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			w.step(t)
		}
		w.model.compare(t, w.tree)
	})
}

func TestRollbackRestoresEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		for range rapid.IntRange(0, 40).Draw(t, "steps before") {
			w.step(t)
		}
		w.settle()
		before, digest, zk := w.model.clone(), w.tree.Digest(), w.tree.ZKDigest()
		w.tree.Begin()
		w.inMulti, w.before = true, before
		for range rapid.IntRange(0, 20).Draw(t, "steps inside") {
			if w.step(t); !w.inMulti {
				return
			}
		}
		w.tree.Rollback()
		if w.tree.Digest() != digest || w.tree.ZKDigest() != zk {
			t.Fatalf("digests changed")
		}
		before.compare(t, w.tree)
	})
}

// A pointer from before Begin is good after Rollback, also when the node was deleted.
func TestNodesKeepTheirPlaceInRollback(t *testing.T) {
	tree := newTree(t)
	var nodes []*Node
	for i := range 10 {
		nodes = append(nodes, tree.Create(fmt.Sprintf("/n%d", i), []byte{byte(i)}, 0, NoOwner, 1, 1))
	}
	tree.Begin()
	for _, n := range nodes {
		tree.Delete(n, 2)
	}
	tree.Create("/other", nil, 0, NoOwner, 2, 2)
	tree.Rollback()
	for i, n := range nodes {
		if tree.Lookup(fmt.Sprintf("/n%d", i)) != n || n.Data()[0] != byte(i) {
			t.Errorf("node %d has moved", i)
		}
	}
	if tree.Lookup("/other") != nil {
		t.Error("/other is still there")
	}
}
