//go:build !unix

package stats

// OpenFiles is not known on this system.
func OpenFiles() (int64, bool) { return 0, false }

// MaxFiles is not known on this system.
func MaxFiles() (int64, bool) { return 0, false }
