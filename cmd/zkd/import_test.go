package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/freeport"
	"github.com/zkd-project/zkd/internal/zkdata"
	"github.com/zkd-project/zkd/server/znode"
	"github.com/zkd-project/zkd/wire"
)

// zkDirectory is a dataDir with a fresh snapshot and a log of the transactions.
func zkDirectory(t *testing.T, txns ...zkdata.Txn) (dir, log string) {
	t.Helper()
	dir = t.TempDir()
	folder := filepath.Join(dir, zkSubdir)
	require.NoError(t, os.Mkdir(folder, 0o700))
	db := zkdata.NewDatabase()
	var snapshot bytes.Buffer
	config := [][]wire.ACL{db.Node(znode.ConfigPath).ACL}
	w := zkdata.NewSnapshotWriter(&snapshot, nil, config)
	require.NoError(t, db.Walk(func(path string, n *zkdata.Node) error {
		key := zkdata.OpenACL
		if path == znode.ConfigPath {
			key = 1
		}
		w.Node(path, n.Data, key, n.Stat)
		return nil
	}))
	require.NoError(t, w.Close(0, db.Digest()))
	b := zkdata.AppendLogHeader(nil)
	for i := range txns {
		txns[i].Zxid = int64(i + 1)
		b = zkdata.AppendLogEntry(b, &txns[i])
	}
	log = filepath.Join(folder, "log.1")
	require.NoError(t, os.WriteFile(filepath.Join(folder, zkdata.SnapshotName(0)), snapshot.Bytes(), 0o600))
	require.NoError(t, os.WriteFile(log, b, 0o600))
	return dir, log
}

func someTxns() []zkdata.Txn {
	open := []wire.ACL{{Perms: wire.PermAll, ID: wire.ID{Scheme: "world", ID: "anyone"}}}
	members := "server.1=old-zk:2888:3888:participant;old-zk:2181\nversion=0"
	return []zkdata.Txn{
		{Type: zkdata.Create, Path: "/a", Data: []byte("damage me"), ACL: open, ParentCversion: 1},
		{Type: zkdata.Create, Path: "/b", Data: []byte("b"), ACL: open, ParentCversion: 2},
		{Type: zkdata.Reconfig, Path: znode.ConfigPath, Data: []byte(members), Version: -1},
	}
}

func TestImportOfDamageNamesFileAndOffsetAndWritesNothing(t *testing.T) {
	dir, log := zkDirectory(t, someTxns()...)
	b, err := os.ReadFile(log)
	require.NoError(t, err)
	b[bytes.Index(b, []byte("damage me"))]++
	require.NoError(t, os.WriteFile(log, b, 0o600))
	for _, force := range []string{"--force=false", "--force"} {
		target := filepath.Join(t.TempDir(), "data")
		code, out := runCommand(t, "import", dir, "--data-dir", target, force)
		require.Equal(t, exitBroken, code, out)
		require.Contains(t, out, "nothing was imported: "+log+", offset 16: the checksum of the transaction")
		require.NoDirExists(t, target)
	}
}

