package cli

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/zkd-project/zkd/client"
)

// readAhead is how many nodes are read at once: it hides the round trips, and what waits in
// memory is at most that many nodes per level of the tree.
const readAhead = 64

// errSkip, returned by visit, leaves out what is below the node.
var errSkip = errors.New("skip")

// A node is one that a walk has come to.
type node struct {
	path string
	stat client.Stat
	data []byte       // if asked for
	acl  []client.ACL // if asked for
}

// A walk goes over a subtree: a node before its children, these in the order of their names.
// It is no snapshot: the tree may change under it. Nodes that vanish meanwhile are left out.
type walk struct {
	c      *client.Client
	data   bool // read the data
	acl    bool // read the access control lists
	system bool // go into /zookeeper, too, when the root is above it
	visit  func(*node) error
	denied []string // paths that may not be read; the walk goes on beside them
}

// run walks. The root must be there, and readable.
func (w *walk) run(ctx context.Context, root string) error {
	n := &node{path: root}
	if err := w.load(ctx, n); err != nil {
		return err
	}
	return w.descend(ctx, n)
}

func (w *walk) load(ctx context.Context, n *node) error {
	var err error
	if w.data {
		n.data, n.stat, err = w.c.Get(ctx, n.path)
	} else {
		var found bool
		n.stat, found, err = w.c.Exists(ctx, n.path)
		if err == nil && !found {
			err = &client.Error{Op: "exists", Path: n.path, Err: client.ErrNoNode}
		}
	}
	if err == nil && w.acl {
		n.acl, _, err = w.c.GetACL(ctx, n.path)
	}
	return err
}

func (w *walk) descend(ctx context.Context, n *node) error {
	if err := w.visit(n); err != nil {
		if errors.Is(err, errSkip) {
			return nil
		}
		return err
	}
	if n.stat.NumChildren == 0 {
		return nil
	}
	names, _, err := w.c.Children(ctx, n.path)
	if err != nil {
		return w.tolerate(n.path, err)
	}
	if !w.system && n.path == "/" && w.c.Root() == "/" {
		names = slices.DeleteFunc(names, func(name string) bool { return name == "zookeeper" })
	}
	slices.Sort(names)
	for chunk := range slices.Chunk(names, readAhead) {
		nodes := make([]*node, len(chunk))
		errs := make([]error, len(chunk))
		parallel(len(chunk), func(i int) {
			nodes[i] = &node{path: join(n.path, chunk[i])}
			errs[i] = w.load(ctx, nodes[i])
		})
		for i, child := range nodes {
			if errs[i] != nil {
				if err := w.tolerate(child.path, errs[i]); err != nil {
					return err
				}
				continue
			}
			if err := w.descend(ctx, child); err != nil {
				return err
			}
			nodes[i] = nil
		}
	}
	return nil
}

// tolerate lets the walk go on past a node that vanished or may not be read.
func (w *walk) tolerate(path string, err error) error {
	switch {
	case isGone(err):
		return nil
	case errors.Is(err, client.ErrNoAuth):
		w.denied = append(w.denied, path)
		return nil
	}
	return err
}

// refused is the error of a walk that had to leave something out.
func (w *walk) refused() error {
	switch len(w.denied) {
	case 0:
		return nil
	case 1:
		return refusedf("Insufficient permission : %s", w.denied[0])
	}
	return refusedf("Insufficient permission : %s and %d more", w.denied[0], len(w.denied)-1)
}

func isGone(err error) bool { return errors.Is(err, client.ErrNoNode) }

// parallel runs f for 0 to n-1 at the same time.
func parallel(n int, f func(int)) {
	if n == 1 {
		f(0)
		return
	}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

// walkNames visits the paths of a subtree without reading the nodes, in the order of zkCli's
// ls -R: all children of a node, and then what is below each of them.
func walkNames(ctx context.Context, c *client.Client, root string, visit func(path string) error) error {
	names, _, err := c.Children(ctx, root)
	if err != nil {
		return err
	}
	if err := visit(root); err != nil {
		return err
	}
	return below(ctx, c, root, names, visit)
}

func below(ctx context.Context, c *client.Client, path string, names []string, visit func(string) error) error {
	slices.Sort(names)
	for _, name := range names {
		if err := visit(join(path, name)); err != nil {
			return err
		}
	}
	for chunk := range slices.Chunk(names, readAhead) {
		lists := make([][]string, len(chunk))
		errs := make([]error, len(chunk))
		parallel(len(chunk), func(i int) { lists[i], _, errs[i] = c.Children(ctx, join(path, chunk[i])) })
		for i, name := range chunk {
			if isGone(errs[i]) {
				continue
			}
			if errs[i] != nil {
				return errs[i]
			}
			if err := below(ctx, c, join(path, name), lists[i], visit); err != nil {
				return err
			}
		}
	}
	return nil
}

// listAll is ls -R. With watch it leaves a watch for the root's data and for the children of
// every node, as zkCli does.
func listAll(ctx context.Context, c *call, root string, watch bool) error {
	print := func(path string) error {
		if c.format == formatJSON {
			return c.json(path)
		}
		c.printf("%s\n", path)
		return nil
	}
	if !watch {
		return walkNames(ctx, c.view(), root, print)
	}
	if _, _, w, err := c.view().GetW(ctx, root); err != nil {
		return err
	} else {
		c.sh.await(w, kindData)
	}
	return walkNames(ctx, c.view(), root, func(path string) error {
		if _, _, err := list(ctx, c, path, true); err != nil && !isGone(err) {
			return err
		}
		return print(path)
	})
}
