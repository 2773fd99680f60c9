//go:build !linux && !darwin

package vfs

import "errors"

// Space is not known here.
func Space(string) (free, total uint64, err error) {
	return 0, 0, errors.New("vfs: the free space is not known on this system")
}
