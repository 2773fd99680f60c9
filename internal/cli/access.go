package cli

import (
	"context"
	"strings"

	"github.com/zkd-project/zkd/client"
)

// accessCommands are those about identities and permissions.
func accessCommands() []command {
	return []command{
		{name: "addauth", syntax: "scheme auth", about: "give the session an identity; on a terminal, without auth, it is asked for and not shown", min: 1, max: 2, run: runAddAuth},
		{name: "whoami", about: "the identities of this session", run: runWhoAmI},
		{name: "getAcl", syntax: "[-s] path", about: "print the access control list: -s with the stat", opts: "s", min: 1, max: 1, paths: []int{0}, run: runGetACL},
		{name: "setAcl", syntax: "[-s] [-v version] [-R] path acl", about: "change the access control list: -s print the stat, -R of everything below, too", opts: "s v: R", min: 2, max: 2, paths: []int{0}, run: runSetACL},
	}
}

func runAddAuth(ctx context.Context, c *call) error {
	var auth []byte
	switch {
	case len(c.args) > 1:
		auth = []byte(c.args[1])
	case c.sh.term != nil:
		secret, err := c.sh.term.secret("credentials: ")
		if err != nil {
			return err
		}
		auth = []byte(secret)
	}
	return c.view().AddAuth(ctx, c.args[0], auth)
}

func runWhoAmI(ctx context.Context, c *call) error {
	infos, err := c.view().WhoAmI(ctx)
	if err != nil {
		return err
	}
	type identity struct {
		Scheme string `json:"scheme"`
		User   string `json:"user"`
	}
	if c.format == formatJSON {
		out := []identity{}
		for _, i := range infos {
			out = append(out, identity{i.Scheme, i.User})
		}
		return c.json(out)
	}
	if c.format == formatTable {
		c.printf("Auth scheme: User\n")
	}
	for _, i := range infos {
		c.printf("%s: %s\n", i.Scheme, i.User)
	}
	return nil
}

// permLetters are the permissions in the order in which zkCli prints them.
var permLetters = []struct {
	letter rune
	perm   int32
}{
	{'c', client.PermCreate},
	{'d', client.PermDelete},
	{'r', client.PermRead},
	{'w', client.PermWrite},
	{'a', client.PermAdmin},
}

func permString(perms int32) string {
	var b strings.Builder
	for _, p := range permLetters {
		if perms&p.perm != 0 {
			b.WriteRune(p.letter)
		}
	}
	return b.String()
}

// parseACL reads "scheme:id:perms,scheme:id:perms". zkCli leaves out what it does not
// understand and goes on with the rest; here that is an error, since the rest may open a node.
func parseACL(s string) ([]client.ACL, error) {
	var list []client.ACL
	for entry := range strings.SplitSeq(s, ",") {
		a, err := parseACLEntry(entry)
		if err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	return list, nil
}

// parseACLEntry reads "scheme:id:perms". The id may have commas, as the subject of a certificate.
func parseACLEntry(entry string) (a client.ACL, err error) {
	first, last := strings.IndexByte(entry, ':'), strings.LastIndexByte(entry, ':')
	if first < 0 || first == last {
		return a, usagef("%s does not have the form scheme:id:perm", entry)
	}
	a.ID = client.ID{Scheme: entry[:first], ID: entry[first+1 : last]}
	for _, r := range entry[last+1:] {
		known := false
		for _, p := range permLetters {
			if p.letter == r {
				a.Perms |= p.perm
				known = true
			}
		}
		if !known {
			return a, usagef("Unknown perm type: %c; the permissions are c, d, r, w and a", r)
		}
	}
	return a, nil
}

// formatACL is the text that parseACL reads.
func formatACL(acl []client.ACL) []string {
	out := make([]string, len(acl))
	for i, a := range acl {
		out[i] = a.ID.Scheme + ":" + a.ID.ID + ":" + permString(a.Perms)
	}
	return out
}

func runGetACL(ctx context.Context, c *call) error {
	path := c.args[0]
	acl, stat, err := c.view().GetACL(ctx, path)
	if err != nil {
		return err
	}
	switch c.format {
	case formatJSON:
		v := struct {
			Path string    `json:"path"`
			ACL  []string  `json:"acl"`
			Stat *statJSON `json:"stat,omitempty"`
		}{Path: path, ACL: formatACL(acl)}
		if c.opts.has("s") {
			v.Stat = jsonStat(stat)
		}
		return c.json(v)
	case formatRaw:
		for _, entry := range formatACL(acl) {
			c.printf("%s\n", entry)
		}
	default:
		for _, a := range acl { // as the jute record Id prints itself
			c.printf("'%s,'%s\n: %s\n", a.ID.Scheme, a.ID.ID, permString(a.Perms))
		}
	}
	if c.opts.has("s") {
		c.printStat(stat)
	}
	return nil
}

func runSetACL(ctx context.Context, c *call) error {
	path := c.args[0]
	acl, err := parseACL(c.args[1])
	if err != nil {
		return err
	}
	v, err := c.version32()
	if err != nil {
		return err
	}
	if !c.opts.has("R") {
		stat, err := c.view().SetACL(ctx, path, acl, v)
		if err != nil {
			return err
		}
		return c.printStatOf(path, stat, c.opts.has("s"))
	}
	// The names first: a list that takes READ from us would hide what is below.
	var paths []string
	err = walkNames(ctx, c.view(), path, func(p string) error {
		paths = append(paths, p)
		return nil
	})
	if err != nil {
		return err
	}
	var firstErr error
	for _, p := range paths {
		if _, err := c.view().SetACL(ctx, p, acl, v); err != nil && !isGone(err) {
			if ctx.Err() != nil {
				return err
			}
			if firstErr == nil {
				firstErr = err
			}
		}
	}
	return firstErr
}
