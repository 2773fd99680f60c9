package interop

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zkd-project/zkd/internal/freeport"
)

// javaDir is where Debian keeps the jars.
const javaDir = "/usr/share/java/"

// settings describes the server that a suite wants. Both servers get the same zoo.cfg.
type settings struct {
	config map[string]string // lines of zoo.cfg beside the basic ones
	// jvm holds settings that ZooKeeper takes as system properties only, without the
	// "zookeeper." prefix. zkd reads them from zoo.cfg.
	jvm    map[string]string
	files  map[string]string // name to content; @name@ in a value stands for the file's path
	secure bool              // also open a TLS port
	// lines has the members of a cluster name their client addresses in the server lines, as
	// reconfig wants it, instead of in clientPort.
	lines bool
	// zkdOnly says why Apache ZooKeeper is left out, if it is.
	zkdOnly  string
	parallel bool // beside other tests: for what mostly waits
	// alone says why the suite has no meaning on a cluster, if it has none.
	alone string
	// byRequest leaves the cluster out unless ZKD_INTEROP_SERVERS names it, to save time.
	byRequest bool
}

// server is one running server. Its methods are for the test's goroutine, except addr.
type server struct {
	t          *testing.T
	kind       string   // zookeeper or zkd
	cluster    *cluster // of which this is a member; nil for a server alone
	dir        string
	addr       string // host:port of the plain port
	secureAddr string // host:port of the TLS port, if any
	args       []string
	cmd        *exec.Cmd
	exited     chan struct{} // closed when the process is gone
}

// forEachServer runs body as one subtest per server under test, with that server running.
func forEachServer(t *testing.T, want settings, body func(*testing.T, *server)) {
	t.Helper()
	leaveOutOfShort(t)
	for _, kind := range serversUnderTest(t) {
		t.Run(kind, func(t *testing.T) {
			if want.parallel {
				t.Parallel()
			}
			if kind == zookeeper && want.zkdOnly != "" {
				t.Skip(want.zkdOnly)
			}
			if kind != zkdCluster {
				body(t, startServer(t, kind, want))
				return
			}
			if want.alone != "" {
				t.Skip(want.alone)
			}
			if want.byRequest && os.Getenv(serversVariable) == "" {
				t.Skip("to save time on a cluster only where " + serversVariable + " names " + zkdCluster)
			}
			body(t, startCluster(t, zkd, want).disturb(t))
		})
	}
}

func leaveOutOfShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts servers and foreign clients: left out of -short")
	}
}

// startServer starts a server that the test's end stops. It returns once clients are served.
func startServer(t *testing.T, kind string, want settings) *server {
	t.Helper()
	s := newServer(t, kind, want)
	s.start()
	return s
}

// newServer prepares a server that is not started yet.
func newServer(t *testing.T, kind string, want settings) *server {
	t.Helper()
	s := prepareServer(t, kind, want)
	s.configure(want)
	return s
}

// configure writes the files of a prepared server.
func (s *server) configure(want settings) {
	s.t.Helper()
	cfg := s.writeConfig(want)
	if s.kind == zookeeper {
		s.args = s.zookeeperCommand(cfg, want)
		return
	}
	bin, err := zkdBinary()
	if err != nil {
		s.t.Fatal(err)
	}
	s.args = []string{bin, "serve", "--config", cfg}
}

// prepareServer gives a server its addresses and its directory, and sees to its end.
func prepareServer(t *testing.T, kind string, want settings) *server {
	t.Helper()
	s := &server{t: t, kind: kind, dir: t.TempDir(), addr: freeport.Addr(t)}
	if want.secure {
		s.secureAddr = freeport.Addr(t)
	}
	t.Cleanup(func() {
		if s.running() {
			s.stop()
		}
		if t.Failed() {
			t.Logf("end of the log of %s:\n%s", kind, s.logTail(120))
		}
	})
	return s
}

