//go:build !unix

package vfs

import "os"

// lockHandle cannot lock here; wasip1, where the simulation runs, has one process, and
// the simulated disk has locks of its own.
func lockHandle(*os.File) error { return nil }

// syncDirHandle: directories cannot be synced here.
func syncDirHandle(*os.File) error { return nil }
