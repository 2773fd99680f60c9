package znode

import (
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

// The rows are those of PathUtils.validatePath in Apache ZooKeeper.
func TestCheckPath(t *testing.T) {
	tests := []struct {
		path string
		ok   bool
	}{
		{"", false},
		{"a", false},
		{"a/b", false},
		{" /a", false},
		{"/", true},
		{"/a", true},
		{"/a/b", true},
		{"/zookeeper", true},
		{"/a/", false},
		{"/a/b/", false},
		{"//", false},
		{"//a", false},
		{"/a//b", false},
		{"/a//", false},
		{"/.", false},
		{"/..", false},
		{"/./a", false},
		{"/../a", false},
		{"/a/.", false},
		{"/a/..", false},
		{"/a/./b", false},
		{"/a/../b", false},
		{"/...", true},
		{"/.a", true},
		{"/a.", true},
		{"/..a", true},
		{"/a/..b/c", true},
		{"/a..", true},
		{"/\x00", false},
		{"/a\x00b", false},
		{"/a/\x00", false},
		{"/\x01", false},
		{"/a\x1f", false},
		{"/a\tb", false},
		{"/a\nb", false},
		{"/\x7f", false},
		{"/\u0080", false},
		{"/\u009f", false},
		{"/a b", true},
		{"/ ", true},
		{"/~", true},
		{"/\u00a0", true},
		{"/é", true},
		{"/日本", true},
		{"/\ud7ff", true},
		{"/\xed\xa0\x80", false}, // U+D800 as Java's modified UTF-8 would have it
		{"/\ue000", false},
		{"/\uf8ff", false},
		{"/\uf900", true},
		{"/\uffef", true},
		{"/\ufff0", false},
		{"/\ufffd", false},
		{"/\uffff", false},
		{"/\U00010000", false},
		{"/😀", false},
		{"/\U0010ffff", false},
		{"/\xff", false},
		{"/a\xc3", false},
		{"/a/b\x80/c", false},
		{"/" + strings.Repeat("x", 1<<20), true},
	}
	for _, tt := range tests {
		err := CheckPath(tt.path)
		if (err == nil) != tt.ok {
			t.Errorf("CheckPath(%.40q) = %v, want ok %v", tt.path, err, tt.ok)
		}
	}
}

func TestCheckPathDoesNotAllocate(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() {
		if CheckPath("/app/locks/_c_12345-lock-0000000123/é") != nil {
			t.Fatal("invalid")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestSplitPath(t *testing.T) {
	tests := []struct {
		path, parent, name string
		ok                 bool
	}{
		{"/a", "/", "a", true},
		{"/a/b", "/a", "b", true},
		{"/", "/", "", true},
		{"/a/.", "/a", ".", true},
		{"//a", "/", "a", true},
		{"/a/", "/a", "", true},
		{"a/b", "a", "b", true},
		{"a", "", "", false},
		{"", "", "", false},
		{"/a\x00", "", "", false},
		{"/\x00/b", "", "", false},
	}
	for _, tt := range tests {
		parent, name, ok := SplitPath(tt.path)
		if parent != tt.parent || name != tt.name || ok != tt.ok {
			t.Errorf("SplitPath(%q) = %q, %q, %v", tt.path, parent, name, ok)
		}
	}
}

func TestReservedPaths(t *testing.T) {
	for _, p := range []string{"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"} {
		if !Reserved(p) {
			t.Errorf("%s is not reserved", p)
		}
	}
	for _, p := range []string{"", "/zookeeper/", "/zookeeper/quota/a", "/a"} {
		if Reserved(p) {
			t.Errorf("%s is reserved", p)
		}
	}
}

// javaValid is PathUtils.validatePath word for word, over UTF-16 units.
func javaValid(path string) bool {
	u := utf16.Encode([]rune(path))
	if len(u) == 0 || u[0] != '/' {
		return false
	}
	if len(u) == 1 {
		return true
	}
	if u[len(u)-1] == '/' {
		return false
	}
	last := uint16('/')
	for i := 1; i < len(u); last, i = u[i], i+1 {
		c := u[i]
		switch {
		case c == 0:
			return false
		case c == '/' && last == '/':
			return false
		case c == '.' && last == '.':
			if u[i-2] == '/' && (i+1 == len(u) || u[i+1] == '/') {
				return false
			}
		case c == '.':
			if u[i-1] == '/' && (i+1 == len(u) || u[i+1] == '/') {
				return false
			}
		case c > 0 && c <= 0x1f || c >= 0x7f && c <= 0x9f || c >= 0xd800 && c <= 0xf8ff || c >= 0xfff0:
			return false
		}
	}
	return true
}

func FuzzCheckPath(f *testing.F) {
	for _, s := range []string{"", "/", "/a/b", "/a/./b", "/..", "/...", "/a\u009f", "/\U00010000", "//", "/a\xff", "/ab..", "/a/..."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		err := CheckPath(path)
		if (err == nil) != javaValid(path) {
			t.Fatalf("CheckPath(%q) = %v, ZooKeeper says valid: %v", path, err, javaValid(path))
		}
		if err == nil {
			if !utf8.ValidString(path) {
				t.Fatalf("%q is no UTF-8", path)
			}
			tree := New(0, nil)
			tree.Lookup(path) // must not panic
		}
	})
}
