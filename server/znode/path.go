package znode

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// CheckPath says what is wrong with a path that a node shall have, or nil. The rules are
// those of PathUtils.validatePath in Apache ZooKeeper, which looks at UTF-16 units: a
// character beyond U+FFFF is a pair of surrogates there and therefore forbidden, and
// malformed UTF-8 arrives as U+FFFD and is forbidden too. There is no limit on the length.
func CheckPath(path string) error {
	switch {
	case path == "":
		return errors.New("path is empty: it must start with /")
	case path[0] != '/':
		return fmt.Errorf("path %q must start with /", path)
	case path == "/":
		return nil
	case path[len(path)-1] == '/':
		return fmt.Errorf("path %q must not end with /", path)
	}
	for rest := path[1:]; ; {
		name, more, found := strings.Cut(rest, "/")
		if fault := nameFault(name); fault != "" {
			return fmt.Errorf("path %q must not %s", path, fault)
		}
		if !found {
			return nil
		}
		rest = more
	}
}

// nameFault says what one component of a path must not be or contain, "" if it is in order.
func nameFault(name string) string {
	switch name {
	case "":
		return "contain an empty name (//)"
	case ".", "..":
		return "contain the relative name " + name
	}
	for i := 0; i < len(name); {
		if c := name[i]; c >= 0x20 && c < 0x7f && c != '/' {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(name[i:])
		if forbidden(r) {
			return fmt.Sprintf("contain the character %U", r)
		}
		i += size
	}
	return ""
}

// forbidden says whether no path may contain r: control characters, surrogates and private
// use (U+D800 to U+F8FF), specials (U+FFF0 to U+FFFF), all beyond U+FFFF. A slash is none
// of a name's characters.
func forbidden(r rune) bool {
	return r < 0x20 || r == '/' || r >= 0x7f && r < 0xa0 || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
}

// SplitPath divides a path at its last slash, as ZooKeeper does before it knows whether the
// path is valid: the parent of /a/. is /a, that of //a and of /a is /. ok is false if there
// is no slash, or a NUL.
func SplitPath(path string) (parent, name string, ok bool) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 || strings.IndexByte(path, 0) >= 0 {
		return "", "", false
	}
	return path[:max(i, 1)], path[i+1:], true
}

// Reserved says whether path is one of the four nodes that always exist.
func Reserved(path string) bool {
	switch path {
	case "/", ZooKeeperPath, QuotaPath, ConfigPath:
		return true
	}
	return false
}
