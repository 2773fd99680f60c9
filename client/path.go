package client

import (
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/wire"
)

// checkPath says what is wrong with a path, or "". The rules are ZooKeeper's
// (PathUtils.validatePath); a sequential path is judged with its number, so it may end in a
// slash. A bad path is refused here because the server answers some of them with a closed
// connection or a watch that never fires.
func checkPath(path string, sequential bool) string {
	if isPlain(path) {
		return ""
	}
	return pathProblem(path, sequential)
}

// pathProblem is checkPath at length.
func pathProblem(path string, sequential bool) string {
	switch {
	case path == "":
		return "the path is empty; the root is /"
	case path[0] != '/':
		return "the path does not start with /"
	case path == "/":
		return ""
	case path[len(path)-1] == '/' && !sequential:
		return "the path ends with /"
	}
	start := 1 // of the component
	for i := 1; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		switch part := path[start:i]; {
		case part == "" && i < len(path):
			return "the path has an empty component"
		case (part == "." || part == "..") && (i < len(path) || !sequential):
			return "the path has a component . or .., which mean nothing here"
		}
		start = i + 1
	}
	for _, r := range path {
		if badRune(r) {
			return "the path has the character " + strconv.QuoteRuneToASCII(r) + ", which ZooKeeper does not allow"
		}
	}
	return ""
}

// isPlain says that a path is valid without a doubt, in one pass over its bytes: this is what
// nearly every path looks like, and every call checks one. Nothing follows from false.
func isPlain(path string) bool {
	if len(path) < 2 || path[0] != '/' {
		return false
	}
	last := path[0]
	for i := 1; i < len(path); i++ {
		b := path[i]
		if b < 0x20 || b >= 0x7f || last == '/' && (b == '/' || b == '.') {
			return false
		}
		last = b
	}
	return last != '/'
}

// badRune is protocol rule: control characters, surrogates (so everything beyond the basic
// plane), the private use area and the specials, among them U+FFFD of malformed UTF-8.
func badRune(r rune) bool {
	return r < 0x20 || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
}

// checked returns an error unless path may be sent.
func (c *Client) checked(op wire.OpCode, path string, sequential bool) error {
	problem := checkPath(path, sequential)
	if problem == "" && c.root != "" {
		problem = checkPath(c.root, false)
	}
	if problem == "" {
		return nil
	}
	return &Error{Op: op.String(), Path: path, Err: ErrBadArguments, Detail: problem}
}

// full is the server's path of a path of this view.
func (c *Client) full(path string) string {
	switch {
	case c.root == "":
		return path
	case path == "/":
		return c.root
	}
	return c.root + path
}

// local is the path of this view of a server's path.
func (c *Client) local(path string) string { return strip(c.root, path) }

// strip takes root off path. What lies outside of root stays as it is.
func strip(root, path string) string {
	if root == "" {
		return path
	}
	rest, ok := strings.CutPrefix(path, root)
	switch {
	case !ok || rest != "" && rest[0] != '/':
		return path
	case rest == "":
		return "/"
	}
	return rest
}

// split cuts a valid path into its parent and its last component.
func split(path string) (parent, name string) {
	i := strings.LastIndexByte(path, '/')
	if i == 0 {
		return "/", path[1:]
	}
	return path[:i], path[i+1:]
}

// join is the path of a child.
func join(parent, name string) string {
	if parent == "/" {
		return "/" + name
	}
	return parent + "/" + name
}

func itoa(n int) string { return strconv.Itoa(n) }