func TestImportLeavesOldMembersBehind(t *testing.T) {
	dir, _ := zkDirectory(t, someTxns()...)
	target, addr := filepath.Join(t.TempDir(), "data"), freeport.Addr(t)
	code, out := runCommand(t, "import", filepath.Join(dir, zkSubdir), "--data-dir", target)
	require.Zero(t, code, out)
	require.Contains(t, out, "are those of ZooKeeper, and are left out")
	require.Contains(t, out, "imported into "+target)
	p := start(t, target, addr)
	c := connect(t, addr)
	data, _, err := c.Get(znode.ConfigPath)
	require.NoError(t, err)
	require.Empty(t, data)
	_, stat, err := c.Get("/b")
	require.NoError(t, err)
	require.EqualValues(t, 2, stat.Czxid)
	_, err = c.Create("/new", nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	_, stat, err = c.Exists("/new")
	require.NoError(t, err)
	require.Greater(t, stat.Czxid, int64(1)<<32, "a zxid of ZooKeeper's last epoch was used again")

	zkDir := t.TempDir()
	code, out = runCommand(t, "export", "--data-dir", target, zkDir)
	require.Equal(t, exitUsage, code, out)
	require.Contains(t, out, "in use by another process")
	require.NoError(t, p.stop(syscall.SIGTERM))
	empty, err := os.ReadDir(zkDir)
	require.NoError(t, err)
	require.Empty(t, empty)
}

// What was exported can be imported: nothing is lost on the way.
func TestExportedDataComeBack(t *testing.T) {
	dir, _ := zkDirectory(t, someTxns()...)
	first, there, back := filepath.Join(t.TempDir(), "data"), t.TempDir(), filepath.Join(t.TempDir(), "data")
	code, out := runCommand(t, "import", dir, "--data-dir", first)
	require.Zero(t, code, out)
	code, out = runCommand(t, "export", "--data-dir", first, there)
	require.Zero(t, code, out)
	code, out = runCommand(t, "import", there, "--data-dir", back)
	require.Equal(t, exitBroken, code, out)
	require.Contains(t, out, "there are no transaction logs")
	code, out = runCommand(t, "import", there, "--data-dir", back, "--force")
	require.Zero(t, code, out)
	require.Contains(t, out, "7 znodes and 0 sessions at zxid 0x3")
	require.Contains(t, out, "as it had noted")
}

// Ctrl-C leaves no copy of all data behind, with the passwords of sessions.
func TestInterruptedExportLeavesNothing(t *testing.T) {
	dir, _ := zkDirectory(t, someTxns()...)
	data, above := filepath.Join(t.TempDir(), "data"), t.TempDir()
	code, out := runCommand(t, "import", dir, "--data-dir", data)
	require.Zero(t, code, out)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := export(ctx, data, "", filepath.Join(above, "zookeeper"), newProgress(io.Discard))
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "nothing was exported")
	left, err := os.ReadDir(above)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestImportAndExportSayWhatIsWrong(t *testing.T) {
	dir, _ := zkDirectory(t, someTxns()...)
	empty := t.TempDir()
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"import", dir}, "--data-dir DIR"},
		{[]string{"import"}, "name the dataDir of ZooKeeper"},
		{[]string{"import", "", "--dry-run"}, "name the dataDir of ZooKeeper"},
		{[]string{"import", filepath.Join(empty, "none"), "--dry-run"}, "name the dataDir of ZooKeeper"},
		{[]string{"import", dir, "--data-dir", filepath.Join(empty, "new"), "--id", "300"}, "--id 300: allowed: 1 to 255"},
		{[]string{"export"}, "name the directory to make"},
		{[]string{"export", "--data-dir", empty, ""}, "name the directory to make"},
		{[]string{"import", dir, "--data-dir", dir}, "is ZooKeeper's own"},
		{[]string{"import", empty, "--dry-run"}, "version-2"},
		{[]string{"import", dir, "--dry-run", "--zk-log-dir", empty}, "version-2"},
		{[]string{"export", empty}, "--data-dir DIR"},
		{[]string{"export", "--data-dir", empty, empty}, "is no data directory of zkd"},
		{[]string{"export", "--data-dir", empty, dir}, "holds data of ZooKeeper"},
	} {
		code, out := runCommand(t, tt.args...)
		require.Equal(t, exitUsage, code, "%v: %s", tt.args, out)
		require.Contains(t, out, tt.want)
		require.Equal(t, 1, strings.Count(out, "\n"), out)
	}
	list, err := os.ReadDir(empty)
	require.NoError(t, err)
	require.Empty(t, list)
}

func TestImportAndExportHelpHasExample(t *testing.T) {
	for name, want := range map[string]string{
		"import": "zkd import /var/lib/zookeeper --data-dir /var/lib/zkd",
		"export": "zkd export --data-dir /var/lib/zkd /var/lib/zookeeper",
	} {
		code, out := runCommand(t, name, "--help")
		require.Zero(t, code)
		require.Contains(t, out, want)
	}
}

func TestProgressOnTerminalAndInLog(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(0, 0)
	p := newProgress(&out)
	p.now = func() time.Time { return now }
	p.file("f", 1, 4)
	p.file("f", 2, 4) // too soon
	now = now.Add(logPause)
	p.file("f", 3, 4)
	p.file("f", 4, 4)
	p.note("watch out")
	require.Contains(t, out.String(), "percent=75")
	require.NotContains(t, out.String(), "percent=50")
	require.Contains(t, out.String(), "level=WARN msg=\"watch out\"")
	require.NotContains(t, out.String(), "\r")

	out.Reset()
	p.terminal = true
	now = now.Add(logPause)
	p.file("f", 1, 4)
	p.note("watch out")
	require.Equal(t, "\r\x1b[Kreading f: 25 %\r\x1b[Knote: watch out\n", out.String())
}
