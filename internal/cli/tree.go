package cli

import (
	"bytes"
	"context"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// treeCommands look at whole subtrees. zkCli has none of them.
func treeCommands() []command {
	return []command{
		{name: "tree", syntax: "[-L depth] [-s] path", about: "draw what is below a node: -L so many levels, -s with bytes and children", opts: "L: s", min: 1, max: 1, paths: []int{0}, run: runTree},
		{name: "find", syntax: "[-n glob] [-e] [-O session] [-b bytes] path", about: "list the nodes below: -n with such a name, -e ephemeral, -O of a session, -b at least so large", opts: "n|name: e|ephemeral O|owner: b|bytes:", min: 1, max: 1, paths: []int{0}, run: runFind},
		{name: "grep", syntax: "[-i] [-l] [-F] pattern path", about: "search the data of all nodes below for a regular expression: -i in either case, -l only paths, -F a plain text", opts: "i l F", min: 2, max: 2, paths: []int{1}, run: runGrep},
		{name: "du", syntax: "[-s] path", about: "count nodes and bytes of data per child: -s only the sum", opts: "s", min: 1, max: 1, paths: []int{0}, run: runDu},
	}
}

// A branch is a node of the drawing.
type branch struct {
	Name     string    `json:"name"`
	Path     string    `json:"path"`
	Bytes    int32     `json:"bytes"`
	Children []*branch `json:"children,omitempty"`
	kids     int32
}

func runTree(ctx context.Context, c *call) error {
	root := c.args[0]
	depth := -1
	if l, ok := c.opts["L"]; ok {
		var err error
		if depth, err = strconv.Atoi(l); err != nil || depth < 1 {
			return c.wrong("-L " + l + ": it is a number of levels, at least 1")
		}
	}
	var top *branch
	var line []*branch // from top to where the walk is
	w := walk{c: c.view(), system: true}
	w.visit = func(n *node) error {
		b := &branch{Name: n.path, Path: n.path, Bytes: n.stat.DataLength, kids: n.stat.NumChildren}
		if top == nil {
			top, line = b, []*branch{b}
			return nil
		}
		parent, name := split(n.path)
		for line[len(line)-1].Path != parent {
			line = line[:len(line)-1]
		}
		b.Name = name
		up := line[len(line)-1]
		up.Children = append(up.Children, b)
		if depth > 0 && len(line) >= depth {
			return errSkip
		}
		line = append(line, b)
		return nil
	}
	if err := w.run(ctx, root); err != nil {
		return err
	}
	if c.format == formatJSON {
		if err := c.json(top); err != nil {
			return err
		}
		return w.refused()
	}
	c.draw(top, "", "")
	return w.refused()
}

// draw prints a node and what is below it; head stands before the node, indent before the rest.
func (c *call) draw(b *branch, head, indent string) {
	c.printf("%s%s", head, b.Name)
	if c.opts.has("s") {
		c.printf("  [%d B, %d children]", b.Bytes, b.kids)
	}
	c.printf("\n")
	for i, child := range b.Children {
		if i == len(b.Children)-1 {
			c.draw(child, indent+"└── ", indent+"    ")
		} else {
			c.draw(child, indent+"├── ", indent+"│   ")
		}
	}
}

func runFind(ctx context.Context, c *call) error {
	root := c.args[0]
	match, err := c.criteria()
	if err != nil {
		return err
	}
	w := walk{c: c.view(), system: true}
	w.visit = func(n *node) error {
		if !match(n) {
			return nil
		}
		if c.format == formatJSON {
			return c.json(struct {
				Path string    `json:"path"`
				Stat *statJSON `json:"stat"`
			}{n.path, jsonStat(n.stat)})
		}
		c.printf("%s\n", n.path)
		return nil
	}
	if err := w.run(ctx, root); err != nil {
		return err
	}
	return w.refused()
}

// criteria reads the options of find.
func (c *call) criteria() (func(*node) bool, error) {
	var tests []func(*node) bool
	if glob, ok := c.opts["n"]; ok {
		if _, err := path.Match(glob, ""); err != nil {
			return nil, c.wrong("-n " + glob + ": it is a pattern with *, ? and [a-z]")
		}
		tests = append(tests, func(n *node) bool {
			_, name := split(n.path)
			ok, _ := path.Match(glob, name)
			return ok
		})
	}
	if c.opts.has("e") {
		tests = append(tests, func(n *node) bool { return n.stat.EphemeralOwner != 0 })
	}
	if o, ok := c.opts["O"]; ok {
		owner, err := strconv.ParseUint(strings.TrimPrefix(o, "0x"), 16, 64)
		if err != nil {
			return nil, c.wrong("-O " + o + ": it is a session id such as 0x1000a2b3c4d0000")
		}
		tests = append(tests, func(n *node) bool { return uint64(n.stat.EphemeralOwner) == owner })
	}
	if b, ok := c.opts["b"]; ok {
		least, err := strconv.Atoi(b)
		if err != nil {
			return nil, c.wrong("-b " + b + ": it is a number of bytes")
		}
		tests = append(tests, func(n *node) bool { return int(n.stat.DataLength) >= least })
	}
	return func(n *node) bool {
		for _, ok := range tests {
			if !ok(n) {
				return false
			}
		}
		return true
	}, nil
}

func runGrep(ctx context.Context, c *call) error {
	root, pattern := c.args[1], c.args[0]
	if c.opts.has("F") {
		pattern = regexp.QuoteMeta(pattern)
	}
	if c.opts.has("i") {
		pattern = "(?i)" + pattern
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return c.wrong("the pattern is no regular expression (-F takes it as plain text): " + err.Error())
	}
	found := false
	w := walk{c: c.view(), data: true, system: true}
	w.visit = func(n *node) error {
		if !re.Match(n.data) {
			return nil
		}
		found = true
		return c.printMatches(n, re)
	}
	if err := w.run(ctx, root); err != nil {
		return err
	}
	if err := w.refused(); err != nil {
		return err
	}
	if !found {
		return errDiffers
	}
	return nil
}

func (c *call) printMatches(n *node, re *regexp.Regexp) error {
	var lines []string
	if utf8.Valid(n.data) {
		for line := range bytes.Lines(n.data) {
			if line = bytes.TrimRight(line, "\r\n"); re.Match(line) {
				lines = append(lines, string(line))
			}
		}
	}
	switch {
	case c.format == formatJSON:
		return c.json(struct {
			Path  string   `json:"path"`
			Lines []string `json:"lines,omitempty"`
		}{n.path, lines})
	case c.opts.has("l"), c.format == formatRaw:
		c.printf("%s\n", n.path)
	case len(lines) == 0: // binary, or a match over more than one line
		c.printf("%s: matches\n", n.path)
	}
	if !c.opts.has("l") && c.format == formatTable {
		for _, line := range lines {
			c.printf("%s:%s\n", n.path, line)
		}
	}
	return nil
}

// A usage is one line of du.
type usage struct {
	Path  string `json:"path"`
	Nodes int64  `json:"nodes"`
	Bytes int64  `json:"bytes"`
}

func runDu(ctx context.Context, c *call) error {
	root := c.args[0]
	sum := usage{Path: root}
	var parts []*usage
	w := walk{c: c.view(), system: true}
	w.visit = func(n *node) error {
		if parent, _ := split(n.path); n.path != root && parent == root {
			parts = append(parts, &usage{Path: n.path})
		}
		sum.Nodes++
		sum.Bytes += int64(n.stat.DataLength)
		if len(parts) > 0 {
			p := parts[len(parts)-1]
			p.Nodes++
			p.Bytes += int64(n.stat.DataLength)
		}
		return nil
	}
	if err := w.run(ctx, root); err != nil {
		return err
	}
	if c.opts.has("s") {
		parts = nil
	}
	if err := c.printUsage(append(parts, &sum)); err != nil {
		return err
	}
	return w.refused()
}

func (c *call) printUsage(list []*usage) error {
	rows := [][]string{{"NODES", "BYTES", "PATH"}}
	for _, u := range list {
		switch c.format {
		case formatJSON:
			if err := c.json(u); err != nil {
				return err
			}
		case formatRaw:
			c.printf("%d %d %s\n", u.Nodes, u.Bytes, u.Path)
		default:
			rows = append(rows, []string{strconv.FormatInt(u.Nodes, 10), strconv.FormatInt(u.Bytes, 10), u.Path})
		}
	}
	if c.format == formatTable {
		c.rows(rows)
	}
	return nil
}
