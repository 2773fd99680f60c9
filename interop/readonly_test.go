package interop

import (
	"bufio"
	"io"
	"net"
	"os/exec"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkd-project/zkd/zkdtest"
)

// TestKazooReadOnly drives kazoo against a server that has lost its quorum, and gets it back.
func TestKazooReadOnly(t *testing.T) {
	needFiles(t, "python3-kazoo", systemPython, "/usr/lib/python3/dist-packages/kazoo/client.py")
	cl := zkdtest.StartCluster(t, 3, zkdtest.Set("readonlymode.enabled", "true"), zkdtest.Set("syncLimit", "2"))
	left := cl.Leader()
	c, _, err := zk.Connect([]string{cl.Addr(left)}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Create("/a", []byte("/a"), 0, zk.WorldACL(zk.PermAll))
	c.Close()
	if err != nil {
		t.Fatal(err)
	}
	cl.Kill(left%3 + 1)
	cl.Kill((left+1)%3 + 1)
	control := onOrder(t, func() { cl.Restart(left%3 + 1) })
	runProgram(t, nil, exec.Command(systemPython, "-B", "python/readonly_checks.py", cl.Addr(left), control))
}

// onOrder returns an address where a line has do called once; the answer follows.
func onOrder(t *testing.T, do func()) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return // the test has ended
		}
		defer c.Close()
		if _, err := bufio.NewReader(c).ReadString('\n'); err == nil {
			do()
			_, _ = io.WriteString(c, "ok\n")
		}
	}()
	t.Cleanup(func() { // before the servers end
		l.Close()
		<-done
	})
	return l.Addr().String()
}
