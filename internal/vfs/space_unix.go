//go:build linux || darwin

package vfs

import "syscall"

// Space is the room on the file system of a directory, for this user: what is free, and all.
func Space(dir string) (free, total uint64, err error) {
	var st syscall.Statfs_t
	if err := ignoringEINTR(func() error { return syscall.Statfs(dir, &st) }); err != nil {
		return 0, 0, err
	}
	size := uint64(st.Bsize)
	return st.Bavail * size, st.Blocks * size, nil
}
