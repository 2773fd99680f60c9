package cluster

import "syscall"

// deathSignal has the kernel kill a server whose harness is gone.
func deathSignal() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
