//go:build unix

package vfs

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lockHandle takes the flock of an open file. A flock belongs to the open file, so it
// also keeps out a second opener in the same process.
func lockHandle(f *os.File) error {
	err := ignoringEINTR(func() error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) })
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrLocked
	}
	if err != nil {
		return &os.PathError{Op: "flock", Path: f.Name(), Err: err}
	}
	return nil
}

// syncDirHandle syncs an open directory.
func syncDirHandle(d *os.File) error { return d.Sync() }

// control runs a system call on the descriptor of f. Unlike Fd it keeps the file in
// place while the call runs, also beside a Close.
func control(f *os.File, op string, call func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return fmt.Errorf("%s %s: %w", op, f.Name(), err)
	}
	var callErr error
	err = raw.Control(func(fd uintptr) {
		callErr = ignoringEINTR(func() error { return call(int(fd)) })
	})
	if err == nil {
		err = callErr
	}
	if err != nil {
		return &os.PathError{Op: op, Path: f.Name(), Err: err}
	}
	return nil
}

// ignoringEINTR repeats a system call that a signal has interrupted.
func ignoringEINTR(call func() error) error {
	for {
		err := call()
		if err != syscall.EINTR {
			return err
		}
	}
}