// writeConfig writes zoo.cfg and the files that it names, and returns its path.
func (s *server) writeConfig(want settings) string {
	host, port, _ := net.SplitHostPort(s.addr)
	c := map[string]string{
		"tickTime":               "500",
		"minSessionTimeout":      "500",
		"maxSessionTimeout":      "600000",
		"dataDir":                filepath.Join(s.dir, "data"),
		"clientPort":             port,
		"clientPortAddress":      host,
		"maxClientCnxns":         "0",
		"admin.enableServer":     "false",
		"4lw.commands.whitelist": "*",
		"extendedTypesEnabled":   "true",
		"preAllocSize":           "1024",
	}
	if want.secure {
		_, c["secureClientPort"], _ = net.SplitHostPort(s.secureAddr)
		c["secureClientPortAddress"] = host
	}
	if want.lines {
		delete(c, "clientPort")
		delete(c, "clientPortAddress")
	}
	maps.Copy(c, want.config)
	if s.kind == zkd {
		maps.Copy(c, want.jvm)
	}
	for name, content := range want.files {
		s.write(name, content)
	}
	s.write("data/.keep", "")
	if err := os.Remove(filepath.Join(s.dir, "data/.keep")); err != nil {
		s.t.Fatal(err)
	}
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(c)) {
		fmt.Fprintf(&b, "%s=%s\n", k, s.expand(c[k], want))
	}
	s.write("zoo.cfg", b.String())
	return filepath.Join(s.dir, "zoo.cfg")
}

// expand replaces @name@ by the path of that file.
func (s *server) expand(v string, want settings) string {
	for name := range want.files {
		v = strings.ReplaceAll(v, "@"+name+"@", filepath.Join(s.dir, name))
	}
	return v
}

func (s *server) write(name, content string) {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o600))
	if err != nil {
		s.t.Fatal(err)
	}
}

// zookeeperCommand is the command line of Debian's ZooKeeper. The compiler and collector
// flags only make a short run start sooner.
func (s *server) zookeeperCommand(cfg string, want settings) []string {
	java := needCommand(s.t, "java", "default-jre-headless")
	cp := []string{javaDir + "zookeeper.jar", javaDir + "slf4j-log4j12.jar", javaDir + "log4j-1.2.jar"}
	needFiles(s.t, "zookeeper liblog4j1.2-java libslf4j-java", cp...)
	if want.secure {
		tls := []string{javaDir + "netty-codec.jar", javaDir + "netty-resolver.jar", javaDir + "netty-transport-native-unix-common.jar"}
		needFiles(s.t, "libnetty-java", tls...)
		cp = append(cp, tls...)
	}
	s.write("log4j.properties", log4jConfig)
	args := []string{java, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m", "-Djava.awt.headless=true", "-Dzookeeper.jmx.log4j.disable=true"}
	for _, k := range slices.Sorted(maps.Keys(want.jvm)) {
		args = append(args, "-D"+k+"="+s.expand(want.jvm[k], want))
	}
	return append(args, "-cp", s.dir+":"+strings.Join(cp, ":"), "org.apache.zookeeper.server.quorum.QuorumPeerMain", cfg)
}

// log4jConfig sends warnings of a ZooKeeper server to its standard output, but for its
// stack trace of every client that hangs up.
const log4jConfig = `log4j.rootLogger=WARN, OUT
log4j.logger.org.apache.zookeeper.server.NIOServerCnxn=ERROR
log4j.appender.OUT=org.apache.log4j.ConsoleAppender
log4j.appender.OUT.layout=org.apache.log4j.PatternLayout
log4j.appender.OUT.layout.ConversionPattern=%d{ISO8601} %-5p [%t] %c{1} %m%n
`

// start runs the process and waits until it serves.
func (s *server) start() {
	s.t.Helper()
	s.launch()
	if err := s.awaitServing(); err != nil {
		s.t.Fatal(err)
	}
}

// launch runs the process and does not wait for it to serve.
func (s *server) launch() {
	s.t.Helper()
	if err := s.tryLaunch(); err != nil {
		s.t.Fatal(err)
	}
}

// tryLaunch is launch for goroutines that may not end the test.
func (s *server) tryLaunch() error {
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd = exec.Command(s.args[0], s.args[1:]...)
	s.cmd.Dir = s.dir
	s.cmd.Stdout, s.cmd.Stderr = log, log
	dieWithParent(s.cmd)
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", s.kind, err)
	}
	s.exited = make(chan struct{})
	go func(cmd *exec.Cmd, exited chan struct{}) {
		_ = cmd.Wait() // how it ended is in cmd.ProcessState
		close(exited)
	}(s.cmd, s.exited)
	return nil
}

