//go:build !linux

package main

import (
	"fmt"
	"io"
)

// alone needs a Linux kernel to run the binary of the container image.
func alone(_, _ string, out io.Writer) error {
	fmt.Fprintln(out, "skipped: the container image is for Linux")
	return nil
}
