package cli

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/internal/needs"
)

func TestExportComesBack(t *testing.T) {
	for _, format := range []string{"json", "tar"} {
		t.Run(format, func(t *testing.T) {
			f, g := newFixture(t), newFixture(t)
			f.create("/a=top", "/a/null", "/a/empty=", "/a/bin=\xff\x00\n", "/a/@data=odd name", "/a/ü ö=<&>", "/a/x", "/a/x/y=deep")
			_, err := f.c.SetACL(t.Context(), "/a/x", []client.ACL{{Perms: client.PermRead, ID: client.ID{Scheme: "ip", ID: "10.0.0.0/8"}}, {Perms: client.PermAll, ID: client.ID{Scheme: "world", ID: "anyone"}}}, -1)
			require.NoError(t, err)
			file := filepath.Join(t.TempDir(), "dump."+format)
			require.Contains(t, f.run("export", "/a", file).err, "8 nodes in "+file)
			info, err := os.Stat(file)
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

			o := g.run("import", file)
			require.Equal(t, exitOK, o.code, o.err)
			require.Contains(t, o.err, "8 nodes created, 0 changed")
			require.Equal(t, outcome{}, f.run("diff", "-a", "/a", g.srv.Addr()+"/a"))
			require.Equal(t, "null\n", g.ok("get", "/a/null"))
			require.Equal(t, "\n", g.ok("get", "/a/empty"))

			require.Equal(t, outcome{exitRefused, "", "Node already exists: /a; -f writes over it\n"}, g.run("import", file))
			g.ok("set", "/a/bin", "changed")
			g.ok("import", "-f", file)
			require.Equal(t, outcome{}, f.run("diff", "-a", "/a", g.srv.Addr()+"/a"))
			g.ok("import", file, "/else/where")
			require.Equal(t, "deep", g.data("/else/where/x/y"))
			require.Equal(t, outcome{}, f.run("diff", "-a", "/a", g.srv.Addr()+"/else/where"))
		})
	}
}

func TestExportOfTheWholeTree(t *testing.T) {
	f, g := newFixture(t), newFixture(t)
	f.create("/a=1", "/b=2", "/b/c=3")
	dump := f.ok("export", "/")
	require.NotContains(t, dump, "zookeeper")
	o := runWith(dump, "-server", g.srv.Addr(), "import", "-")
	require.Equal(t, exitOK, o.code, o.err)
	require.Equal(t, "/\n/a\n/b\n/b/c\n/zookeeper\n/zookeeper/config\n/zookeeper/quota\n", g.ok("find", "/"))
	require.Equal(t, outcome{}, f.run("diff", "/", g.srv.Addr()+"/"))
}

// An export that breaks off leaves what was there before.
func TestBrokenExportLeavesTheFile(t *testing.T) {
	f := newFixture(t)
	f.create("/a")
	_, _, err := f.c.Create(t.Context(), "/a/no", nil, client.ModePersistent, client.WorldACL(client.PermAdmin))
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "x.json")
	require.NoError(t, os.WriteFile(file, []byte("before"), 0o600))
	require.Equal(t, exitRefused, f.run("export", "/a", file).code)
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "before", string(b))
	entries, err := os.ReadDir(filepath.Dir(file))
	require.NoError(t, err)
	require.Len(t, entries, 1, "no part of it is left")
}

func TestImportReadsAnOrdinaryTar(t *testing.T) {
	tarCommand, err := exec.LookPath("tar")
	if err != nil {
		needs.Unavailable(t, "there is no tar here")
	}
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "conf/sub"), 0o755))
	for name, data := range map[string]string{"conf/@data": "of the folder", "conf/file": "f", "conf/sub/x": "1"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600))
	}
	out, err := exec.Command(tarCommand, "--sort=name", "-C", dir, "-cf", filepath.Join(dir, "x.tar"), "conf").CombinedOutput()
	if err != nil {
		needs.Unavailable(t, fmt.Sprintf("this tar cannot sort: %s", out))
	}
	f := newFixture(t)
	require.Equal(t, exitUsage, f.run("import", filepath.Join(dir, "x.tar")).code, "it does not say where to")
	o := f.run("import", filepath.Join(dir, "x.tar"), "/t")
	require.Equal(t, exitOK, o.code, o.err)
	require.Equal(t, "/t\n/t/conf\n/t/conf/file\n/t/conf/sub\n/t/conf/sub/x\n", f.ok("find", "/t"))
	require.Equal(t, "of the folder", f.data("/t/conf"))
	require.Equal(t, "1", f.data("/t/conf/sub/x"))
}

