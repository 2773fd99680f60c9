package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/client"
)

func copyCommands() []command {
	return []command{
		{name: "cp", syntax: "[-R] [-f] source target", about: "copy a node with its access control list: -R with everything below, -f over what is there; either may be HOST:PORT/path of another server", opts: "R f", min: 2, max: 2, run: runCopy},
		{name: "mv", syntax: "source target", about: "move a node and everything below it, all or nothing", min: 2, max: 2, paths: []int{0, 1}, run: runMove},
		{name: "diff", syntax: "[-a] [-q] path path", about: "compare two subtrees: -a their access control lists, too, -q only by the exit code; either may be HOST:PORT/path of another server", opts: "a q", min: 2, max: 2, run: runDiff},
	}
}

// A place is a path on some server.
type place struct {
	view *client.Client
	path string
	own  *connection // of another server than the shell's; nil: none
}

func (p *place) close() {
	if p.own != nil {
		p.own.close()
	}
}

// place reads an argument: a path here, or HOST:PORT/path of another server, which gets a
// connection of its own with the same credentials.
func (c *call) place(ctx context.Context, i int) (*place, error) {
	arg := c.args[i]
	if host, path, ok := strings.Cut(arg, "/"); ok && host != "" && strings.Contains(host, ":") {
		if err := checkPath("/" + path); err != nil {
			return nil, err
		}
		conn, err := c.sh.settings.dial(ctx, host)
		if err != nil {
			return nil, err
		}
		return &place{view: conn.view, path: "/" + path, own: conn}, nil
	}
	if err := checkPath(arg); err != nil {
		return nil, err
	}
	return &place{view: c.view(), path: arg}, nil
}

func (c *call) places(ctx context.Context) (a, b *place, err error) {
	if a, err = c.place(ctx, 0); err != nil {
		return nil, nil, err
	}
	if b, err = c.place(ctx, 1); err != nil {
		a.close()
		return nil, nil, err
	}
	return a, b, nil
}

func runCopy(ctx context.Context, c *call) error {
	from, to, err := c.places(ctx)
	if err != nil {
		return err
	}
	defer from.close()
	defer to.close()
	if from.own == nil && to.own == nil && contains(from.path, to.path) {
		return c.wrong(to.path + " is inside of " + from.path)
	}
	load := &loader{c: to.view, target: to.path, force: c.opts.has("f")}
	left := 0
	w := walk{c: from.view, data: true, acl: true}
	w.visit = func(n *node) error {
		if n.stat.EphemeralOwner != 0 {
			left++
			return nil
		}
		if err := load.add(ctx, &record{rel: relative(n.path, from.path), data: n.data, acl: n.acl}); err != nil {
			return err
		}
		if !c.opts.has("R") {
			return errSkip
		}
		return nil
	}
	if err := w.run(ctx, from.path); err != nil {
		return err
	}
	if err := load.flush(ctx); err != nil {
		return err
	}
	return c.copied(load, left, w.refused())
}

// copied tells what has been written.
func (c *call) copied(load *loader, left int, err error) error {
	if left > 0 {
		c.note("%d ephemeral nodes were left out: they belong to their sessions", left)
	}
	if err == nil && c.format == formatJSON {
		return c.json(struct {
			Created int `json:"created"`
			Changed int `json:"changed"`
			Left    int `json:"ephemeralsLeftOut"`
		}{load.created, load.changed, left})
	}
	return err
}

// relative is path below root: "" for root itself, else with a slash before it.
func relative(path, root string) string {
	if path == root {
		return ""
	}
	if root == "/" {
		return path
	}
	return path[len(root):]
}

// A record is a node on its way: from a copy, or from a file. It becomes a persistent node: a
// server does not tell that a node is a container or has a ttl.
type record struct {
	rel  string // path relative to the root of the copy; "" for the root itself
	data []byte
	acl  []client.ACL // nil: everybody may do everything
}

// A loader writes records below a target, parents before their children, in transactions of up
// to readAhead nodes: one that fails leaves nothing of itself.
type loader struct {
	c      *client.Client
	target string
	force  bool // change what is there

	begun            bool // what is above the first record is there
	batch            []*record
	size             int
	created, changed int
}

func (l *loader) add(ctx context.Context, r *record) error {
	if !l.begun {
		l.begun = true
		if err := makeParents(ctx, l.c, l.path(r)); err != nil {
			return err
		}
	}
	l.batch = append(l.batch, r)
	l.size += len(r.data) + len(r.rel) + len(l.target) + opOverhead*(1+len(r.acl))
	if len(l.batch) < readAhead && l.size < multiBytes {
		return nil
	}
	return l.flush(ctx)
}

func (l *loader) flush(ctx context.Context) error {
	batch := l.batch
	l.batch, l.size = nil, 0
	if len(batch) == 0 {
		return nil
	}
	found := make([]bool, len(batch))
	errs := make([]error, len(batch))
	parallel(len(batch), func(i int) { _, found[i], errs[i] = l.c.Exists(ctx, l.path(batch[i])) })
	m := l.c.Multi()
	var changed []*record
	for i, r := range batch {
		path := l.path(r)
		switch {
		case errs[i] != nil:
			return errs[i]
		case !found[i]:
			m.Create(path, r.data, client.ModePersistent, r.acl)
		case path == "/" && !l.force: // always there, and nothing but the place for the rest
		case !l.force:
			return refusedf("Node already exists: %s; -f writes over it", path)
		default:
			m.Set(path, r.data, client.AnyVersion)
			changed = append(changed, r)
		}
	}
	if m.Len() == 0 {
		return nil
	}
	if _, err := m.Commit(ctx); err != nil {
		return err
	}
	l.created += m.Len() - len(changed)
	l.changed += len(changed)
	return l.setACLs(ctx, changed)
}

