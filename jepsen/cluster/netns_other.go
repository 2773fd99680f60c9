//go:build !linux

package cluster

import "errors"

// Netns exists only on Linux.
func Netns(int) (Driver, error) {
	return nil, errors.New("network namespaces exist only on Linux")
}
