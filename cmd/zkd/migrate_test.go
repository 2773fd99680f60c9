package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/freeport"
	"github.com/zkd-project/zkd/internal/needs"
)

// An apache is Debian's Apache ZooKeeper on loopback.
type apache struct {
	t    *testing.T
	dir  string // has the folder data
	addr string
	args []string
	cmd  *exec.Cmd
}

// newApache prepares a lone ZooKeeper that is not started yet.
func newApache(t *testing.T, lines ...string) *apache {
	t.Helper()
	addr := freeport.Addr(t)
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	return prepareApache(t, addr, append(lines, "tickTime=500", "clientPort="+port, "clientPortAddress=127.0.0.1", "4lw.commands.whitelist=*",
		"admin.enableServer=false")...)
}

// prepareApache prepares a ZooKeeper with these lines in its zoo.cfg.
func prepareApache(t *testing.T, addr string, lines ...string) *apache {
	t.Helper()
	java, classPath := needApache(t)
	a := &apache{t: t, dir: t.TempDir(), addr: addr}
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(a.dir, name), []byte(text), 0o600))
	}
	require.NoError(t, os.Mkdir(a.data(), 0o700))
	write("log", "")
	write("log4j.properties", "log4j.rootLogger=WARN, OUT\nlog4j.logger.org.apache.zookeeper.server.NIOServerCnxn=ERROR\n"+
		"log4j.appender.OUT=org.apache.log4j.ConsoleAppender\nlog4j.appender.OUT.layout=org.apache.log4j.SimpleLayout\n")
	lines = append(lines, "dataDir="+a.data(), "maxSessionTimeout=600000", "extendedTypesEnabled=true", "preAllocSize=1024")
	write("zoo.cfg", strings.Join(lines, "\n")+"\n")
	a.args = []string{
		java, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-cp", a.dir + ":" + classPath,
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", filepath.Join(a.dir, "zoo.cfg"),
	}
	t.Cleanup(func() {
		if a.cmd != nil {
			a.kill()
		}
		if t.Failed() {
			t.Logf("log of ZooKeeper:\n%s", a.log())
		}
	})
	return a
}

// needApache returns java and the class path of Debian's ZooKeeper; python3-kazoo is needed, too.
func needApache(t *testing.T) (java, classPath string) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts Java: left out of -short")
	}
	missing := func(what string) {
		needs.Unavailable(t, what+" is not here; on Debian: apt-get install zookeeper liblog4j1.2-java libslf4j-java default-jre-headless python3-kazoo")
	}
	java, err := exec.LookPath("java")
	if err != nil {
		missing("java")
	}
	var jars []string
	for _, jar := range []string{"zookeeper", "slf4j-log4j12", "log4j-1.2", "snappy-java"} {
		jars = append(jars, "/usr/share/java/"+jar+".jar")
	}
	for _, file := range append(jars, systemPython, "/usr/lib/python3/dist-packages/kazoo/client.py") {
		if _, err := os.Stat(file); err != nil {
			missing(file)
		}
	}
	return java, strings.Join(jars, ":")
}

// systemPython is the interpreter that Debian's python3-kazoo is installed for.
const systemPython = "/usr/bin/python3"

func (a *apache) data() string { return filepath.Join(a.dir, "data") }

func (a *apache) log() string {
	b, err := os.ReadFile(filepath.Join(a.dir, "log"))
	require.NoError(a.t, err)
	return string(b)
}

