//go:build faults

package failpoint

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Variable names the socket.
const Variable = "ZKD_FAILPOINTS"

// What an action does.
const (
	doPanic = "panic"
	doError = "error" // EIO
	doSleep = "sleep"
	doFlip  = "flip"  // one bit of what is written
	doShort = "short" // half of it is written, and then EIO
)

// An action is what happens at a point.
type action struct {
	what  string
	sleep time.Duration
	left  int // how often still; negative: for ever
}

// registry has the actions of this process.
var registry struct {
	on atomic.Bool // somebody can set actions; without that a point costs one load

	mu      sync.Mutex
	actions map[Point]*action // guarded by mu
	passed  map[Point]bool    // guarded by mu: points that were reached
}

// errInjected is what a disk returns that cannot read or write.
var errInjected = fmt.Errorf("injected: %w", syscall.EIO)

// at takes the action of a point, "" if there is none.
func at(p Point) (what string, sleep time.Duration) {
	if !registry.on.Load() {
		return "", 0
	}
	registry.mu.Lock()
	defer registry.mu.Unlock()
	registry.passed[p] = true
	a := registry.actions[p]
	if a == nil {
		return "", 0
	}
	if a.left > 0 {
		if a.left--; a.left == 0 {
			delete(registry.actions, p)
		}
	}
	return a.what, a.sleep
}

// reach does the action of a point, and returns what is left for the caller to do.
func reach(p Point) string {
	what, sleep := at(p)
	switch what {
	case doPanic:
		panic("failpoint " + string(p))
	case doSleep:
		time.Sleep(sleep)
		return ""
	}
	return what
}

// Hit is a point at which nothing can be returned.
func Hit(p Point) { reach(p) }

// Err is a point at which an error can be returned.
func Err(p Point) error {
	if reach(p) != "" {
		return errInjected
	}
	return nil
}

func init() {
	registry.actions, registry.passed = map[Point]*action{}, map[Point]bool{}
	path := os.Getenv(Variable)
	if path == "" {
		return
	}
	_ = os.Remove(path) // of the process before
	l, err := net.Listen("unix", path)
	if err != nil {
		fmt.Fprintln(os.Stderr, "failpoints:", err)
		os.Exit(1)
	}
	registry.on.Store(true)
	go func() { // ends with the process
		for {
			nc, err := l.Accept()
			switch {
			case errors.Is(err, net.ErrClosed):
				return
			case err != nil: // no file descriptors are left, by another fault
				time.Sleep(10 * time.Millisecond)
			default:
				go serve(nc)
			}
		}
	}()
}

func serve(nc io.ReadWriteCloser) {
	defer nc.Close()
	in := bufio.NewScanner(nc)
	for in.Scan() {
		out, err := command(strings.Fields(in.Text()))
		if err != nil {
			out = "error: " + err.Error() + "\n"
		} else {
			out += "ok\n"
		}
		if _, err := io.WriteString(nc, out); err != nil {
			return
		}
	}
}

func command(words []string) (out string, err error) {
	if len(words) == 0 {
		return "", errors.New("say set, clear or points")
	}
	registry.mu.Lock()
	defer registry.mu.Unlock()
	switch words[0] {
	case "set":
		return "", set(words[1:])
	case "clear":
		clear(registry.actions)
		return "", nil
	case "points":
		var names []string
		for p := range registry.passed {
			names = append(names, string(p))
		}
		slices.Sort(names)
		for _, n := range names {
			out += n + "\n"
		}
		return out, nil
	}
	return "", fmt.Errorf("there is no command %q", words[0])
}

// set is called with mu held.
func set(words []string) (err error) {
	if len(words) < 2 {
		return errors.New("set POINT ACTION …")
	}
	p, a := Point(words[0]), &action{what: words[1], left: -1}
	words = words[2:]
	switch a.what {
	case doPanic, doError, doFlip, doShort:
	case doSleep:
		if len(words) == 0 {
			return errors.New("sleep for how long?")
		}
		if a.sleep, err = time.ParseDuration(words[0]); err != nil {
			return err
		}
		words = words[1:]
	default:
		return fmt.Errorf("there is no action %q", a.what)
	}
	if len(words) > 0 {
		if a.left, err = strconv.Atoi(words[0]); err != nil {
			return err
		}
	}
	registry.actions[p] = a
	return nil
}
