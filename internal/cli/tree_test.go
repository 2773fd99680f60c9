package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/client"
)

func TestTreeIsDrawn(t *testing.T) {
	f := newFixture(t)
	f.create("/t=xx", "/t/b", "/t/b/c=data", "/t/b/d", "/t/a")
	require.Equal(t, "/t\n├── a\n└── b\n    ├── c\n    └── d\n", f.ok("tree", "/t"))
	require.Equal(t, "/t  [2 B, 2 children]\n├── a  [0 B, 0 children]\n└── b  [0 B, 2 children]\n", f.ok("tree", "-s", "-L", "1", "/t"))
	require.JSONEq(t, `{"name":"/t","path":"/t","bytes":2,"children":[{"name":"a","path":"/t/a","bytes":0},
		{"name":"b","path":"/t/b","bytes":0}]}`, f.ok("-o", "json", "tree", "-L", "1", "/t"))
}

func TestFindGoesByNameOwnerAndSize(t *testing.T) {
	f := newFixture(t)
	f.create("/t", "/t/lock-1=xyz", "/t/other", "/t/other/lock-2")
	_, _, err := f.c.Create(t.Context(), "/t/e", nil, client.ModeEphemeral, nil)
	require.NoError(t, err)
	require.Equal(t, "/t/lock-1\n/t/other/lock-2\n", f.ok("find", "-n", "lock-*", "/t"))
	require.Equal(t, "/t/e\n", f.ok("find", "-e", "/t"))
	require.Equal(t, "/t/e\n", f.ok("find", "-O", hex(f.c.SessionID()), "/t"))
	require.Equal(t, "/t/lock-1\n", f.ok("find", "-b", "3", "/t"))
	require.Empty(t, f.ok("find", "-b", "3", "-e", "/t"))
}

func TestGrepSearchesData(t *testing.T) {
	f := newFixture(t)
	f.create("/t=first\nHost=a\nlast", "/t/b=host=b", "/t/c=\xff\x00host=c", "/t/d")
	require.Equal(t, "/t:Host=a\n/t/b:host=b\n/t/c: matches\n", f.ok("grep", "-i", "HOST=.", "/t"))
	require.Equal(t, "/t/b\n/t/c\n", f.ok("grep", "-l", "host", "/t"))
	require.Equal(t, exitDiffers, f.run("grep", "-F", "host=.", "/t").code)
	require.JSONEq(t, `{"path":"/t/b","lines":["host=b"]}`, strings.Split(f.ok("-o", "json", "grep", "host", "/t"), "\n")[0])
}

func TestDuCountsPerChild(t *testing.T) {
	f := newFixture(t)
	f.create("/t=1", "/t/a=22", "/t/a/x=333", "/t/b=4444")
	require.Equal(t, "2 5 /t/a\n1 4 /t/b\n4 10 /t\n", f.ok("-o", "raw", "du", "/t"))
	require.Equal(t, "NODES  BYTES  PATH\n4      10     /t\n", f.ok("du", "-s", "/t"))
}

// A walk over what may not be read goes on, and says so at the end.
func TestForbiddenNodesDoNotHideTheRest(t *testing.T) {
	f := newFixture(t)
	f.create("/t", "/t/b")
	_, _, err := f.c.Create(t.Context(), "/t/a", nil, client.ModePersistent, client.WorldACL(client.PermAdmin))
	require.NoError(t, err)
	o := f.run("find", "/t")
	require.Equal(t, outcome{exitRefused, "/t\n/t/b\n", "Insufficient permission : /t/a\n"}, o)
	o = f.run("export", "/t")
	require.Equal(t, exitRefused, o.code)
}

// More children than are read at once, and in the order of their names.
func TestWalkOfManyChildren(t *testing.T) {
	f := newFixture(t)
	f.create("/t")
	var want strings.Builder
	want.WriteString("/t\n")
	for i := range 3*readAhead + 1 {
		f.create(fmt.Sprintf("/t/n%04d", i))
		fmt.Fprintf(&want, "/t/n%04d\n", i)
	}
	require.Equal(t, want.String(), f.ok("find", "/t"))
	require.Equal(t, want.String(), f.ok("ls", "-R", "/t"))
	f.ok("deleteall", "-b", "10", "/t")
	require.Equal(t, exitRefused, f.run("stat", "/t").code)
}

