// Package damage has the error for stored data that is not as it was written.
package damage

import "fmt"

// Error is returned when a file of the data directory is damaged: a wrong checksum, a
// missing part. Nothing has been changed on the disk, and nothing may be served from it.
type Error struct {
	File   string // path of the file, or of the directory when a whole file is missing
	Offset int64  // byte at which the damage was found, -1 where there is none to name
	What   string // what is wrong
	Repair string // what the operator can do
}

func (e *Error) Error() string {
	at := e.File
	if e.Offset >= 0 {
		at = fmt.Sprintf("%s, offset %d", e.File, e.Offset)
	}
	return fmt.Sprintf("damaged data in %s: %s; %s", at, e.What, e.Repair)
}

// Rejoin is the repair when acknowledged writes may be missing from this server.
const Rejoin = "keep a copy of the data directory, then replace it by a backup; " +
	"a member of a cluster can start with an empty directory instead and gets the data from the others"
