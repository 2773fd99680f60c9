package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

// maxLine bounds a line of a script in bytes: data of a node and its base64 fit.
const maxLine = 4 << 20

// A Process is what a run gets from the world around it.
type Process struct {
	Args           []string // without "zkd cli"
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	StateDir       string // where the history is kept; "": nowhere

	// Interrupts has Ctrl-C sent to the channel until stop is called; nil: there is none. It is
	// called for each command, so that between two of them Ctrl-C does what it always does.
	Interrupts func(chan<- os.Signal) (stop func())
}

// A shell runs commands.
type shell struct {
	Process
	settings *settings
	table    table
	out      *printer
	err      io.Writer
	term     *terminal // nil unless a person types

	conn         *connection // nil: not connected
	watches      watchBook
	printWatches atomic.Bool
	session      bool     // several commands share a session: changes of its state are printed
	history      []string // the lines of this session; "" for one with a secret
	code         int      // of the last command
	quit         bool
}

// secretLine stands for a line that is not kept.
const secretLine = "addauth ***"

// Main runs `zkd cli` and returns its exit code.
func Main(p Process) int {
	sh := &shell{Process: p, out: newPrinter(p.Stdout), err: &lineWriter{w: p.Stderr}, table: newTable()}
	sh.printWatches.Store(true)
	err := sh.main()
	if flushErr := sh.out.Flush(); err == nil && flushErr != nil {
		err = &exitError{exitLocal, flushErr.Error()}
	}
	sh.report(err)
	return sh.code
}

