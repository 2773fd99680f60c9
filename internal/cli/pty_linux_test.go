package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/needs"
)

// A screen is the far side of a pseudo-terminal on which the shell runs as a process.
type screen struct {
	t   *testing.T
	pty *os.File
	cmd *exec.Cmd
	out safeBuffer
}

func ioctl(f *os.File, request uintptr, arg unsafe.Pointer) error {
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), request, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

func newScreen(t *testing.T, state string, args ...string) *screen {
	t.Helper()
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		needs.Unavailable(t, "there are no pseudo-terminals here: "+err.Error())
	}
	var number uint32
	var unlocked int32
	require.NoError(t, ioctl(pty, syscall.TIOCGPTN, unsafe.Pointer(&number)))
	require.NoError(t, ioctl(pty, syscall.TIOCSPTLCK, unsafe.Pointer(&unlocked)))
	size := [4]uint16{40, 160, 0, 0}
	require.NoError(t, ioctl(pty, syscall.TIOCSWINSZ, unsafe.Pointer(&size)))
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	defer tty.Close()
	s := &screen{t: t, pty: pty, cmd: exec.Command(os.Args[0], args...)}
	s.cmd.Env = append(os.Environ(), asShell+"="+state, "TERM=xterm")
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = tty, tty, tty
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, s.cmd.Start())
	read := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 4096)
		for {
			n, err := pty.Read(buf)
			_, _ = s.out.Write(buf[:n])
			if err != nil {
				return // EIO: the shell has gone
			}
		}
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		<-read
		_ = pty.Close()
	})
	return s
}

// enter types; await waits until the screen shows something that it has not shown before.
func (s *screen) enter(keys string) {
	s.t.Helper()
	_, err := s.pty.WriteString(keys)
	require.NoError(s.t, err)
}

func (s *screen) await(text string) {
	s.t.Helper()
	eventually(s.t, text, func() bool { return strings.Contains(s.out.String(), text) })
}

// tab completes the word before the cursor: again where the server was given up before it could
// answer, on a machine that stood still.
func (s *screen) tab(text string) {
	s.t.Helper()
	var pressed time.Time
	eventually(s.t, text, func() bool {
		if time.Since(pressed) > 3*completeLimit {
			s.enter("\t")
			pressed = time.Now()
		}
		return strings.Contains(s.out.String(), text)
	})
}

func TestTerminal(t *testing.T) {
	f := newFixture(t)
	f.create("/app", "/app/long-name=the data", "/w")
	state := t.TempDir()
	s := newScreen(t, state, "-server", f.srv.Addr())
	s.await("[zk: " + f.srv.Addr() + "(CONNECTED) 0] ")
	s.enter("get /ap")
	s.tab("get /app")
	s.enter("/lon")
	s.tab("get /app/long-name")
	s.enter("\r")
	s.await("the data")
	s.await("(CONNECTED) 1] ")

	s.enter("watch /w\r")
	s.await("watching /w")
	s.enter("\x03") // Ctrl-C
	s.await("interrupted")
	s.await("(CONNECTED) 2] ")
	s.enter("half a line\x03")
	s.enter("ls /app\r")
	s.await("[long-name]")
	s.await("(CONNECTED) 3] ")

	s.enter("addauth digest bob:hunter2\r")
	s.await("(CONNECTED) 4] ")
	s.enter("addauth digest\r")
	s.await("credentials: ")
	s.enter("eve:hunter3\r")
	s.await("(CONNECTED) 5] ")
	require.NotContains(t, s.out.String(), "hunter3", "it was not shown")
	s.enter(" ls /secret-place\r")
	s.await("(CONNECTED) 6] ")
	s.enter("whoami\r")
	s.await("digest: bob")
	s.await("digest: eve")
	s.await("(CONNECTED) 7] ")
	s.enter("get /no\r")
	s.await("Node does not exist: /no")
	s.await("(CONNECTED) 8] ")
	s.enter("quit\r")
	require.Error(t, s.cmd.Wait())
	require.Equal(t, exitRefused, s.cmd.ProcessState.ExitCode())

	file := filepath.Join(state, historyFile)
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "get /app/long-name\nwatch /w\nls /app\nwhoami\nget /no\nquit\n", string(b))
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	s = newScreen(t, state, "-server", f.srv.Addr())
	s.await("(CONNECTED) 0] ")
	s.enter("\x1b[A\x1b[A\x1b[A\r") // three lines back
	s.await("Auth scheme: User")
	s.enter("\x04") // Ctrl-D
	require.NoError(t, s.cmd.Wait())
}

// A process that is told to end gives the terminal back and keeps the history.
func TestTerminalIsGivenBackOnSIGTERM(t *testing.T) {
	f := newFixture(t)
	state := t.TempDir()
	s := newScreen(t, state, "-server", f.srv.Addr())
	s.await("(CONNECTED) 0] ")
	echo := func() bool {
		var mode syscall.Termios
		require.NoError(t, ioctl(s.pty, syscall.TCGETS, unsafe.Pointer(&mode)))
		return mode.Lflag&syscall.ECHO != 0
	}
	require.False(t, echo())
	s.enter("ls /\r")
	s.await("(CONNECTED) 1] ")
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	require.Error(t, s.cmd.Wait())
	require.Equal(t, 128+int(syscall.SIGTERM), s.cmd.ProcessState.ExitCode())
	require.True(t, echo())
	b, err := os.ReadFile(filepath.Join(state, historyFile))
	require.NoError(t, err)
	require.Equal(t, "ls /\n", string(b))
}