// awaitServing waits until srvr names a mode. The longer it takes the longer it waits for one
// answer: ZooKeeper may never answer a connection that came while it was starting, and on a
// busy machine no answer may be quick.
func (s *server) awaitServing() error {
	start := time.Now()
	for s.modeWithin(time.Since(start)/8+modeLimit) == "" {
		if !s.running() {
			return fmt.Errorf("%s ended at its start (%v):\n%s", s.kind, s.cmd.ProcessState, s.logTail(60))
		}
		if time.Since(start) > patience {
			return fmt.Errorf("%s serves nobody after %v:\n%s", s.kind, patience, s.logTail(60))
		}
		time.Sleep(5 * time.Millisecond) // between two looks at the condition
	}
	return nil
}

// modeLimit is how long an answer may take from which nothing but the present role is wanted.
const modeLimit = 300 * time.Millisecond

// mode is the role that srvr names: standalone, leader or follower; empty while the server
// does not serve.
func (s *server) mode() string { return s.modeWithin(modeLimit) }

func (s *server) modeWithin(limit time.Duration) string {
	out, err := fourLetter(s.addr, "srvr", limit)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(out) {
		if mode, ok := strings.CutPrefix(line, "Mode: "); ok {
			return strings.TrimSpace(mode)
		}
	}
	return ""
}

// namesMode says whether an answer to srvr names a mode that the server can have.
func (s *server) namesMode(srvr string) bool {
	if s.cluster != nil {
		return strings.Contains(srvr, "Mode: leader\n") || strings.Contains(srvr, "Mode: follower\n")
	}
	return strings.Contains(srvr, "Mode: standalone\n")
}

func (s *server) running() bool {
	if s.cmd == nil {
		return false
	}
	select {
	case <-s.exited:
		return false
	default:
		return true
	}
}

// signal sends sig and waits until the process has ended.
func (s *server) signal(sig syscall.Signal) {
	s.t.Helper()
	_ = s.cmd.Process.Signal(sig) // already gone is as good
	select {
	case <-s.exited:
	case <-time.After(patience):
		_ = s.cmd.Process.Kill()
		<-s.exited
		s.t.Errorf("%s did not end within %v of %v", s.kind, patience, sig)
	}
}

func (s *server) stop() { s.t.Helper(); s.signal(syscall.SIGTERM) }
func (s *server) kill() { s.t.Helper(); s.signal(syscall.SIGKILL) }

// restart starts the stopped server again on the same port and data.
func (s *server) restart() { s.t.Helper(); s.start() }

// rss returns the resident memory of the process in bytes.
func (s *server) rss() int64 {
	s.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatalf("read the memory of %s: %v", s.kind, err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	if err != nil {
		s.t.Fatalf("read the memory of %s: %v", s.kind, err)
	}
	return pages * int64(os.Getpagesize())
}

// logTail returns the last lines of what the server printed.
func (s *server) logTail(lines int) string {
	b, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	all := bytes.Split(bytes.TrimRight(b, "\n"), []byte("\n"))
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return string(bytes.Join(all, []byte("\n")))
}

// ask sends a four-letter word to the plain port and returns the answer.
func (s *server) ask(word string) string {
	s.t.Helper()
	out, err := fourLetter(s.addr, word, patience)
	if err != nil {
		s.t.Fatalf("%s: %v", word, err)
	}
	return out
}

// fourLetter sends a four-letter word and reads until the server closes.
func fourLetter(addr, word string, limit time.Duration) (string, error) {
	c, err := net.DialTimeout("tcp", addr, limit)
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(limit))
	if _, err := io.WriteString(c, word); err != nil {
		return "", err
	}
	out, err := io.ReadAll(c)
	if err != nil && len(out) > 0 && errors.Is(err, syscall.ECONNRESET) {
		err = nil // closed with our bytes unread, after the answer
	}
	return string(out), err
}

// waitFor polls cond until it holds; what it waits for is part of the failure.
func waitFor(t *testing.T, limit time.Duration, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
		time.Sleep(10 * time.Millisecond) // between two looks at the condition
	}
}
