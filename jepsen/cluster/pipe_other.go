//go:build !linux

package cluster

import "errors"

func newPipe() (fd [2]int, err error) {
	return fd, errors.New("small pipes exist only on Linux")
}
