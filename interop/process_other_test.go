//go:build !linux

package interop

import "os/exec"

// dieWithParent does nothing where the system cannot tie a process to its parent.
func dieWithParent(*exec.Cmd) {}
