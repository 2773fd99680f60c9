//go:build !linux

package vfs

import "os"

// datasync: elsewhere os.File.Sync is what there is. On darwin it is F_FULLFSYNC, which
// alone reaches the medium.
func datasync(f *os.File) error { return f.Sync() }

// preallocate only sets the length: without fallocate an append may fail for lack of
// space, which the caller must bear anyway.
func preallocate(f *os.File, _, size int64) error { return f.Truncate(size) }
