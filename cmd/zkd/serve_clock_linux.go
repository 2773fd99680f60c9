package main

import (
	"syscall"
	"unsafe"
)

// clockMonotonic is CLOCK_MONOTONIC, which systemd compares.
const clockMonotonic = 1

// monotonicUsec is the time since the machine was started.
func monotonicUsec() int64 {
	var ts syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		return 0
	}
	return ts.Nano() / 1000
}