func (a *apache) start() {
	a.t.Helper()
	log, err := os.OpenFile(filepath.Join(a.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(a.t, err)
	defer log.Close()
	a.cmd = exec.Command(a.args[0], a.args[1:]...)
	a.cmd.Stdout, a.cmd.Stderr = log, log
	require.NoError(a.t, a.cmd.Start())
}

// ready waits until it serves. A client that connects while its database loads meets an error in
// it that leaves the connection open and silent.
func (a *apache) ready() {
	a.t.Helper()
	(&cluster{t: a.t, clients: []string{a.addr}}).ready(1)
}

// kill ends it as a crash does.
func (a *apache) kill() {
	_ = a.cmd.Process.Signal(syscall.SIGKILL)
	_ = a.cmd.Wait()
	a.cmd = nil
}

// kazoo runs the script and returns what it prints.
func kazoo(t *testing.T, args ...string) string {
	t.Helper()
	var stderr strings.Builder
	cmd := exec.CommandContext(t.Context(), systemPython, append([]string{"-B", "testdata/migrate.py"}, args...)...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s", stderr.String())
	return strings.TrimSpace(string(out))
}

// A seenNode is all that a client sees of a node.
type seenNode struct {
	Data []byte
	Stat zk.Stat
	ACL  []zk.ACL
}

// seen reads the whole tree of a server through a client.
func seen(t *testing.T, addr string) map[string]seenNode {
	t.Helper()
	c := connect(t, addr)
	defer c.Close()
	require.NoError(t, c.AddAuth("digest", []byte("owner:secret")))
	_, err := c.Sync("/") // a follower may be behind
	require.NoError(t, err)
	all := make(map[string]seenNode)
	var visit func(path string)
	visit = func(path string) {
		data, stat, err := c.Get(path)
		require.NoError(t, err, path)
		list, _, err := c.GetACL(path)
		require.NoError(t, err, path)
		all[path] = seenNode{data, *stat, list}
		children, _, err := c.Children(path)
		require.NoError(t, err, path)
		for _, name := range children {
			visit(strings.TrimSuffix(path, "/") + "/" + name)
		}
	}
	visit("/")
	return all
}

// requireSame compares two trees node by node, which gives a readable message.
func requireSame(t *testing.T, want, got map[string]seenNode) {
	t.Helper()
	for path, n := range want {
		require.Equal(t, n, got[path], "node %s", path)
	}
	require.Len(t, got, len(want))
}

// special makes nodes that kazoo cannot make.
func special(t *testing.T, addr string) {
	t.Helper()
	c := connect(t, addr)
	defer c.Close()
	_, err := c.CreateContainer("/app/container", []byte("box"), zk.FlagContainer, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	_, err = c.Create("/app/container/child", nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	_, err = c.CreateTTL("/app/ttl", []byte("short-lived"), zk.FlagTTL, zk.WorldACL(zk.PermAll), time.Hour)
	require.NoError(t, err)
	for i := range 40 {
		_, err = c.Create(fmt.Sprintf("/app/n%02d", i), nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
	}
	require.NoError(t, c.Delete("/app/n07", 0))
}

// A ZooKeeper that has crashed, with snapshots amid the transactions; then zkd; then ZooKeeper
// again: the tree is the same for clients, node by node, and a session lives through all of it.
func TestMigrationThereAndBack(t *testing.T) {
	for _, compression := range []string{"", "gz", "snappy"} {
		t.Run("snapshots"+compression, func(t *testing.T) {
			migrateThereAndBack(t, "snapCount=30", "snapshot.compression.method="+compression)
		})
	}
}

func migrateThereAndBack(t *testing.T, lines ...string) {
	a := newApache(t, lines...)
	a.start()
	a.ready()
	session := strings.Fields(kazoo(t, "fill", a.addr))
	require.Len(t, session, 2)
	special(t, a.addr)
	a.kill()
	a.start() // a second log, and a start of its own from snapshot and log
	a.ready()
	before := seen(t, a.addr)
	require.Equal(t, "count=66,bytes=25704", string(before["/zookeeper/quota/app/zookeeper_stats"].Data))
	a.kill()
	files, err := filepath.Glob(a.data() + "/version-2/*")
	require.NoError(t, err)
	require.Greater(t, len(files), 3, "the replay is too simple: %v", files)

	dir, addr := filepath.Join(t.TempDir(), "data"), freeport.Addr(t)
	code, out := runCommand(t, "import", a.data(), "--dry-run")
	require.Zero(t, code, out)
	require.Contains(t, out, "all is well")
	require.NoDirExists(t, dir)
	code, out = runCommand(t, "import", a.data(), "--data-dir", dir)
	require.Zero(t, code, out)
	require.Contains(t, out, "as it had noted", "the digest was not compared")
	code, out = runCommand(t, "import", a.data(), "--data-dir", dir)
	require.Equal(t, exitUsage, code, out)
	require.Contains(t, out, "holds a database already")

	p := start(t, dir, addr, "--set", "maxSessionTimeout=600000")
	requireSame(t, before, seen(t, addr))
	kazoo(t, append([]string{"resume", addr}, session...)...)
	before = seen(t, addr)
	require.NoError(t, p.stop(syscall.SIGTERM))

	b := newApache(t)
	code, out = runCommand(t, "export", "--data-dir", dir, b.data())
	require.Zero(t, code, out)
	require.Contains(t, out, "1 TTL nodes: set extendedTypesEnabled=true")
	b.start()
	b.ready()
	requireSame(t, before, seen(t, b.addr))
	kazoo(t, append([]string{"resume", b.addr}, session...)...)
	require.NotContains(t, strings.ToLower(b.log()), "digest", "ZooKeeper finds another digest")
	code, out = runCommand(t, "export", "--data-dir", dir, b.data())
	require.Equal(t, exitUsage, code, out)
	require.Contains(t, out, "holds data of ZooKeeper")
}

// An ensemble of ZooKeeper whose leader has changed becomes a cluster of zkd, of which one
// server has the data and the others get them, and an ensemble again.
func TestMigrationOfEnsembleThereAndBack(t *testing.T) {
	needApache(t)
	e := startEnsemble(t, 3) // for its configuration, which ZooKeeper reads, too
	e.empty()
	old := e.apaches()
	startAll(old)
	session := strings.Fields(kazoo(t, "fill", old[0].addr))
	special(t, old[1].addr)
	old[2].kill() // the first leader, which has the highest number
	c := connect(t, old[1].addr)
	_, err := c.Create("/app/second-epoch", nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	c.Close()
	before := withoutMembers(seen(t, old[1].addr))
	killAll(old[:2])
	newest, last := "", int64(-1)
	for _, a := range old {
		code, out := runCommand(t, "import", a.data(), "--dry-run")
		require.Zero(t, code, out)
		_, found, ok := strings.Cut(out, " at zxid 0x")
		require.True(t, ok, out)
		var zxid int64
		_, err := fmt.Sscanf(found, "%x", &zxid)
		require.NoError(t, err)
		if zxid > last {
			newest, last = a.data(), zxid
		}
	}
	require.NotEqual(t, old[2].data(), newest)

	code, out := runCommand(t, "import", newest, "--data-dir", e.data(2))
	require.Zero(t, code, out)
	for i := range e.procs {
		e.start(i + 1)
	}
	for i := range e.procs {
		e.ready(i + 1)
	}
	requireSame(t, before, withoutMembers(seen(t, e.clients[0])))
	data, _, err := connect(t, e.clients[0]).Get("/zookeeper/config")
	require.NoError(t, err)
	require.Contains(t, string(data), "server.3=", "the members of zkd")
	kazoo(t, append([]string{"resume", e.clients[2]}, session...)...)
	before = withoutMembers(seen(t, e.clients[2]))
	for i := range e.procs {
		e.kill(i + 1)
	}

	again := e.apaches()
	for _, a := range again {
		code, out := runCommand(t, "export", "--data-dir", e.data(2), a.data())
		require.Zero(t, code, out)
	}
	startAll(again)
	requireSame(t, before, withoutMembers(seen(t, again[0].addr)))
	kazoo(t, append([]string{"resume", again[1].addr}, session...)...)
}

// withoutMembers leaves out what servers say of themselves.
func withoutMembers(tree map[string]seenNode) map[string]seenNode {
	delete(tree, "/zookeeper/config")
	return tree
}

func startAll(list []*apache) {
	for _, a := range list {
		a.start()
	}
	for _, a := range list {
		a.ready()
	}
}

func killAll(list []*apache) {
	for _, a := range list {
		a.kill()
	}
}

// empty kills all servers and leaves nothing of their data but the number.
func (e *cluster) empty() {
	e.t.Helper()
	for i := range e.procs {
		e.kill(i + 1)
		require.NoError(e.t, os.RemoveAll(e.data(i+1)))
		require.NoError(e.t, os.MkdirAll(e.data(i+1), 0o700))
		require.NoError(e.t, os.WriteFile(filepath.Join(e.data(i+1), "myid"), fmt.Appendf(nil, "%d\n", i+1), 0o600))
	}
}

// apaches are ZooKeepers with the configuration of the cluster, and data of their own.
func (e *cluster) apaches() []*apache {
	e.t.Helper()
	var all []*apache
	for i := range e.procs {
		b, err := os.ReadFile(e.config(i + 1))
		require.NoError(e.t, err)
		lines := strings.Split(strings.Replace(string(b), "dataDir=", "# ", 1), "\n")
		a := prepareApache(e.t, e.clients[i], append(lines, "snapCount=40")...)
		require.NoError(e.t, os.WriteFile(filepath.Join(a.data(), "myid"), fmt.Appendf(nil, "%d\n", i+1), 0o600))
		all = append(all, a)
	}
	return all
}
