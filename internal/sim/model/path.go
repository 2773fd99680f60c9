package model

import "strings"

// validPath says whether path obeys the rules of PathUtils.validatePath of Apache ZooKeeper.
func validPath(path string) bool {
	if path == "" || path[0] != '/' {
		return false
	}
	if path == "/" {
		return true
	}
	for _, component := range strings.Split(path[1:], "/") {
		if component == "" || component == "." || component == ".." {
			return false
		}
	}
	for _, r := range path {
		if !validRune(r) {
			return false
		}
	}
	return true
}

func validRune(r rune) bool {
	switch {
	case r <= 0x1f, r >= 0x7f && r <= 0x9f:
		return false
	case r >= 0xd800 && r <= 0xf8ff: // surrogates and the private use area
		return false
	case r >= 0xfff0 && r <= 0xffff: // includes what stands for malformed UTF-8
		return false
	case r > 0xffff: // two surrogates in Java
		return false
	}
	return true
}

// plausiblePath is the weak check that create and delete begin with.
func plausiblePath(path string) bool {
	return strings.Contains(path, "/") && !strings.Contains(path, "\x00")
}
