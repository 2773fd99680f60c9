// Package leak finds goroutines that tests leave behind. It looks again for a long time: on a machine
// that is busy, or stands still for a while, those that are about to end take longer than goleak waits.
package leak

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long a goroutine may take to end.
const patience = time.Minute

// Find returns nil when all goroutines have ended that the options do not allow, or says which have not.
func Find(opts ...goleak.Option) error { return within(patience, opts...) }

func within(limit time.Duration, opts ...goleak.Option) error {
	for over := time.Now().Add(limit); ; { // each look takes a moment
		if err := goleak.Find(opts...); err == nil || time.Now().After(over) {
			return err
		}
	}
}

// Main runs the tests of a package for its TestMain, fails it if a goroutine is left, and returns what to
// exit with.
func Main(m *testing.M) (code int) {
	if code = m.Run(); code != 0 {
		return code
	}
	if err := Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
