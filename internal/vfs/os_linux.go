package vfs

import (
	"errors"
	"os"
	"syscall"
)

// datasync writes bytes and length to the disk, without the time stamps that Sync would
// take a journal commit for.
func datasync(f *os.File) error {
	return control(f, "fdatasync", syscall.Fdatasync)
}

// preallocate reserves the space up to size. File systems without fallocate get the
// length alone: an append may then fail for lack of space, which the caller must bear
// anyway.
func preallocate(f *os.File, have, size int64) error {
	err := control(f, "fallocate", func(fd int) error {
		return syscall.Fallocate(fd, 0, have, size-have)
	})
	if errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) {
		return f.Truncate(size)
	}
	return err
}
