package interop

import (
	"os/exec"
	"syscall"
)

// dieWithParent ends a started process when the test binary is killed, for then no
// cleanup runs.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
