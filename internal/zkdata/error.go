package zkdata

import "fmt"

// An Error is returned for a file that is not as ZooKeeper writes it.
type Error struct {
	File   string // its path; "" where a reader was given
	Offset int64  // of the byte at which it was found
	What   string // what is wrong
}

// Error implements error.
func (e *Error) Error() string {
	if e.File == "" {
		return fmt.Sprintf("offset %d: %s", e.Offset, e.What)
	}
	return fmt.Sprintf("%s, offset %d: %s", e.File, e.Offset, e.What)
}

// A DoubtError is returned by Load for files each of which is in order, but which together
// may be less than what ZooKeeper had. Source.Force does without the check.
type DoubtError struct{ What string }

// Error implements error.
func (e *DoubtError) Error() string { return e.What }
