// Package failpoint lets a test harness make a server fail at a named point: panic, wait, or see
// an error that the disk might have returned.
//
// Only binaries that were built with the tag `faults` have it. In all others Hit and Err are empty
// and the compiler removes them with their arguments; TestReleasesHaveNoFailpoints looks.
//
// With the tag, a process whose environment names a path in ZKD_FAILPOINTS listens there on a unix
// socket for lines
//
//	set POINT panic|error|flip|short|sleep DURATION [TIMES]
//	clear
//	points
//
// and answers each with lines, the last of which is "ok" or "error: …". An action goes on until it
// was done TIMES times, or is cleared. The points of the disk are made of what is done to which
// file ("disk.log.sync"): everything that goes through internal/vfs passes one before it is done,
// and another one, with ".done", after that. The others are called by name, in the server.
package failpoint