func TestCopyTakesDataAndPermissions(t *testing.T) {
	f := newFixture(t)
	f.create("/a=top", "/a/x=\xff\x00", "/a/null")
	acl := client.WorldACL(client.PermRead | client.PermAdmin | client.PermWrite)
	_, _, err := f.c.Create(t.Context(), "/a/x/ro", []byte("r"), client.ModePersistent, acl)
	require.NoError(t, err)
	_, _, err = f.c.Create(t.Context(), "/a/e", nil, client.ModeEphemeral, nil)
	require.NoError(t, err)

	f.ok("cp", "/a", "/deep/er/one")
	require.Equal(t, "[]\n", f.ok("ls", "/deep/er/one"))
	o := f.run("cp", "-R", "/a", "/b")
	require.Equal(t, exitOK, o.code, o.err)
	require.Contains(t, o.err, "1 ephemeral nodes were left out")
	require.Equal(t, "/b\n/b/null\n/b/x\n/b/x/ro\n", f.ok("ls", "-R", "/b"))
	require.Equal(t, "\xff\x00", f.data("/b/x"))
	require.Equal(t, "null\n", f.ok("get", "/b/null"))
	require.Equal(t, "world:anyone:rwa\n", f.ok("-o", "raw", "getAcl", "/b/x/ro"))

	o = f.run("cp", "-R", "/a", "/b")
	require.Equal(t, exitRefused, o.code)
	require.Equal(t, "Node already exists: /b; -f writes over it\n", o.err)
	f.ok("set", "/a", "new")
	_, err = f.c.SetACL(t.Context(), "/b/x/ro", client.WorldACL(client.PermAll), client.AnyVersion)
	require.NoError(t, err)
	f.ok("cp", "-R", "-f", "/a", "/b")
	require.Equal(t, "new", f.data("/b"))
	require.Equal(t, "world:anyone:rwa\n", f.ok("-o", "raw", "getAcl", "/b/x/ro"))
}

func TestCopyAndDiffReachAnotherServer(t *testing.T) {
	f, g := newFixture(t), newFixture(t)
	f.create("/a=1", "/a/b=2")
	f.ok("cp", "-R", "/a", g.srv.Addr()+"/copy")
	require.Equal(t, "2", g.data("/copy/b"))
	require.Equal(t, outcome{}, f.run("diff", "-a", "/a", g.srv.Addr()+"/copy"))
	require.Equal(t, exitNoConnection, f.run("diff", "/a", nobody+"/copy").code)
}

func TestDiffNamesWhatDiffers(t *testing.T) {
	f := newFixture(t)
	f.create("/a=1", "/a/same=x", "/a/data=1", "/a/gone", "/b=1", "/b/same=x", "/b/data=22", "/b/new")
	o := f.run("diff", "/a", "/b")
	require.Equal(t, outcome{exitDiffers, "~ /data  (data: 1 and 2 bytes)\n- /gone  (only in /a)\n+ /new  (only in /b)\n", ""}, o)
	require.Equal(t, outcome{exitDiffers, "", ""}, f.run("diff", "-q", "/a", "/b"))
	_, err := f.c.SetACL(t.Context(), "/b/same", client.WorldACL(client.PermRead), client.AnyVersion)
	require.NoError(t, err)
	require.Equal(t, exitOK, f.run("diff", "/a/same", "/b/same").code)
	require.Equal(t, outcome{exitDiffers, "~ /\n", ""}, f.run("-o", "raw", "diff", "-a", "/a/same", "/b/same"))
}

func TestMoveIsAllOrNothing(t *testing.T) {
	f := newFixture(t)
	f.create("/a=top", "/a/x=1", "/a/x/y", "/to", "/taken")
	f.ok("mv", "/a", "/to/b")
	require.Equal(t, "/to\n/to/b\n/to/b/x\n/to/b/x/y\n", f.ok("ls", "-R", "/to"))
	require.Equal(t, exitRefused, f.run("stat", "/a").code)
	o := f.run("mv", "/to/b", "/taken")
	require.Equal(t, outcome{exitRefused, "", "Node already exists: /taken\n"}, o)
	require.Equal(t, "1", f.data("/to/b/x"), "nothing has moved")

	_, _, err := f.c.Create(t.Context(), "/to/b/e", nil, client.ModeEphemeral, nil)
	require.NoError(t, err)
	o = f.run("mv", "/to/b", "/c")
	require.Equal(t, exitRefused, o.code)
	require.Contains(t, o.err, "/to/b/e is an ephemeral node of the session")
	f.create("/big=" + strings.Repeat("x", multiBytes))
	require.Contains(t, f.run("mv", "/big", "/c").err, "does not fit into one transaction")
}

