package state

import "fmt"

// CurrentLevel is the highest feature level that this version knows. Commands in the log
// are interpreted by whatever version applies them, so a change of what a command means
// must be a branch on Machine.Level, and raises this constant.
const CurrentLevel uint32 = 2

// LevelRestore is the level from which on there are KindRestore and its section in a snapshot.
const LevelRestore uint32 = 2

// firstLevel is the level of a new machine: whatever version starts a cluster, older ones
// may join until the leader raises the level.
const firstLevel uint32 = 1

// An UnsupportedError is returned for a log entry or a snapshot that a newer version has
// written. The server must stop: to skip the entry would be to diverge from the others.
type UnsupportedError struct {
	What    string // what is unknown: "batch format", "command kind", "feature level" …
	Number  uint64 // the one that was found
	Highest uint64 // the highest one that this version knows
}

// Error implements error.
func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("%s %d was written by a newer version of zkd, this one knows up to %d: install the newer version",
		e.What, e.Number, e.Highest)
}

// A DamagedError is returned for a log entry that is no batch, although the checksums of
// the log were right.
type DamagedError struct {
	Offset int // where in the entry the bad field starts
	Reason string
}

// Error implements error.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("log entry is damaged at byte %d: %s", e.Offset, e.Reason)
}
