// Package disk has file systems that can fill up, lose power, and refuse every write.
//
// Each is an ext4 file system in a file, mounted through a loop device. A power cut is the
// shutdown that ext4 offers to tests: from then on nothing reaches the device, so what was not
// synced is gone when the file system is mounted again; the journal is replayed as after a real
// one. That it can only be read is what ext4 does by itself when it finds an error, which it has
// a file in /sys to be told of. All of it needs root on Linux. What it does not model: a device
// that loses or reorders what it has acknowledged, or tears a sector.
package disk
