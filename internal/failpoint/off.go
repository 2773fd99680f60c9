//go:build !faults

package failpoint

// Hit does nothing.
func Hit(Point) {}

// Err does nothing.
func Err(Point) error { return nil }
