package cluster

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// newPipe returns both ends of a small pipe. They block, unlike those of os.Pipe, for a server has
// one of them as it is.
func newPipe() (fd [2]int, err error) {
	if err := syscall.Pipe2(fd[:], syscall.O_CLOEXEC); err != nil {
		return fd, err
	}
	_, err = unix.FcntlInt(uintptr(fd[1]), unix.F_SETPIPE_SZ, sinkBytes)
	return fd, err
}