func TestOutputFormats(t *testing.T) {
	f := newFixture(t)
	f.create("/a=x y", "/a/k=\xff", "/a/n")
	for _, c := range []struct{ line, want string }{
		{"raw get /a", "x y"},
		{"raw get /a/n", ""},
		{"raw ls /a", "k\nn\n"},
		{"table ls /a", "[k, n]\n"},
		{"json ls /a", `{"path":"/a","children":["k","n"]}` + "\n"},
		{"json ls /a/n", `{"path":"/a/n","children":[]}` + "\n"},
		{"json ls -R /a", "\"/a\"\n\"/a/k\"\n\"/a/n\"\n"},
		{"json get /a", `{"path":"/a","data":"x y"}` + "\n"},
		{"json get /a/k", `{"path":"/a/k","dataBase64":"/w=="}` + "\n"},
		{"json get /a/n", `{"path":"/a/n"}` + "\n"},
		{"json getAcl /a", `{"path":"/a","acl":["world:anyone:cdrwa"]}` + "\n"},
		{"raw getAcl /a", "world:anyone:cdrwa\n"},
		{"json create /a/c", `{"path":"/a/c"}` + "\n"},
		{"raw create /a/d", "/a/d\n"},
		{"json getAllChildrenNumber /a/n", `{"path":"/a/n","allChildrenNumber":0}` + "\n"},
		{"json whoami", `[{"scheme":"ip","user":"127.0.0.1"}]` + "\n"},
		{"raw whoami", "ip: 127.0.0.1\n"},
		{"json listquota /a", "null\n"},
		{"json getEphemerals", "[]\n"},
		{"json deleteall /a/c", `{"path":"/a/c","deleted":1}` + "\n"},
		{"table get -b /a/k", "/w==\n"},
		{"table get -x /a", hexDump([]byte("x y")) + "\n"},
		{"json mv /a/d /a/m", `{"path":"/a/m","moved":1}` + "\n"},
		{"json cp /a/m /a/o", `{"created":1,"changed":0,"ephemeralsLeftOut":0}` + "\n"},
		{"json grep -F y /a", `{"path":"/a","lines":["x y"]}` + "\n"},
		{"json diff -q /a/m /a/o", ""},
		{"json du -s /a/n", `{"path":"/a/n","nodes":1,"bytes":0}` + "\n"},
	} {
		require.Equal(t, c.want, f.ok(append([]string{"-o"}, strings.Fields(c.line)...)...), c.line)
	}
	require.Contains(t, f.ok("-o", "json", "stat", "/a/n", "-o", "table"), "numChildren = 0", "the command's own -o wins")
	var stat struct {
		Stat statJSON
	}
	require.NoError(t, json.Unmarshal([]byte(f.ok("-o", "json", "stat", "/a/k")), &stat))
	require.Equal(t, int32(1), stat.Stat.DataLength)
	require.Equal(t, "0x0", stat.Stat.EphemeralOwner)
}

// The frame is that of Netty's ByteBufUtil.prettyHexDump, which zkCli 3.9 uses.
func TestHexDump(t *testing.T) {
	require.Equal(t, ""+
		"         +-------------------------------------------------+\n"+
		"         |  0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f |\n"+
		"+--------+-------------------------------------------------+----------------+\n"+
		"|00000000| 41 00 7f ff 20 30 31 32 33 34 35 36 37 38 39 61 |A... 0123456789a|\n"+
		"|00000010| 62                                              |b               |\n"+
		"+--------+-------------------------------------------------+----------------+", hexDump([]byte("A\x00\x7f\xff 0123456789ab")))
	require.Empty(t, hexDump(nil))
}

func TestReconfigReadsAFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "dynamic.cfg")
	require.NoError(t, os.WriteFile(name, []byte("# x\nserver.1=a:1:2;3\n\n server.2=b:1:2;3\nversion=100\n"), 0o600))
	members, err := membersOf(name)
	require.NoError(t, err)
	require.Equal(t, "server.1=a:1:2;3,server.2=b:1:2;3", members)
}

func TestConfigForClients(t *testing.T) {
	require.Equal(t, "100000000 127.0.0.1:21811,b:21812", clientAddresses(
		"server.1=127.0.0.1:21821:21831:participant;127.0.0.1:21811\nserver.2=b:1:2:participant;21812\nserver.3=c:1:2\nversion=100000000"))
}
