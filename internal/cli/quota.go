package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/client"
)

// Quotas are nodes that the client tool makes: /zookeeper/quota + path + /zookeeper_limits and
// beside it /zookeeper_stats, which the server keeps up to date.
const (
	quotaRoot = "/zookeeper/quota"
	limitNode = "zookeeper_limits"
	statNode  = "zookeeper_stats"
)

func quotaCommands() []command {
	return []command{
		{name: "setquota", syntax: "-n|-b|-N|-B val path", about: "limit a subtree: -n nodes and -b bytes, which only warn, -N and -B those which the server enforces", opts: "n: b: N: B:", min: 1, max: 1, paths: []int{0}, run: runSetQuota},
		{name: "listquota", syntax: "path", about: "print the limits and what they count", min: 1, max: 1, paths: []int{0}, run: runListQuota},
		{name: "delquota", syntax: "[-n|-b|-N|-B] path", about: "delete limits; without an option all of them", opts: "n b N B", min: 1, max: 1, paths: []int{0}, run: runDelQuota},
	}
}

// quotaKeys are the limits by their option.
var quotaKeys = map[string]string{"n": "count", "b": "bytes", "N": "countHardLimit", "B": "byteHardLimit"}

// A quota is the value of a limits or stats node: "count=2,bytes=-1=;byteHardLimit=10". Keys
// that were never set are missing; -1 is no limit.
type quota map[string]int64

// parseQuota reads a value. Parts that are no pair are left out.
func parseQuota(b []byte) quota {
	q := quota{}
	for pair := range strings.FieldsFuncSeq(string(b), func(r rune) bool { return r == ',' || r == ';' }) {
		k, v, _ := strings.Cut(pair, "=")
		n, err := strconv.ParseInt(strings.TrimSuffix(v, "="), 10, 64)
		if err != nil {
			n = -1
		}
		q[k] = n
	}
	return q
}

func (q quota) get(key string) int64 {
	if n, ok := q[key]; ok {
		return n
	}
	return -1
}

// String writes a value for every parser there is: count and bytes first, and before the other
// keys a "=" that makes versions before 3.7 read no further.
func (q quota) String() string {
	s := fmt.Sprintf("count=%d,bytes=%d", q.get("count"), q.get("bytes"))
	var rest []string
	for k, v := range q {
		if k != "count" && k != "bytes" {
			rest = append(rest, fmt.Sprintf(";%s=%d", k, v))
		}
	}
	if len(rest) == 0 {
		return s
	}
	slices.Sort(rest)
	return s + "=" + strings.Join(rest, "")
}

// full is the path of a node of the user's view in the whole tree, where quotas are.
func (c *call) full(path string) string { return under(path, "/", c.sh.conn.rootPath()) }

func (conn *connection) rootPath() string {
	if conn.chroot == "" {
		return "/"
	}
	return conn.chroot
}

// quotaDir is the node that holds the limits of a path of the whole tree.
func quotaDir(full string) string { return under(full, "/", quotaRoot) }

func runSetQuota(ctx context.Context, c *call) error {
	path := c.args[0]
	limits, err := c.limits()
	if err != nil {
		return err
	}
	full := c.full(path)
	if contains(quotaRoot, full) {
		return c.wrong("cannot set a quota under the path: " + quotaRoot)
	}
	if _, found, err := c.sh.conn.root.Exists(ctx, full); err != nil {
		return err
	} else if !found {
		return refusedf("%s does not exist.", path)
	}
	if err := otherQuota(ctx, c.sh.conn.root, full, path); err != nil {
		return err
	}
	return setQuota(ctx, c, full, limits)
}

// limits reads the one option of setquota.
func (c *call) limits() (quota, error) {
	given := quota{}
	for o, key := range quotaKeys {
		v, ok := c.opts[o]
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(v, 10, 64)
		least := int64(0)
		if o == "n" || o == "N" {
			least = 1
		}
		if err != nil || n < least {
			return nil, c.wrong(fmt.Sprintf("-%s %s: it is a number, at least %d", o, v, least))
		}
		given[key] = n
	}
	if len(given) != 1 {
		return nil, c.wrong("one of -n, -b, -N and -B is needed, and one at a time")
	}
	return given, nil
}

// otherQuota refuses a quota above or below another one: only the nearest would count.
func otherQuota(ctx context.Context, root *client.Client, full, path string) error {
	err := walkNames(ctx, root, quotaDir(full), func(p string) error {
		dir, name := split(p)
		if name == limitNode && dir != quotaDir(full) {
			return refusedf("%s has a child %s which has a quota", path, under(dir, quotaRoot, "/"))
		}
		return nil
	})
	if err != nil && !isGone(err) {
		return err
	}
	for p := full; p != "/"; {
		p, _ = split(p)
		_, found, err := root.Exists(ctx, join(quotaDir(p), limitNode))
		switch {
		case err != nil:
			return err
		case found && p != "/": // zkCli does not look at the root's quota either
			return refusedf("%s has a parent %s which has a quota", path, p)
		}
	}
	return nil
}

