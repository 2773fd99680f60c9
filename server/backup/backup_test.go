package backup

import (
	"fmt"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/znode"
	"github.com/zkd-project/zkd/wire"
)

const session int64 = 0x0100000000000001

// readers is the list that /zookeeper/config has as well.
var readers = []wire.ACL{{Perms: wire.PermRead, ID: wire.ID{Scheme: "world", ID: "anyone"}}}

// machine has a node for each path, with data and what change does to it.
func machine(t *testing.T, change func(path string, data *string, list *[]wire.ACL, p *znode.Persisted), paths ...string) *state.Machine {
	t.Helper()
	m := state.New()
	if err := m.ImportSession(session, [16]byte{1}, 5000); err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		data, list, p := "x", acl.Open(), znode.Persisted{Czxid: 1, Mzxid: 1, Pzxid: 1}
		change(path, &data, &list, &p)
		if ok, err := m.ImportNode(path, []byte(data), list, p); !ok || err != nil {
			t.Fatal(path, err)
		}
	}
	return m
}

func unchanged(string, *string, *[]wire.ACL, *znode.Persisted) {}

func TestDifferencesAreFound(t *testing.T) {
	a := machine(t, unchanged, "/a", "/a/data", "/a/gone", "/a/gone/below", "/a/kind", "/a/list", "/a/stat", "/a-b", "/e")
	b := machine(t, func(path string, data *string, list *[]wire.ACL, p *znode.Persisted) {
		switch path {
		case "/a/data":
			*data = "y"
		case "/a/kind":
			p.Owner = znode.ContainerOwner
		case "/a/list":
			*list = readers
		case "/a/stat":
			p.Mzxid = 2
		case "/e", "/f":
			p.Owner = znode.SessionOwner(session)
		}
	}, "/a", "/a/data", "/a/kind", "/a/list", "/a/new", "/a/stat", "/a-b", "/e", "/f")
	for _, tt := range []struct {
		rules Rules
		want  []string
	}{
		{Rules{Path: "/"}, []string{
			"~/a/data data", "-/a/gone", "-/a/gone/below", "~/a/kind kind", "~/a/list acl", "+/a/new", "~/e kind,owner", "+/f",
		}},
		{Rules{Path: "/a/stat", Stat: true}, []string{"~/a/stat stat"}},
		{Rules{Path: "/e", Persistent: true}, []string{"-/e"}},
		{Rules{Path: "/f", Persistent: true}, nil},
		{Rules{Path: "/a-b"}, nil},
		{Rules{Path: "/none"}, nil},
	} {
		var got []string
		Compare(a, b, tt.rules, func(d Difference) {
			text := fmt.Sprintf("%c%s", d.Kind, d.Path)
			if d.What != "" {
				text += " " + d.What
			}
			got = append(got, text)
		})
		if !slices.Equal(got, tt.want) {
			t.Errorf("%+v: %v, want %v", tt.rules, got, tt.want)
		}
	}
}

func TestSummaryTellsOfTheLargestSubtrees(t *testing.T) {
	m := machine(t, func(path string, data *string, list *[]wire.ACL, p *znode.Persisted) {
		switch path {
		case "/big/one":
			*data = "much more than elsewhere"
			*list = readers
		case "/e":
			p.Owner = znode.SessionOwner(session)
		case "/c":
			p.Owner = znode.ContainerOwner
		case "/t":
			p.Owner = znode.TTLOwner(5)
		}
	}, "/big", "/big/one", "/c", "/e", "/small", "/small/a", "/small/a/b", "/small/a/b/c", "/t")
	s := Summarize(m, 2)
	want := []Subtree{{"/big", 2, 25}, {"/small", 4, 4}}
	if !slices.Equal(s.Largest, want) {
		t.Errorf("%+v", s.Largest)
	}
	if s.Znodes != 14 || s.Ephemerals != 1 || s.Containers != 1 || s.TTLs != 1 || s.Sessions != 1 || s.Lists != 1 || s.DataBytes != 32 || s.Digest != m.Digest() {
		t.Errorf("%+v", s)
	}
	if len(Summarize(m, 100).Largest) != 4 {
		t.Errorf("%+v", Summarize(m, 100).Largest)
	}
}