func (sh *shell) main() error {
	var err error
	if sh.settings, err = parseSettings(sh.Args); err != nil {
		return err
	}
	if sh.settings.help {
		sh.printHelp()
		return nil
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	defer sh.disconnect(false)
	switch {
	case len(sh.settings.command) > 0:
		sh.oneShot(ctx)
	case isTerminal(sh.Stdin, sh.Stdout):
		return sh.interact(ctx)
	default:
		return sh.script(ctx)
	}
	return nil
}

// report prints an error and keeps its exit code as the shell's.
func (sh *shell) report(err error) {
	if err == nil {
		return
	}
	msg, code := explain(err)
	_ = sh.out.Flush() // so that both streams keep their order on one terminal
	if msg != "" {
		fmt.Fprintln(sh.err, msg)
	}
	sh.code = code
}

// oneShot runs the command of the arguments. Wrong use is told without a connection.
func (sh *shell) oneShot(ctx context.Context) {
	c, err := sh.parse(sh.settings.command)
	if err == nil && !c.cmd.local {
		err = sh.interruptible(ctx, func(ctx context.Context) error {
			return sh.connect(ctx, sh.settings.servers)
		})
	}
	if err != nil {
		sh.report(err)
		return
	}
	sh.runCall(ctx, c)
}

// script runs lines from standard input, as zkCli does: a command that fails does not end it,
// unless -e is given, and the exit code is that of the last command.
func (sh *shell) script(ctx context.Context) error {
	sh.session = true
	if err := sh.interruptible(ctx, func(ctx context.Context) error { return sh.connect(ctx, sh.settings.servers) }); err != nil {
		return err
	}
	in := bufio.NewScanner(sh.Stdin)
	in.Buffer(nil, maxLine)
	for !sh.quit && in.Scan() {
		sh.runLine(ctx, in.Text())
		if sh.code == exitInterrupted || sh.code != exitOK && sh.settings.stopOnError {
			return nil
		}
	}
	if err := in.Err(); err != nil && !sh.quit {
		return &exitError{exitLocal, "standard input: " + err.Error()}
	}
	return nil
}

// runLine runs one line and puts it into the history.
func (sh *shell) runLine(ctx context.Context, line string) {
	trimmed := strings.TrimSpace(line)
	if trimmed == "" || trimmed[0] == '#' {
		return
	}
	words, err := splitLine(line)
	if err == nil && words[0] == "redo" && len(words) == 2 {
		line, words, err = sh.redo(words[1])
	}
	kept := line
	if isSecret(trimmed) || isSecret(line) {
		kept = ""
	}
	sh.history = append(sh.history, kept)
	if err != nil {
		sh.report(err)
		return
	}
	c, err := sh.parse(words)
	if err != nil {
		sh.report(err)
		return
	}
	sh.runCall(ctx, c)
}

// isSecret says that a line may hold credentials. A mistyped name counts: better one line too
// few in the history than a password.
func isSecret(line string) bool {
	word, _, _ := strings.Cut(strings.TrimLeft(strings.TrimSpace(line), `"'`), " ")
	word, _, _ = strings.Cut(word, "\t")
	return strings.Contains(strings.ToLower(word), "auth")
}

// redo finds the line that is to be run again.
func (sh *shell) redo(number string) (string, []string, error) {
	n, err := strconv.Atoi(number)
	switch {
	case err != nil || n < 0 || n >= len(sh.history):
		return "", nil, usagef("Command index out of range: %s; history lists the numbers", number)
	case sh.history[n] == "":
		return "", nil, usagef("command %d is not kept because it may hold a secret", n)
	}
	words, err := splitLine(sh.history[n])
	return sh.history[n], words, err
}

// runCall runs a command to its end and reports what came of it.
func (sh *shell) runCall(ctx context.Context, c *call) {
	if !c.cmd.local && sh.conn == nil {
		sh.report(errNotConnected)
		return
	}
	err := sh.interruptible(ctx, func(ctx context.Context) error {
		if c.cmd.local {
			return c.cmd.run(ctx, c)
		}
		ctx, stop := sh.conn.guard(ctx)
		defer stop()
		return c.cmd.run(ctx, c)
	})
	if flushErr := sh.out.Flush(); err == nil && flushErr != nil {
		err = &exitError{exitLocal, flushErr.Error()}
	}
	if err == nil && !sh.quit { // quit ends with the code of the command before it, as in zkCli
		sh.code = exitOK
	}
	sh.report(err)
}

// interruptible runs f with a context that Ctrl-C ends.
func (sh *shell) interruptible(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if sh.Interrupts != nil {
		pressed, done := make(chan os.Signal, 1), make(chan struct{})
		defer close(done)
		defer sh.Interrupts(pressed)()
		go func() {
			select {
			case <-pressed:
				cancel(errInterrupted)
			case <-done:
			}
		}()
	}
	err := f(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errInterrupted) && errors.Is(err, context.Canceled) && !errors.Is(err, errInterrupted) {
		err = fmt.Errorf("%w: %w", errInterrupted, err)
	}
	return err
}

// shellCommands are those about the shell itself.
func shellCommands() []command {
	return []command{
		{name: "help", syntax: "[command]", about: "what can be done, or what one command does", max: 1, local: true, run: runHelp},
		{name: "history", about: "the last commands with their numbers", local: true, run: runHistory},
		{name: "redo", syntax: "cmdno", about: "run a command of the history again", min: 1, max: 1, local: true, run: runRedo},
		{name: "printwatches", syntax: "on|off", about: "whether watch events are printed", max: 1, local: true, run: runPrintWatches},
		{name: "connect", syntax: "host:port", about: "connect to other servers", max: 1, local: true, run: runConnect},
		{name: "close", about: "end the session", local: true, run: runClose},
		{name: "quit", about: "end the session and the shell", local: true, run: runQuit},
		{name: "exit", about: "the same as quit", local: true, run: runQuit},
	}
}

func runHelp(_ context.Context, c *call) error {
	if len(c.args) == 0 {
		for _, name := range c.sh.table.names() {
			c.printf("\t%s\n", c.sh.table[name].usage())
		}
		return nil
	}
	cmd := c.sh.table[c.args[0]]
	if cmd == nil {
		return usagef("Command not found: %s; help lists the commands", c.args[0])
	}
	c.printf("%s\n\t%s\n", cmd.usage(), cmd.about)
	return nil
}

func runHistory(_ context.Context, c *call) error {
	h := c.sh.history
	for i := max(len(h)-11, 0); i < len(h); i++ {
		line := h[i]
		if line == "" {
			line = secretLine
		}
		c.printf("%d - %s\n", i, line)
	}
	return nil
}

// runRedo is reached only where there is no history to speak of, or by redoing a redo.
func runRedo(_ context.Context, c *call) error {
	return usagef("redo %s: there is nothing to be done again", c.args[0])
}

func runPrintWatches(_ context.Context, c *call) error {
	if len(c.args) == 0 {
		c.printf("printwatches is %s\n", map[bool]string{true: "on", false: "off"}[c.sh.printWatches.Load()])
		return nil
	}
	if c.args[0] != "on" && c.args[0] != "off" {
		return c.wrong("it is on or off")
	}
	c.sh.printWatches.Store(c.args[0] == "on")
	return nil
}

func runConnect(ctx context.Context, c *call) error {
	servers := c.sh.settings.servers
	if len(c.args) == 1 {
		servers = c.args[0]
	}
	c.sh.disconnect(true)
	return c.sh.connect(ctx, servers)
}

func runClose(_ context.Context, c *call) error {
	if c.sh.conn == nil {
		return errNotConnected
	}
	c.sh.disconnect(true)
	return nil
}

func runQuit(_ context.Context, c *call) error {
	c.sh.quit = true
	return nil
}