func (l *loader) path(r *record) string {
	switch {
	case r.rel == "":
		return l.target
	case l.target == "/":
		return r.rel
	}
	return l.target + r.rel
}

// setACLs gives nodes that were there the lists of the copy; a transaction cannot.
func (l *loader) setACLs(ctx context.Context, changed []*record) error {
	for _, r := range changed {
		if r.acl == nil {
			continue
		}
		if _, err := l.c.SetACL(ctx, l.path(r), r.acl, client.AnyVersion); err != nil {
			return err
		}
	}
	return nil
}

// runMove creates the target and deletes the source in one transaction. The versions make it
// fail when somebody has changed anything meanwhile.
func runMove(ctx context.Context, c *call) error {
	from := c.args[0]
	to := c.args[1]
	if contains(from, to) {
		return c.wrong(to + " is inside of " + from)
	}
	view := c.view()
	m, size := view.Multi(), 0
	var deletes []client.Op
	w := walk{c: view, data: true, acl: true, system: true}
	w.visit = func(n *node) error {
		if n.stat.EphemeralOwner != 0 {
			return refusedf("%s is an ephemeral node of the session 0x%x and cannot be moved", n.path, uint64(n.stat.EphemeralOwner))
		}
		path := under(n.path, from, to)
		if size += len(n.data) + len(path) + len(n.path) + 3*opOverhead; size > multiBytes {
			return refusedf("%s does not fit into one transaction of %d KiB; use cp -R and then deleteall", from, multiBytes>>10)
		}
		m.Create(path, n.data, client.ModePersistent, n.acl)
		deletes = append(deletes, view.OpDelete(n.path, n.stat.Version))
		return nil
	}
	if err := w.run(ctx, from); err != nil {
		return err
	}
	if err := w.refused(); err != nil {
		return err
	}
	slices.Reverse(deletes)
	if _, err := m.Add(deletes...).Commit(ctx); err != nil {
		return err
	}
	if c.format == formatJSON {
		return c.json(struct {
			Path  string `json:"path"`
			Moved int    `json:"moved"`
		}{to, len(deletes)})
	}
	return nil
}

// A fingerprint is what diff compares of a node.
type fingerprint struct {
	sum   [sha256.Size]byte
	bytes int
	acl   string
}

func runDiff(ctx context.Context, c *call) error {
	a, b, err := c.places(ctx)
	if err != nil {
		return err
	}
	defer a.close()
	defer b.close()
	left, err := c.fingerprints(ctx, a)
	if err != nil {
		return err
	}
	right, err := c.fingerprints(ctx, b)
	if err != nil {
		return err
	}
	all := slices.Collect(maps.Keys(left))
	for rel := range right {
		if _, ok := left[rel]; !ok {
			all = append(all, rel)
		}
	}
	slices.SortFunc(all, func(x, y string) int { // a node before what is below it
		return bytes.Compare([]byte(strings.ReplaceAll(x, "/", "\x00")), []byte(strings.ReplaceAll(y, "/", "\x00")))
	})
	differ := false
	for _, rel := range all {
		l, inLeft := left[rel]
		r, inRight := right[rel]
		if inLeft && inRight && l == r {
			continue
		}
		differ = true
		if c.opts.has("q") {
			break
		}
		if err := c.printDifference(rel, l, r, inLeft, inRight); err != nil {
			return err
		}
	}
	if differ {
		return errDiffers
	}
	return nil
}

// fingerprints reads a subtree. One that cannot be read as a whole cannot be compared.
func (c *call) fingerprints(ctx context.Context, p *place) (map[string]fingerprint, error) {
	out := map[string]fingerprint{}
	w := walk{c: p.view, data: true, acl: c.opts.has("a")}
	w.visit = func(n *node) error {
		out[relative(n.path, p.path)] = fingerprint{
			sum: sha256.Sum256(n.data), bytes: len(n.data), acl: strings.Join(formatACL(n.acl), ","),
		}
		return nil
	}
	if err := w.run(ctx, p.path); err != nil {
		return nil, err
	}
	return out, w.refused()
}

func (c *call) printDifference(rel string, l, r fingerprint, inLeft, inRight bool) error {
	if rel == "" {
		rel = "/"
	}
	sign, why := "~", ""
	switch {
	case !inRight:
		sign, why = "-", "only in "+c.args[0]
	case !inLeft:
		sign, why = "+", "only in "+c.args[1]
	case l.sum != r.sum:
		why = fmt.Sprintf("data: %d and %d bytes", l.bytes, r.bytes)
	default:
		why = "acl: " + l.acl + " and " + r.acl
	}
	switch c.format {
	case formatJSON:
		return c.json(struct {
			Sign string `json:"sign"`
			Path string `json:"path"`
			Why  string `json:"why"`
		}{sign, rel, why})
	case formatRaw:
		c.printf("%s %s\n", sign, rel)
	default:
		c.printf("%s %s  (%s)\n", sign, rel, why)
	}
	return nil
}
