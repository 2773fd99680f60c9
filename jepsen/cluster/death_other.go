//go:build !linux

package cluster

import "syscall"

func DeathSignal() *syscall.SysProcAttr { return nil }
