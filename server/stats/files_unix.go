//go:build unix

package stats

import (
	"os"
	"syscall"
)

// OpenFiles is the number of files and sockets that the process has open, and whether that
// could be found out.
func OpenFiles() (int64, bool) {
	for _, dir := range []string{"/proc/self/fd", "/dev/fd"} {
		d, err := os.Open(dir)
		if err != nil {
			continue
		}
		names, err := d.Readdirnames(-1)
		d.Close()
		if err == nil {
			return int64(len(names)) - 1, true // without the directory itself
		}
	}
	return 0, false
}

// MaxFiles is the limit of files and sockets that the process may have open, and whether
// that could be found out.
func MaxFiles() (int64, bool) {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return 0, false
	}
	return int64(l.Cur), true
}
