package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/server/replication"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/wire"
)

// withAudit turns the audit log on; file is where it goes.
func withAudit(file string) option {
	return func(s *setup) {
		set("audit.enable", "true")(s)
		set("zkd.audit.file", file)(s)
	}
}

var auditLine = regexp.MustCompile(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (INFO|ERROR) audit\.Log: (.*)$`)

// auditLines are the complete lines of an audit log, without their times.
func auditLines(t testing.TB, file string) []string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(b)) {
		text, complete := strings.CutSuffix(line, "\n")
		if !complete {
			break
		}
		m := auditLine.FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("%q is no line of an audit log", text)
		}
		out = append(out, m[1]+" "+m[2])
	}
	return out
}

// told waits until the audit log has so many lines with a text, and returns them.
func told(t testing.TB, file, text string, n int) []string {
	t.Helper()
	var found []string
	eventually(t, text+" in the audit log", func() bool {
		found = slices.DeleteFunc(auditLines(t, file), func(l string) bool { return !strings.Contains(l, text) })
		return len(found) >= n
	})
	require.Len(t, found, n, "%s", strings.Join(found, "\n"))
	return found
}

func createACL(path string, flags int32) []byte { return createBody(path, []byte("secretdata"), flags) }

// What two servers write for the same requests is the same, but for what docs/audit.md names:
// the order of the users, the comma between entries of a list, the line for a TTL node.
func TestAuditLinesAreZooKeepers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	srv := startServer(t, withAudit(file), set("extendedTypesEnabled", "true"))
	c := open(t, srv.addr, 10_000)
	c.call(wire.OpAuth, authBody("digest", "bob:pw"), wire.OK)
	c.call(wire.OpCreate, createACL("/a", persistent), wire.OK)
	c.call(wire.OpCreate, createACL("/a/seq-", wire.FlagPersistentSequential), wire.OK)
	c.call(wire.OpCreate2, createACL("/a/eph", wire.FlagEphemeral), wire.OK)
	c.call(wire.OpCreateContainer, createACL("/cont", wire.FlagContainer), wire.OK)
	ttl := wire.CreateTTLRequest{Path: "/ttl", ACL: worldACL(), Flags: wire.FlagPersistentTTL, TTLMs: 5000}
	c.call(wire.OpCreateTTL, ttl.Append(nil), wire.OK)
	c.call(wire.OpSetData, setBody("/a", "newdata"), wire.OK)
	stale := wire.SetDataRequest{Path: "/a", Data: []byte("newdata"), Version: 7}
	c.call(wire.OpSetData, stale.Append(nil), wire.BadVersion)
	c.call(wire.OpCreate, createACL("/a", persistent), wire.NodeExists)
	c.call(wire.OpCreate, createACL("/no/x", persistent), wire.NoNode)
	list := wire.SetACLRequest{Path: "/a", Version: -1, ACL: []wire.ACL{
		{Perms: wire.PermRead, ID: wire.ID{Scheme: "world", ID: "anyone"}}, {Perms: wire.PermAll, ID: wire.ID{Scheme: "auth"}},
	}}
	c.call(wire.OpSetACL, list.Append(nil), wire.OK)
	c.call(wire.OpDelete, deleteBody("/no"), wire.NoNode)
	c.call(wire.OpDelete, deleteBody("/cont"), wire.OK)
	c.call(wire.OpCreate, createACL("/es", wire.FlagEphemeralSequential), wire.OK)
	c.call(wire.OpDelete, deleteBody("/a/seq-0000000000"), wire.OK)
	reconfig := wire.ReconfigRequest{Joining: "server.5=x:1:2", CurConfigID: -1}
	c.call(wire.OpReconfig, reconfig.Append(nil), wire.ReconfigDisabled)
	c.call(wire.OpCreate, createACL("/sp ace", persistent), wire.OK)
	c.call(wire.OpCreate, createACL("/ta=b", persistent), wire.OK)
	c.call(wire.OpCloseSession, nil, wire.OK)
	for _, path := range []string{"/m1", "/m1/k"} {
		c = open(t, srv.addr, 10_000)
		c.call(wire.OpCreate, createACL(path, persistent), wire.OK)
	}
	c = open(t, srv.addr, 10_000)
	move := []wire.MultiOp{
		{Op: wire.OpCheck, Check: wire.CheckRequest{Path: "/m1", Version: 0}},
		{Op: wire.OpCreate, Create: wire.CreateRequest{Path: "/m2", ACL: worldACL()}},
		{Op: wire.OpCreate, Create: wire.CreateRequest{Path: "/m2/k", ACL: worldACL()}},
		{Op: wire.OpDelete, Delete: wire.DeleteRequest{Path: "/m1/k", Version: -1}},
		{Op: wire.OpDelete, Delete: wire.DeleteRequest{Path: "/m1", Version: -1}},
	}
	c.call(wire.OpMulti, wire.AppendMulti(nil, move), wire.OK)
	require.NoError(t, srv.Close())

	b, err := os.ReadFile("testdata/audit-zookeeper-3.8.0.txt")
	require.NoError(t, err)
	var want []string
	for line := range strings.Lines(string(b)) {
		if !strings.HasPrefix(line, "#") {
			want = append(want, strings.TrimSuffix(line, "\n"))
		}
	}
	i := slices.IndexFunc(want, func(l string) bool { return strings.Contains(l, "acl=") })
	want[i] = strings.Replace(want[i], "anyone:rauth:", "anyone:r,auth:", 1)
	got := comparable(auditLines(t, file))
	i = slices.IndexFunc(got, func(l string) bool { return strings.Contains(l, "znode=/ttl") })
	require.Contains(t, got[i], "znode_type=persistent_with_ttl\tresult=success")
	require.Equal(t, strings.Join(want, "\n"), strings.Join(slices.Delete(got, i, i+1), "\n"))
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, secret := range []string{"secretdata", "newdata", "pw", "bob:"} {
		require.NotContains(t, string(raw), secret)
	}
}

// comparable numbers the sessions and names the user of the process as the recording does.
func comparable(lines []string) []string {
	text := strings.Join(lines, "\n")
	text = strings.ReplaceAll(text, "user="+processUser()+"\t", "user=<server>\t")
	text = strings.ReplaceAll(text, "user=127.0.0.1,bob\t", "user=bob,127.0.0.1\t")
	names := map[string]string{}
	text = regexp.MustCompile(`session=0x[0-9a-f]+`).ReplaceAllStringFunc(text, func(s string) string {
		if names[s] == "" {
			names[s] = "session=<" + string(rune('1'+len(names))) + ">"
		}
		return names[s]
	})
	return strings.Split(text, "\n")
}

func worldACL() []wire.ACL {
	return []wire.ACL{{Perms: wire.PermAll, ID: wire.ID{Scheme: "world", ID: "anyone"}}}
}

// A client that is gone before its write is applied does not escape the log.
func TestWriteOfAClientThatIsGoneIsTold(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	g := &gate{}
	srv := startServer(t, withAudit(file), withGate(g))
	c := open(t, srv.addr, 10_000)
	c.call(wire.OpCreate, createBody("/a", nil, persistent), wire.OK)
	g.block(t, srv)
	c.send(wire.OpDelete, deleteBody("/a"))
	eventually(t, "the delete under way", func() bool { return srv.pendingRequests.Load() == 1 })
	require.NoError(t, c.nc.Close())
	eventually(t, "the connection gone", func() bool { return srv.connectionCount() == 0 })
	g.open()
	require.Contains(t, told(t, file, "operation=delete", 1)[0], "\tip=127.0.0.1\toperation=delete\tznode=/a\tresult=success")
}

func TestExpiryTellsOfEphemerals(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	srv := startServer(t, withAudit(file))
	c := open(t, srv.addr, 60_000)
	c.call(wire.OpCreate, createBody("/e1", nil, ephemeral), wire.OK)
	c.call(wire.OpCreate, createBody("/e2", nil, ephemeral), wire.OK)
	c.call(wire.OpCreate, createBody("/p", nil, persistent), wire.OK)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(t, srv.ExpireSession(ctx, c.session))
	lines := told(t, file, "operation=ephemeralZNodeDeletionOnSessionCloseOrExpire", 2)
	for i, path := range []string{"/e1", "/e2"} {
		require.Equal(t, "INFO session="+sessionText(c.session)+"\tuser="+processUser()+
			"\toperation=ephemeralZNodeDeletionOnSessionCloseOrExpire\tznode="+path+"\tresult=success", lines[i])
	}
}

func TestWhatCannotBeDecodedIsTold(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	srv := startServer(t, withAudit(file))
	c := open(t, srv.addr, 10_000)
	c.call(wire.OpSetData, []byte{0, 0, 0, 2, '/', 'a', 0, 0, 0, 9}, wire.MarshallingError)
	c.call(wire.OpMulti, []byte{1}, wire.MarshallingError)
	require.Contains(t, told(t, file, "operation=setData", 1)[0], "\toperation=setData\tznode=/a\tresult=failure")
	require.Contains(t, told(t, file, "operation=multiOperation", 1)[0], "\toperation=multiOperation\tresult=failure")
}

// The log of an earlier run is applied again at the start, and told no second time.
func TestRestartTellsNothingAgain(t *testing.T) {
	dir := t.TempDir()
	stores := replication.NewMemoryStores()
	keep := func(s *setup) { s.options.Stores = stores }
	first, second := filepath.Join(dir, "1"), filepath.Join(dir, "2")
	srv := startServer(t, withAudit(first), keep)
	c := open(t, srv.addr, 10_000)
	c.call(wire.OpCreate, createBody("/a", nil, ephemeral), wire.OK)
	require.NoError(t, srv.Close())
	require.Len(t, auditLines(t, first), 3)
	srv = startServer(t, withAudit(second), keep)
	require.NoError(t, srv.Close())
	require.Equal(t, []string{
		"INFO user=" + processUser() + "\toperation=serverStart\tresult=success",
		"INFO user=" + processUser() + "\toperation=serverStop\tresult=invoked",
	}, auditLines(t, second))
}

func TestStartThatFailsIsTold(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	busy := startServer(t)
	_, port, _ := strings.Cut(busy.addr, ":")
	srv := newServer(t, withAudit(file), set("clientPort", port))
	_, err := srv.Start(context.Background())
	var taken *BusyError
	require.ErrorAs(t, err, &taken)
	require.Equal(t, []string{"ERROR user=" + processUser() + "\toperation=serverStart\tresult=failure"}, auditLines(t, file))
}

func TestAuditFileThatCannotBeOpenedStopsTheStart(t *testing.T) {
	srv := newServer(t, withAudit(filepath.Join(t.TempDir(), "no", "audit.log")))
	_, err := srv.Start(context.Background())
	require.ErrorContains(t, err, "zkd.auditFile")
	require.ErrorIs(t, err, os.ErrNotExist)
}

// reload gives a running server other settings.
func (s *testServer) reload(t testing.TB, opts ...option) error {
	t.Helper()
	var st setup
	for _, o := range opts {
		o(&st)
	}
	cfg, _, err := config.Load(config.Sources{InMemory: true, Overrides: st.settings})
	if err != nil {
		t.Fatal(err)
	}
	return s.Reload(cfg)
}

// A server takes over what it can while clients are connected.
func TestReload(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "1"), filepath.Join(dir, "2")
	srv := startServer(t)
	c := open(t, srv.addr, 10_000)
	c.call(wire.OpCreate, createBody("/untold", nil, persistent), wire.OK)
	require.NoError(t, srv.reload(t, withAudit(one), set("maxClientCnxns", "1")))
	c.call(wire.OpCreate, createBody("/one", nil, persistent), wire.OK)
	require.Contains(t, told(t, one, "operation=create", 1)[0], "\tip=127.0.0.1\toperation=create\tznode=/one\t")
	over := dial(t, srv.addr)
	over.expectClosed()

	require.ErrorIs(t, srv.reload(t, withAudit(filepath.Join(dir, "no", "x"))), os.ErrNotExist)
	c.call(wire.OpCreate, createBody("/still", nil, persistent), wire.OK)
	told(t, one, "znode=/still", 1)

	require.NoError(t, srv.reload(t, withAudit(two)))
	c.call(wire.OpCreate, createBody("/two", nil, persistent), wire.OK)
	told(t, two, "znode=/two", 1)
	require.NoError(t, os.Rename(two, two+".1"))
	require.NoError(t, srv.ReopenAudit())
	c.call(wire.OpCreate, createBody("/three", nil, persistent), wire.OK)
	told(t, two, "znode=/three", 1)
	told(t, two+".1", "znode=/two", 1)

	require.NoError(t, srv.reload(t, set("4lw.commands.whitelist", "ruok")))
	require.Nil(t, srv.auditor.Load())
	require.NoError(t, srv.ReopenAudit())
	word := dial(t, srv.addr)
	word.write([]byte("mntr"))
	answer := make([]byte, 4)
	_, err := word.nc.Read(answer)
	require.NoError(t, err)
	require.Equal(t, "mntr", string(answer), "is not executed because it is not in the whitelist")
	require.NoError(t, srv.Close())
	require.Error(t, srv.reload(t))
	require.False(t, errors.Is(srv.EndAudit(), os.ErrClosed))
}

// A restore has one line, with who asked for it, also if nothing came of it.
func TestAuditTellsOfRestores(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	srv := startServer(t, withAudit(file))
	c := open(t, srv.addr, 10_000)
	c.call(wire.OpCreate, createBody("/a", nil, persistent), wire.OK)
	in, _, _, err := srv.Face().SaveBackup(t.Context())
	require.NoError(t, err)
	backup, err := io.ReadAll(in)
	require.NoError(t, err)
	require.NoError(t, in.Close())
	asker := netip.MustParseAddr("192.0.2.7")
	_, err = srv.Face().RestoreBackup(t.Context(), asker, bytes.NewReader(backup), "/a", "/b")
	require.NoError(t, err)
	_, err = srv.Face().RestoreBackup(t.Context(), asker, bytes.NewReader(backup[:100]), "", "")
	require.ErrorIs(t, err, state.ErrBadBackup)
	gone, leave := context.WithCancel(t.Context())
	leave()
	_, err = srv.Face().RestoreBackup(gone, asker, bytes.NewReader(backup), "/a", "/c")
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []string{
		"INFO user=super\tip=192.0.2.7\toperation=restore\tznode=/b\tresult=success",
		"ERROR user=super\tip=192.0.2.7\toperation=restore\tznode=/\tresult=failure",
		"INFO user=super\tip=192.0.2.7\toperation=restore\tznode=/c\tresult=invoked",
	}, told(t, file, "operation=restore", 3))
}
