package admin

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/freeport"
	"github.com/zkd-project/zkd/internal/needs"
)

var update = flag.Bool("update", false, "record the answers of the installed Apache ZooKeeper anew")

const recorded = "testdata/zookeeper-3.8.0"

// recordedCommands are the commands whose answers are compared, and a name that is none.
var recordedCommands = func() []string {
	names := []string{"nope"}
	for i := range table {
		if table[i].name != "system_properties" { // Java's own
			names = append(names, table[i].name)
		}
	}
	return names
}()

// An apache is an Apache ZooKeeper with its AdminServer on loopback.
type apache struct {
	t             *testing.T
	client, admin string // addresses
	cmd           *exec.Cmd
	dir           string
}

// needJava returns the class path of Debian's ZooKeeper with what its AdminServer needs.
func needJava(t *testing.T) (java, classPath string) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts Java: left out of -short")
	}
	missing := func(what, install string) {
		needs.Unavailable(t, fmt.Sprintf("%s is not here; on Debian: apt-get install %s", what, install))
	}
	java, err := exec.LookPath("java")
	if err != nil {
		missing("java", "default-jre-headless")
	}
	var jars []string
	for _, jar := range []string{"zookeeper", "slf4j-log4j12", "log4j-1.2", "servlet-api", "jetty9-server"} {
		file := "/usr/share/java/" + jar + ".jar"
		if _, err := os.Stat(file); err != nil {
			missing(file, "zookeeper liblog4j1.2-java libslf4j-java libservlet-api-java libjetty9-java")
		}
		jars = append(jars, file)
	}
	return java, strings.Join(jars, ":")
}

// startApache runs a ZooKeeper with these lines in its zoo.cfg.
func startApache(t *testing.T, myid, client, admin int, lines ...string) *apache {
	t.Helper()
	java, classPath := needJava(t)
	a := &apache{t: t, client: loopback(client), admin: loopback(admin), dir: t.TempDir()}
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(a.dir, name), []byte(text), 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(a.dir, "data"), 0o700))
	write("data/myid", fmt.Sprintln(myid))
	write("log4j.properties", "log4j.rootLogger=WARN, OUT\nlog4j.appender.OUT=org.apache.log4j.ConsoleAppender\n"+
		"log4j.appender.OUT.layout=org.apache.log4j.SimpleLayout\n")
	lines = append(lines, "dataDir="+a.dir+"/data", "tickTime=500", fmt.Sprint("clientPort=", client), "clientPortAddress=127.0.0.1",
		fmt.Sprint("admin.serverPort=", admin), "admin.serverAddress=127.0.0.1", "preAllocSize=1024")
	write("zoo.cfg", strings.Join(lines, "\n")+"\n")
	log, err := os.Create(filepath.Join(a.dir, "log"))
	require.NoError(t, err)
	defer log.Close()
	a.cmd = exec.Command(java, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m",
		"-Dzookeeper.fsync.warningthresholdms=600000", // the number of slow ones is recorded: none
		"-cp", a.dir+":"+classPath,
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", filepath.Join(a.dir, "zoo.cfg"))
	a.cmd.Stdout, a.cmd.Stderr = log, log
	require.NoError(t, a.cmd.Start())
	t.Cleanup(func() {
		_ = a.cmd.Process.Signal(syscall.SIGTERM)
		_ = a.cmd.Wait()
		if t.Failed() {
			b, _ := os.ReadFile(filepath.Join(a.dir, "log"))
			t.Logf("log of ZooKeeper %d:\n%s", myid, b)
		}
	})
	return a
}

// await waits until the answer of a command contains text.
func (a *apache) await(command, text string) {
	a.t.Helper()
	answer := "nothing"
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) { // between two looks
		r, err := httpClient.Get("http://" + a.admin + "/commands/" + command)
		if err != nil {
			continue
		}
		b, _ := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if answer = string(b); r.StatusCode == http.StatusOK && strings.Contains(answer, text) {
			return
		}
	}
	a.t.Fatalf("%s does not say %s after %v, but: %s", command, text, patience, answer)
}

// compare holds the recorded answers against those of a, or records them.
func (a *apache) compare(situation string, without ...string) {
	a.t.Helper()
	for _, name := range recordedCommands {
		if strings.Contains(strings.Join(without, " "), name) {
			continue
		}
		url, file := "http://"+a.admin, filepath.Join(recorded, situation, name+".json")
		if *update {
			_, answer := fetch(a.t, url+"/commands/"+name)
			require.NoError(a.t, os.MkdirAll(filepath.Dir(file), 0o755))
			require.NoError(a.t, os.WriteFile(file, []byte(shape(a.t, answer)), 0o644))
			continue
		}
		want, err := os.ReadFile(file)
		require.NoError(a.t, err)
		if name == "monitor" { // a counter more or less between two releases is no matter
			continue
		}
		if answer, ok := answers(a.t, url, name, string(want), never); !ok {
			require.Equal(a.t, string(want), shape(a.t, answer), "%s, %s", situation, name)
		}
	}
}

const running = `"error" : null`

// What is recorded is what the installed ZooKeeper answers.
func TestRecordedAnswersAreThoseOfZooKeeper(t *testing.T) {
	a := startApache(t, 1, freeport.Row(t, 1), freeport.Row(t, 1))
	a.await("ruok", running)
	c := occupy(t, a.client)
	defer c.Close()
	a.compare("alone")
	_, index := fetch(t, "http://"+a.admin+"/commands")
	if *update {
		require.NoError(t, os.WriteFile(recorded+"/index.html", []byte(index), 0o644))
	}
	want, err := os.ReadFile(recorded + "/index.html")
	require.NoError(t, err)
	require.Equal(t, string(want), index)
}

func TestRecordedAnswersAreThoseOfAnEnsemble(t *testing.T) {
	var p []int
	for range 12 {
		p = append(p, freeport.Row(t, 1))
	}
	lines := []string{"initLimit=10", "syncLimit=5"}
	for i := range 3 {
		role := "participant"
		if i == 2 {
			role = "observer"
		}
		lines = append(lines, fmt.Sprintf("server.%d=127.0.0.1:%d:%d:%s", i+1, p[4*i], p[4*i+1], role))
	}
	first := startApache(t, 1, p[2], p[3], lines...)
	first.await("ruok", notServing)
	first.compare("electing", "monitor", "environment", "system_properties") // monitor fails with a NullPointerException
	members := []*apache{first, startApache(t, 2, p[6], p[7], lines...), startApache(t, 3, p[10], p[11], append(lines, "peerType=observer")...)}
	for _, m := range members {
		m.await("ruok", running)
	}
	for _, m := range members {
		_, stats := fetch(t, "http://"+m.admin+"/commands/server_stats")
		situation := "follower"
		for _, role := range []string{"leader", "observer"} {
			if strings.Contains(stats, `"server_state" : "`+role+`"`) {
				situation = role
			}
		}
		c := occupy(t, m.client)
		m.compare(situation, "monitor", "environment", "initial_configuration") // the last is null on every member
		c.Close()
	}
}
