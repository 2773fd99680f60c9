package cluster

import "syscall"

// DeathSignal has the kernel kill a server whose harness is gone.
func DeathSignal() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
