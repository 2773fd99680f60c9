package state

import (
	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/server/znode"
	"github.com/zkd-project/zkd/wire"
)

// A multi can ask tens of thousands of times for a permission on a node whose list is as long as a
// frame, and everybody waits until it is through. So the operations of one request judge a list
// once: its identities do not change, and no Ref stands for another list before the end, since
// what a multi releases is given back behind it.

// verdicts are what lists have been found to permit to one caller. nil remembers nothing, which is
// best for a single operation.
type verdicts map[verdict]bool

type verdict struct {
	ref  acl.Ref
	perm int32
}

func (v verdicts) mayDo(m *Machine, s *acl.Settings, n *znode.Node, perm int32, ids []wire.ID) bool {
	ref := n.ACL()
	if ref == acl.OpenRef {
		return true
	}
	may, known := v[verdict{ref, perm}]
	if !known {
		may = acl.Allowed(s, m.acls.List(ref), perm, ids)
		if v != nil {
			v[verdict{ref, perm}] = may
		}
	}
	return may
}
