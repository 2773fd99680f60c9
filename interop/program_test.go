package interop

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// programLimit ends a client program that hangs; the whole suite of one takes seconds. It is
// longer than the programs themselves wait for a check, so that they can say which one it was.
const programLimit = 5 * time.Minute

// runProgram runs a client program and makes a subtest of each line that it prints:
//
//	ok NAME how long it took
//	FAIL NAME reason
//	skip NAME reason
//	done N            the last one: how many checks there were
//
// known names the checks that this server is known to fail, with the reason; such a check
// is logged instead of failed.
func runProgram(t *testing.T, known map[string]string, cmd *exec.Cmd) {
	t.Helper()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	dieWithParent(cmd)
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	limit := time.AfterFunc(programLimit, func() { _ = cmd.Process.Kill() })
	count, finished := 0, false
	var other []string
	in := bufio.NewScanner(stdout)
	in.Buffer(nil, 4<<20)
	for in.Scan() {
		line := in.Text()
		word, rest, _ := strings.Cut(line, " ")
		name, reason, _ := strings.Cut(rest, " ")
		switch word {
		case "ok", "FAIL", "skip":
			count++
			t.Run(name, func(t *testing.T) { judge(t, word, reason, known[name]) })
		case "done":
			finished = rest == fmt.Sprint(count)
		default:
			other = append(other, line)
		}
	}
	err = errors.Join(in.Err(), cmd.Wait())
	hung := !limit.Stop()
	switch {
	case hung:
		t.Errorf("the program did not end within %v", programLimit)
	case err != nil:
		t.Errorf("the program ended with %v", err)
	case !finished:
		t.Errorf("the program stopped after %d checks", count)
	}
	if t.Failed() {
		t.Logf("other output:\n%s\nerror output:\n%s", tail(strings.Join(other, "\n")), tail(stderr.String()))
	}
}

// judge turns one line of a program into the result of a subtest.
func judge(t *testing.T, word, reason, known string) {
	t.Helper()
	switch {
	case word == "ok" && reason != "":
		t.Log(reason)
	case word == "skip":
		t.Skip(reason)
	case word == "FAIL" && known != "":
		t.Logf("known of this server: %s (%s)", known, reason)
	case word == "FAIL":
		t.Error(strings.ReplaceAll(reason, " | ", "\n"))
	}
}

func tail(s string) string {
	if len(s) > 8000 {
		return "…" + s[len(s)-8000:]
	}
	return s
}

// javaJars are the jars that the client programs need, by Debian package.
var javaJars = map[string][]string{
	"libzookeeper-java":       {"zookeeper.jar", "zookeeper-jute.jar"},
	"libcurator-recipes-java": {"curator-recipes.jar", "curator-framework.jar", "curator-client.jar", "guava.jar"},
	"libslf4j-java":           {"slf4j-api.jar", "slf4j-log4j12.jar"},
	"liblog4j1.2-java":        {"log4j-1.2.jar"},
	"libnetty-java":           {"netty-codec.jar", "netty-resolver.jar", "netty-transport-native-unix-common.jar"},
}

// compileJava compiles java/*.java once and returns the class path to run them with.
var compileJava = sync.OnceValues(func() (string, error) {
	sources, err := filepath.Glob("java/*.java")
	if err != nil {
		return "", err
	}
	classes := filepath.Join(scratch, "classes")
	cp := classes
	for _, jars := range javaJars {
		for _, jar := range jars {
			cp += ":" + javaDir + jar
		}
	}
	err = errors.Join(os.MkdirAll(classes, 0o755), os.WriteFile(filepath.Join(classes, "log4j.properties"), []byte(log4jClientConfig), 0o600))
	if err != nil {
		return "", err
	}
	args := append([]string{"-nowarn", "-d", classes, "-cp", cp, "-encoding", "UTF-8", "-proc:none"}, sources...)
	if out, err := exec.Command("javac", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("javac java/*.java: %w\n%s", err, out)
	}
	return cp, nil
})

// log4jClientConfig sends warnings of a client to its error output, but for those about
// every connection that ends.
const log4jClientConfig = `log4j.rootLogger=WARN, OUT
log4j.logger.org.apache.zookeeper.ClientCnxn=ERROR
log4j.appender.OUT=org.apache.log4j.ConsoleAppender
log4j.appender.OUT.target=System.err
log4j.appender.OUT.layout=org.apache.log4j.PatternLayout
log4j.appender.OUT.layout.ConversionPattern=%d{ABSOLUTE} %-5p [%t] %c{1} %m%n
`

// javaProgram returns the command that runs a class of java/. Arguments that start with -D
// are system properties.
func javaProgram(t *testing.T, class string, args ...string) *exec.Cmd {
	t.Helper()
	java := needCommand(t, "java", "default-jre-headless")
	needCommand(t, "javac", "default-jdk-headless")
	for pkg, jars := range javaJars {
		for _, jar := range jars {
			needFiles(t, pkg, javaDir+jar)
		}
	}
	cp, err := compileJava()
	if err != nil {
		t.Fatal(err)
	}
	line := []string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-Djava.awt.headless=true"}
	var rest []string
	for _, a := range args {
		if strings.HasPrefix(a, "-D") {
			line = append(line, a)
		} else {
			rest = append(rest, a)
		}
	}
	return exec.Command(java, append(append(line, "-cp", cp, class), rest...)...)
}
