//go:build !linux

package disk

import "errors"

// An Image exists only on Linux.
type Image struct{}

var errNone = errors.New("file systems of one's own exist only on Linux")

// Unavailable says why there can be no Image.
func Unavailable() string { return errNone.Error() }

// CannotAbort says why no Image can be aborted.
func CannotAbort() string { return errNone.Error() }

// New fails.
func New(string) (*Image, error) { return nil, errNone }

// Dir is nowhere.
func (*Image) Dir() string { return "" }

// PowerCut fails.
func (*Image) PowerCut() error { return errNone }

// Abort fails.
func (*Image) Abort() error { return errNone }

// Mend fails.
func (*Image) Mend() error { return errNone }

// Fill fails.
func (*Image) Fill() error { return errNone }

// Empty fails.
func (*Image) Empty() error { return errNone }

// Close does nothing.
func (*Image) Close() error { return nil }

// Remove does nothing.
func (*Image) Remove() error { return nil }
