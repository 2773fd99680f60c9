package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/jepsen/cluster"
)

// withPoints are the nemeses that need a server with failpoints.
var withPoints = []string{"slow-fsync", "freeze", "eio", "failpoint"}

// needsPoints says whether a run needs a server that was built with them.
func needsPoints(o *Options) bool {
	return slices.ContainsFunc(o.Nemeses, func(n string) bool { return slices.Contains(withPoints, n) })
}

// pointSockets are where servers listen for what to do at their failpoints.
type pointSockets struct{ dir string }

// openPoints gives each server a socket, where a nemesis of the run needs it; nil where none does.
// The folder is not that of the run, for the path of a socket must be short.
func openPoints(r *run, o *cluster.Options) (*pointSockets, error) {
	if !needsPoints(&r.o) {
		return nil, nil
	}
	dir, err := os.MkdirTemp("", "jepsen-points-")
	if err != nil {
		return nil, err
	}
	s := &pointSockets{dir}
	o.AddEnv(func(server int) string { return "ZKD_FAILPOINTS=" + s.path(server) })
	return s, nil
}

func (s *pointSockets) path(server int) string { return filepath.Join(s.dir, fmt.Sprint(server)) }

// tell sends a line to a server and waits for it to confirm.
func (s *pointSockets) tell(server int, line string) error {
	_, err := s.ask(server, line)
	return err
}

// ask sends a line to a server and returns what it answers.
func (s *pointSockets) ask(server int, line string) (answer []string, err error) {
	nc, err := net.DialTimeout("unix", s.path(server), time.Second)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	if err := nc.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintln(nc, line); err != nil {
		return nil, err
	}
	in := bufio.NewScanner(nc)
	for in.Scan() {
		if text := in.Text(); text == "ok" {
			return answer, nil
		} else if why, bad := strings.CutPrefix(text, "error: "); bad {
			return nil, errors.New(why)
		}
		answer = append(answer, in.Text())
	}
	return nil, errors.Join(errors.New("a server has not confirmed a failpoint"), in.Err())
}

func (s *pointSockets) close() error {
	if s == nil {
		return nil
	}
	return os.RemoveAll(s.dir)
}
