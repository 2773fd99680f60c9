//go:build !linux

package cluster

import "syscall"

func deathSignal() *syscall.SysProcAttr { return nil }
