//go:build !linux

package main

// monotonicUsec is for systemd, which is on Linux alone.
func monotonicUsec() int64 { return 0 }
