package cli

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/client"
)

// A command is one word of the shell.
type command struct {
	name   string
	syntax string // what follows the name in the usage line; for zkCli's commands in its words
	about  string // one line for help
	opts   string // see parseSpec
	min    int    // arguments, without options
	max    int    // -1: any number
	paths  []int  // the arguments that are paths
	local  bool   // needs no connection
	run    func(ctx context.Context, c *call) error

	parsed []option
}

func (c *command) usage() string { return strings.TrimRight(c.name+" "+c.syntax, " ") }

// A call is one execution of a command.
type call struct {
	sh     *shell
	cmd    *command
	args   []string
	opts   options
	format format
	out    io.Writer
	err    io.Writer
}

// view is the tree as the user sees it, under the chroot.
func (c *call) view() *client.Client { return c.sh.conn.view }

// wrong is the error of a command that is not written as it should be.
func (c *call) wrong(problem string) error {
	return usagef("%s: %s; usage: %s", c.cmd.name, problem, c.cmd.usage())
}

// A table finds commands by name.
type table map[string]*command

// newTable returns all commands.
func newTable() table {
	t := table{}
	for _, group := range [][]command{
		shellCommands(), nodeCommands(), accessCommands(), quotaCommands(), watchCommands(),
		clusterCommands(), treeCommands(), copyCommands(), exportCommands(), lockCommands(), sessionCommands(),
	} {
		for i := range group {
			c := &group[i]
			c.parsed = append(parseSpec(c.opts), option{names: []string{"o"}, value: true})
			t[c.name] = c
		}
	}
	return t
}

// names returns the names of all commands in zkCli's order.
func (t table) names() []string {
	names := make([]string, 0, len(t))
	for n := range t {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// parse makes a call out of words.
func (sh *shell) parse(words []string) (*call, error) {
	cmd := sh.table[words[0]]
	if cmd == nil {
		return nil, usagef("Command not found: %s; help lists the commands", words[0])
	}
	c := &call{sh: sh, cmd: cmd, format: sh.settings.format, out: sh.out, err: sh.err}
	var err error
	if c.opts, c.args, err = parseOptions(cmd.parsed, words[1:]); err != nil {
		if isSecret(cmd.name) { // the message would show a part of it
			return nil, &exitError{exitUsage, cmd.usage()}
		}
		return nil, c.wrong(err.Error())
	}
	if o, ok := c.opts["o"]; ok {
		if c.format, err = parseFormat(o); err != nil {
			return nil, c.wrong(err.Error())
		}
	}
	if len(c.args) < cmd.min || cmd.max >= 0 && len(c.args) > cmd.max {
		return nil, &exitError{exitUsage, cmd.usage()}
	}
	for _, i := range cmd.paths {
		if i < len(c.args) {
			if err := checkPath(c.args[i]); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

// checkPath says what is wrong with a path, in zkCli's words (PathUtils.validatePath). The
// client would refuse it too.
func checkPath(path string) error {
	switch {
	case path == "":
		return usagef("Path length must be > 0")
	case path[0] != '/':
		return usagef("Path must start with / character")
	case path == "/":
		return nil
	case path[len(path)-1] == '/':
		return usagef("Path must not end with / character")
	}
	at := 0 // in UTF-16 units, as Java counts
	for part := range strings.SplitSeq(path[1:], "/") {
		at++
		start := at
		for _, r := range part {
			if r < 0x20 || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0 {
				return usagef("Invalid path string %q caused by invalid character @%d", path, at)
			}
			at++
		}
		switch part {
		case "":
			return usagef("Invalid path string %q caused by empty node name specified @%d", path, at)
		case ".", "..":
			return usagef("Invalid path string %q caused by relative paths not allowed @%d", path, start+len(part)-1)
		}
	}
	return nil
}

// join is the path of a child.
func join(parent, name string) string {
	if parent == "/" {
		return "/" + name
	}
	return parent + "/" + name
}

// split cuts a valid path into its parent and its last component.
func split(path string) (parent, name string) {
	i := strings.LastIndexByte(path, '/')
	if i == 0 {
		return "/", path[1:]
	}
	return path[:i], path[i+1:]
}

// under moves a path from one root to another: under("/a/b", "/a", "/x") is "/x/b".
func under(path, from, to string) string {
	rest := path
	if from != "/" {
		rest = path[len(from):]
	}
	switch {
	case rest == "" || rest == "/":
		return to
	case to == "/":
		return rest
	}
	return to + rest
}

// contains says whether path is root or lies below it.
func contains(root, path string) bool {
	return root == "/" || path == root || strings.HasPrefix(path, root+"/")
}
