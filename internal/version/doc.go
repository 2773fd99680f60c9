// Package version knows which zkd this is: release, commit and time of the build, and the
// text that stands where ZooKeeper shows its own version.
//
// A release build sets the three variables of version.go with -ldflags -X. Without them
// the package falls back on what the Go toolchain has put into the binary: the commit of a
// checkout, or the module version where zkd is a dependency of another program.
package version
