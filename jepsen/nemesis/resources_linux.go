package nemesis

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Control groups of both kinds: version 1 has a tree for each controller, version 2 one for all.
const groups = "/sys/fs/cgroup"

// groupOf is the folder of a controller's groups; "" if this machine has none.
func groupOf(controller string) string {
	if v1 := filepath.Join(groups, controller); exists(filepath.Join(v1, "cgroup.procs")) {
		return v1
	}
	b, err := os.ReadFile(filepath.Join(groups, "cgroup.subtree_control"))
	if err == nil && strings.Contains(" "+strings.TrimSpace(string(b))+" ", " "+controller+" ") {
		return groups
	}
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// noGroup says why processes cannot be put into groups of a controller.
func noGroup(controller string) func() string {
	return func() string {
		root := groupOf(controller)
		if root == "" {
			return "this machine has no control group for " + controller
		}
		dir := filepath.Join(root, fmt.Sprintf("zkd-jepsen-%d", os.Getpid()))
		if err := os.Mkdir(dir, 0o700); err != nil {
			return "control groups cannot be made: " + err.Error()
		}
		_ = os.Remove(dir)
		return ""
	}
}

func noLimits() string { return "" }

// A limit is a file of a group, for each version, and what to write there.
type limit struct{ v1, v2, text1, text2 string }

func cpuLimit(percent int) limit {
	const period = 100_000 // µs
	quota := period * percent / 100
	return limit{"cpu.cfs_quota_us", "cpu.max", strconv.Itoa(quota), fmt.Sprintf("%d %d", quota, period)}
}

func memoryLimit(n int64) limit {
	text := strconv.FormatInt(n, 10)
	return limit{"memory.limit_in_bytes", "memory.max", text, text}
}

// inGroup puts a process into a group of its own with a limit, and returns what takes it out.
func inGroup(controller string, server, pid int, l limit) (release func() error, err error) {
	root := groupOf(controller)
	before, err := placeOf(root, controller, pid)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(root, fmt.Sprintf("zkd-jepsen-%d-%d-%s", os.Getpid(), server, controller))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	file, text := l.v2, l.text2
	if exists(filepath.Join(dir, l.v1)) {
		file, text = l.v1, l.text1
	}
	if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	if err := move(dir, pid); err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	return func() error {
		if exists(filepath.Join("/proc", strconv.Itoa(pid))) {
			_ = move(before, pid) // it may end just now
		}
		return removeGroup(dir)
	}, nil
}

// removeGroup removes a group that may still have a process which is about to be gone.
func removeGroup(dir string) error {
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if err := os.Remove(dir); !errors.Is(err, unix.EBUSY) || time.Since(began) > time.Minute {
			return err
		}
	}
}

func move(dir string, pid int) error {
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o600)
}

// placeOf is the group that a process is in.
func placeOf(root, controller string, pid int) (string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) == 3 && (fields[1] == controller || fields[1] == "" && root == groups) {
			return filepath.Join(root, fields[2]), nil
		}
	}
	return root, nil
}

// resident is the memory of a process, in bytes.
func resident(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return 0, fmt.Errorf("/proc/%d/statm is %q", pid, b)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// limitFiles leaves a process with room for a few more open files.
func limitFiles(pid, more int) (release func() error, err error) {
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return nil, err
	}
	var before unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &before); err != nil {
		return nil, err
	}
	now := before
	now.Cur = min(before.Cur, uint64(len(open)+more))
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &now, nil); err != nil {
		return nil, err
	}
	return func() error {
		if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &before, nil); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
		return nil
	}, nil
}