func setQuota(ctx context.Context, c *call, full string, limits quota) error {
	root, dir := c.sh.conn.root, quotaDir(full)
	limitPath, statPath := join(dir, limitNode), join(dir, statNode)
	old, _, err := root.Get(ctx, limitPath)
	switch {
	case err == nil:
		merged := parseQuota(old)
		for k, v := range limits {
			merged[k] = v
		}
		if err := warnQuota(ctx, c, merged, statPath); err != nil {
			return err
		}
		_, err = root.Set(ctx, limitPath, []byte(merged.String()), client.AnyVersion)
		return err
	case !isGone(err):
		return err
	}
	all := quota{"count": -1, "bytes": -1, "countHardLimit": -1, "byteHardLimit": -1}
	for k, v := range limits {
		all[k] = v
	}
	if err := makeParents(ctx, root, limitPath); err != nil {
		return err
	}
	for _, n := range []struct{ path, data string }{{limitPath, all.String()}, {statPath, quota{"count": 0, "bytes": 0}.String()}} {
		if _, _, err := root.Create(ctx, n.path, []byte(n.data), client.ModePersistent, nil); err != nil {
			return err
		}
	}
	return warnQuota(ctx, c, all, statPath)
}

// warnQuota says so when there is more than the limits allow already.
func warnQuota(ctx context.Context, c *call, limits quota, statPath string) error {
	data, _, err := c.sh.conn.root.Get(ctx, statPath)
	if err != nil {
		return err
	}
	stats := parseQuota(data)
	for _, kind := range []struct{ soft, hard string }{{"count", "countHardLimit"}, {"bytes", "byteHardLimit"}} {
		now := stats.get(kind.soft)
		for _, limit := range []int64{limits.get(kind.soft), limits.get(kind.hard)} {
			if limit > -1 && limit < now {
				c.printf("[Warning]: the %s quota you create is less than the existing %s:%d\n", kind.soft, kind.soft, now)
				break
			}
		}
	}
	return nil
}

// makeParents makes the missing nodes above a path, as persistent ones.
func makeParents(ctx context.Context, c *client.Client, path string) error {
	for i := 1; i < len(path); i++ {
		if path[i] != '/' {
			continue
		}
		_, found, err := c.Exists(ctx, path[:i])
		if err == nil && !found {
			_, _, err = c.Create(ctx, path[:i], nil, client.ModePersistent, nil)
		}
		if err != nil && !errors.Is(err, client.ErrNodeExists) {
			return err
		}
	}
	return nil
}

func runListQuota(ctx context.Context, c *call) error {
	path := c.args[0]
	root, dir := c.sh.conn.root, quotaDir(c.full(path))
	if c.format == formatTable {
		c.note("absolute path is %s", join(dir, limitNode))
	}
	limits, _, err := root.Get(ctx, join(dir, limitNode))
	if isGone(err) {
		return c.noQuota(path)
	}
	if err != nil {
		return err
	}
	stats, _, err := root.Get(ctx, join(dir, statNode))
	if err != nil && !isGone(err) {
		return err
	}
	if c.format == formatJSON {
		return c.json(struct {
			Path   string `json:"path"`
			Limits quota  `json:"limits"`
			Stats  quota  `json:"stats"`
		}{path, parseQuota(limits), parseQuota(stats)})
	}
	c.printf("Output quota for %s %s\n", path, parseQuota(limits))
	if err == nil {
		c.printf("Output stat for %s %s\n", path, parseQuota(stats))
	}
	return nil
}

// noQuota is the answer where there is none: a note and success, as in zkCli; null in JSON.
func (c *call) noQuota(path string) error {
	if c.format == formatJSON {
		return c.json(nil)
	}
	c.note("quota for %s does not exist.", path)
	return nil
}

func runDelQuota(ctx context.Context, c *call) error {
	path := c.args[0]
	root, dir := c.sh.conn.root, quotaDir(c.full(path))
	data, _, err := root.Get(ctx, join(dir, limitNode))
	if isGone(err) {
		c.printf("Quota does not exist for %s\n", path)
		return nil
	}
	if err != nil {
		return err
	}
	one := quota{}
	for o, key := range quotaKeys {
		if c.opts.has(o) {
			one[key] = -1
		}
	}
	switch len(one) {
	case 0:
		return removeQuota(ctx, root, dir)
	case 1:
		all := parseQuota(data)
		for k, v := range one {
			all[k] = v
		}
		_, err = root.Set(ctx, join(dir, limitNode), []byte(all.String()), client.AnyVersion)
		return err
	}
	return c.wrong("only one of -n, -b, -N and -B at a time")
}

// removeQuota deletes the limits, and the nodes above them that hold nothing else.
func removeQuota(ctx context.Context, root *client.Client, dir string) error {
	for _, name := range []string{limitNode, statNode} {
		if err := root.Delete(ctx, join(dir, name), client.AnyVersion); err != nil && !isGone(err) {
			return err
		}
	}
	for dir != quotaRoot {
		err := root.Delete(ctx, dir, client.AnyVersion)
		if errors.Is(err, client.ErrNotEmpty) {
			return nil
		}
		if err != nil && !isGone(err) {
			return err
		}
		dir, _ = split(dir)
	}
	return nil
}
