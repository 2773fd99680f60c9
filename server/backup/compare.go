package backup

import (
	"bytes"
	"strings"

	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/znode"
	"github.com/zkd-project/zkd/wire"
)

// A Kind says what is different about a node.
type Kind byte

// The kinds, as they are shown.
const (
	Added   Kind = '+' // the second machine alone has it
	Removed Kind = '-' // the first one alone has it
	Changed Kind = '~' // both have it, with other content
)

// A Difference is a node that two machines have not alike.
type Difference struct {
	Kind Kind
	Path string
	What string // Changed: of data, acl, kind, owner, stat those that differ, with commas between
}

// Rules say what counts as a difference.
type Rules struct {
	Path       string // look at this node and below it alone; "/": at everything
	Persistent bool   // ephemeral nodes do not count
	Stat       bool   // zxids, versions and times count, too
}

// Compare calls f for each difference, in the order of a walk through the tree.
func Compare(a, b *state.Machine, r Rules, f func(Difference)) {
	c := comparer{a: a, b: b, r: r, f: f}
	c.pair(r.Path, c.visible(a.Tree().Lookup(r.Path)), c.visible(b.Tree().Lookup(r.Path)))
}

type comparer struct {
	a, b *state.Machine
	r    Rules
	f    func(Difference)
}

// visible is n unless it does not count.
func (c *comparer) visible(n *znode.Node) *znode.Node {
	if n != nil && c.r.Persistent && n.Kind() == znode.Ephemeral {
		return nil
	}
	return n
}

// pair compares what the machines have at a path; nil: nothing.
func (c *comparer) pair(path string, na, nb *znode.Node) {
	switch {
	case na == nil && nb == nil:
		return
	case na == nil:
		c.f(Difference{Kind: Added, Path: path})
	case nb == nil:
		c.f(Difference{Kind: Removed, Path: path})
	default:
		if what := c.what(na, nb); what != "" {
			c.f(Difference{Changed, path, what})
		}
	}
	below := path
	if path == "/" {
		below = ""
	}
	as, bs := children(c.a, na), children(c.b, nb)
	for len(as)+len(bs) > 0 {
		name := ""
		switch {
		case len(bs) == 0 || len(as) > 0 && as[0] < bs[0]:
			name, as = as[0], as[1:]
		case len(as) == 0 || bs[0] < as[0]:
			name, bs = bs[0], bs[1:]
		default:
			name, as, bs = as[0], as[1:], bs[1:]
		}
		c.pair(below+"/"+name, c.visible(child(c.a, na, name)), c.visible(child(c.b, nb, name)))
	}
}

func children(m *state.Machine, n *znode.Node) []string {
	if n == nil {
		return nil
	}
	return m.Tree().Children(n)
}

func child(m *state.Machine, n *znode.Node, name string) *znode.Node {
	if n == nil {
		return nil
	}
	return m.Tree().Child(n, name)
}

// what says in what two nodes differ.
func (c *comparer) what(na, nb *znode.Node) string {
	la, lb := c.a.ACLs().List(na.ACL()), c.b.ACLs().List(nb.ACL())
	var what []string
	for _, part := range [...]struct {
		name   string
		differ bool
	}{
		{"data", (na.Data() == nil) != (nb.Data() == nil) || !bytes.Equal(na.Data(), nb.Data())},
		{"acl", !bytes.Equal(wire.AppendACLs(nil, la), wire.AppendACLs(nil, lb))},
		{"kind", na.Kind() != nb.Kind() || na.TTLMs() != nb.TTLMs()},
		{"owner", na.Owner() != nb.Owner()},
		{"stat", c.r.Stat && na.Stat() != nb.Stat()},
	} {
		if part.differ {
			what = append(what, part.name)
		}
	}
	return strings.Join(what, ",")
}
