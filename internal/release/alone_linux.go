package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// imageUser is the user of the container image.
const imageUser = 1000

// alone runs the entrypoint of the container image in a root directory that has the binary and
// the image's empty folders, and nothing else: no shell, no library, no /etc. That is what a
// container adds nothing to. It takes root to change the root directory.
func alone(work, binary string, out io.Writer) error {
	if os.Geteuid() != 0 {
		fmt.Fprintln(out, "skipped: only root can change the root directory")
		return nil
	}
	root := filepath.Join(work, "root")
	for _, dir := range []string{root, filepath.Join(root, "conf"), filepath.Join(root, "data"), filepath.Join(root, "datalog")} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		if dir != root {
			if err := os.Chown(dir, imageUser, imageUser); err != nil {
				return err
			}
		}
	}
	text, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, "zkd"), text, 0o755); err != nil {
		return err
	}
	// The way to the folder must be open to the user.
	if err := os.Chmod(work, 0o755); err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	env := []string{
		"ZOO_SERVERS=server.1=localhost:2888:3888;127.0.0.1:" + strconv.Itoa(port), "ZOO_ADMINSERVER_ENABLED=false",
		"ZOO_TICK_TIME=1000", "ZOO_MY_ID=1",
	}
	inside := func(args ...string) *exec.Cmd {
		c := exec.CommandContext(ctx, "/zkd", args...)
		c.Dir, c.Env = "/", env
		c.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: imageUser, Gid: imageUser}}
		return c
	}
	server := inside("docker-entrypoint")
	if err := startServer(server); err != nil {
		return err
	}
	defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
	if answer, err := inside("healthcheck").CombinedOutput(); err != nil {
		return fmt.Errorf("healthcheck: %w: %s", err, answer)
	}
	hosts := "127.0.0.1:" + strconv.Itoa(port)
	for _, args := range [][]string{{"create", "/alone", "yes"}, {"get", "/alone"}} {
		answer, err := inside(append([]string{"cli", "-server", hosts}, args...)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("cli %s: %w: %s", args[0], err, answer)
		}
	}
	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := server.Wait(); err != nil {
		return fmt.Errorf("SIGTERM: %w", err)
	}
	for _, name := range []string{"conf/zoo.cfg", "data/myid", "data/format", "datalog/log"} {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			return err
		}
	}
	return nil
}

// startServer returns when the server is ready.
func startServer(server *exec.Cmd) error {
	stderr, err := server.StderrPipe()
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	var log strings.Builder
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		log.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "msg=ready") {
			go func() { _, _ = io.Copy(io.Discard, stderr) }()
			return nil
		}
	}
	return errors.Join(fmt.Errorf("the server ended: %s", log.String()), server.Wait())
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
