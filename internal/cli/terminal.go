package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/peterh/liner"

	"github.com/zkd-project/zkd/client"
)

// historyFile is the name of the history in the state directory.
const historyFile = "cli_history"

// isTerminal says that a person types and reads.
func isTerminal(in io.Reader, out io.Writer) bool {
	if in != os.Stdin || out != os.Stdout || !liner.TerminalSupported() {
		return false
	}
	if _, err := liner.TerminalMode(); err != nil {
		return false
	}
	info, err := os.Stdout.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// A terminal reads lines from a person. The line editor leaves Ctrl-C a signal while a command
// runs, and takes it for itself while a line is read.
type terminal struct {
	state *liner.State
	file  string // "": the history is not kept
}

func newTerminal(sh *shell) *terminal {
	t := &terminal{state: liner.NewLiner()}
	t.state.SetCtrlCAborts(true)
	t.state.SetTabCompletionStyle(liner.TabPrints)
	t.state.SetWordCompleter(func(line string, pos int) (string, []string, string) {
		r := []rune(line)
		head, tail := string(r[:pos]), string(r[pos:])
		start, candidates := sh.complete(head)
		if len(candidates) == 1 && !strings.HasPrefix(candidates[0], "/") && !strings.HasPrefix(tail, " ") {
			candidates[0] += " "
		}
		return head[:start], candidates, tail
	})
	if sh.StateDir != "" {
		t.file = filepath.Join(sh.StateDir, historyFile)
		if f, err := os.Open(t.file); err == nil {
			_, _ = t.state.ReadHistory(f)
			_ = f.Close()
		}
	}
	return t
}

// close gives the terminal back and keeps the history.
func (t *terminal) close() error {
	_ = t.state.Close()
	if t.file == "" {
		return nil
	}
	return writeHistory(t.file, func(w io.Writer) error {
		_, err := t.state.WriteHistory(w)
		return err
	})
}

// writeHistory replaces the file, which is the owner's alone. Two shells that end at the same
// time leave the history of one, and never half of one.
func writeHistory(name string, write func(io.Writer) error) error {
	dir := filepath.Dir(name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, historyFile+".*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	err = write(f)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// endBySignal gives the terminal back when the process is told to end while a line is edited:
// else the user's shell would find it without echo. The session is left to expire.
func (t *terminal) endBySignal() (stop func()) {
	told, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(told, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		select {
		case sig := <-told:
			_ = t.close()
			code := 128
			if n, ok := sig.(syscall.Signal); ok {
				code += int(n)
			}
			os.Exit(code)
		case <-done:
		}
	}()
	return func() {
		signal.Stop(told)
		close(done)
	}
}

// keep puts a line into the history, unless it may hold a secret or begins with a space, by
// which a person says that it should not be kept.
func (t *terminal) keep(line string) {
	if strings.TrimSpace(line) != "" && line[0] != ' ' && !isSecret(line) {
		t.state.AppendHistory(line)
	}
}

// secret asks for credentials without showing them.
func (t *terminal) secret(prompt string) (string, error) {
	s, err := t.state.PasswordPrompt(prompt)
	if errors.Is(err, liner.ErrPromptAborted) {
		return "", errInterrupted
	}
	return s, err
}

// interact reads and runs lines until quit or the end of the input. A failed connection does not
// end it: connect makes another one.
func (sh *shell) interact(ctx context.Context) error {
	sh.session = true
	sh.report(sh.interruptible(ctx, func(ctx context.Context) error { return sh.connect(ctx, sh.settings.servers) }))
	if sh.conn != nil {
		fmt.Fprintf(sh.out, "Connected to %s, session 0x%x. help lists the commands.\n", sh.conn.root.Server(), uint64(sh.conn.root.SessionID()))
	}
	sh.term = newTerminal(sh)
	defer sh.term.endBySignal()()
	defer func() {
		if err := sh.term.close(); err != nil {
			fmt.Fprintln(sh.err, "the history was not kept:", err)
		}
	}()
	for !sh.quit {
		if err := sh.out.Flush(); err != nil {
			return &exitError{exitLocal, err.Error()}
		}
		line, err := sh.term.state.Prompt(sh.prompt())
		switch {
		case errors.Is(err, liner.ErrPromptAborted):
			continue
		case errors.Is(err, io.EOF):
			fmt.Fprintln(sh.out)
			return nil
		case err != nil:
			return &exitError{exitLocal, "terminal: " + err.Error()}
		}
		sh.term.keep(line)
		sh.runLine(ctx, line)
	}
	return nil
}

// prompt is zkCli's.
func (sh *shell) prompt() string {
	servers, state := sh.settings.servers, "CLOSED"
	if sh.conn != nil {
		servers = sh.conn.servers
		switch s := sh.conn.root.State(); s {
		case client.StateConnected:
			state = "CONNECTED"
		case client.StateReadOnly:
			state = "CONNECTEDREADONLY"
		case client.StateDisconnected, client.StateLapsed, client.StateConnecting, client.StateExpired:
			state = "CONNECTING"
		default:
			state = strings.ToUpper(s.String())
		}
	}
	return fmt.Sprintf("[zk: %s(%s) %d] ", servers, state, len(sh.history))
}