func TestDamagedArchives(t *testing.T) {
	f := newFixture(t)
	for text, want := range map[string]string{
		"":             "it ends in the middle",
		"[]":           "[ stands where { should be",
		`{"nodes":[]}`: "the format is",
		`{"format":"zkd-export","version":2,"nodes":[`:                                           "version 2",
		`{"format":"zkd-export","version":1}`:                                                    "no nodes",
		`{"format":"zkd-export","version":1,"root":"/x","nodes":[{"path":""},`:                   "byte ",
		`{"format":"zkd-export","version":1,"root":"/x","nodes":[{"path":"a"}]}`:                 "the path is not valid",
		`{"format":"zkd-export","version":1,"root":"/x","nodes":[{"path":"/a","acl":["x"]}]}`:    "scheme:id:perm",
		`{"format":"zkd-export","version":1,"root":"no","nodes":[{"path":"/a"}]}`:                "Path must start with /",
		`{"format":"zkd-export","version":1,"root":"/x","nodes":[{"path":"","dataBase64":"!"}]}`: "byte ",
	} {
		o := runWith(text, "-server", f.srv.Addr(), "import", "-")
		require.Equal(t, exitLocal, o.code, "%s: %s", text, o.err)
		require.Contains(t, o.err, want, text)
	}
	o := runWith("no tar at all", "-server", f.srv.Addr(), "import", "-F", "tar", "-")
	require.Equal(t, exitLocal, o.code, o.err)
}

// records draws a tree in the order of a walk.
func records(t *rapid.T) []*record {
	names := rapid.StringMatching(`[a-z@ü.]{1,5}x`)
	var out []*record
	var grow func(rel string, depth int)
	grow = func(rel string, depth int) {
		r := &record{rel: rel, acl: []client.ACL{}}
		if rapid.Bool().Draw(t, "has data") {
			r.data = append([]byte{}, rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "data")...)
		}
		if rapid.Bool().Draw(t, "has acl") {
			r.acl = append(r.acl, client.ACL{Perms: int32(rapid.IntRange(0, 31).Draw(t, "perms")), ID: client.ID{
				Scheme: "x509", ID: rapid.SampledFrom([]string{"a:b=", "CN=app", "CN=app,O=acme", ",", ""}).Draw(t, "id"),
			}})
		}
		out = append(out, r)
		if depth == 0 {
			return
		}
		for _, name := range rapid.SliceOfNDistinct(names, 0, 3, rapid.ID).Draw(t, "children") {
			grow(rel+"/"+name, depth-1)
		}
	}
	grow("", 3)
	return out
}

func TestArchivesHoldWhatIsPutIn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := records(t)
		for _, format := range []string{"json", "tar"} {
			var b bytes.Buffer
			var a archive = newJSONArchive(&b, "/r")
			if format == "tar" {
				a = newTarArchive(&b, "/r")
			}
			for _, r := range in {
				if err := a.add(r); err != nil {
					t.Fatal(err)
				}
			}
			if err := a.finish(); err != nil {
				t.Fatal(err)
			}
			var src source
			var err error
			if format == "tar" {
				src, err = openTarArchive(&b)
			} else {
				src, err = openJSONArchive(&b)
			}
			if err != nil || src.root() != "/r" {
				t.Fatalf("%s: root %v, %v", format, src, err)
			}
			for i, want := range in {
				got, err := src.next()
				if err != nil {
					t.Fatalf("%s: %d: %v", format, i, err)
				}
				if got.rel != want.rel || !bytes.Equal(got.data, want.data) || (got.data == nil) != (want.data == nil) ||
					strings.Join(formatACL(got.acl), ",") != strings.Join(formatACL(want.acl), ",") {
					t.Fatalf("%s: %+v came back as %+v", format, want, got)
				}
			}
			if _, err := src.next(); !errors.Is(err, io.EOF) {
				t.Fatalf("%s: behind the last: %v", format, err)
			}
		}
	})
}

// drain reads an archive to its end; what it returns must be fit for a server.
func drain(t *testing.T, src source) {
	for range 1000 {
		r, err := src.next()
		if err != nil {
			return
		}
		if r.rel != "" && checkPath(r.rel) != nil {
			t.Fatalf("the path %q came through", r.rel)
		}
	}
}

func FuzzJSONArchive(f *testing.F) {
	f.Add([]byte(`{"format":"zkd-export","version":1,"root":"/x","nodes":[{"path":"","data":"a","acl":["world:anyone:r"]},{"path":"/a"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if src, err := openJSONArchive(bytes.NewReader(b)); err == nil {
			drain(t, src)
		}
	})
}

func FuzzTarArchive(f *testing.F) {
	var b bytes.Buffer
	a := newTarArchive(&b, "/r")
	_ = a.add(&record{data: []byte("x")})
	_ = a.add(&record{rel: "/a"})
	_ = a.finish()
	f.Add(b.Bytes())
	var c bytes.Buffer
	w := tar.NewWriter(&c)
	_ = w.WriteHeader(&tar.Header{Name: "d/", Typeflag: tar.TypeDir})
	_ = w.WriteHeader(&tar.Header{Name: "d/@data", Typeflag: tar.TypeReg, Size: 1})
	_, _ = w.Write([]byte("x"))
	_ = w.Close()
	f.Add(c.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		if src, err := openTarArchive(bytes.NewReader(b)); err == nil {
			drain(t, src)
		}
	})
}
