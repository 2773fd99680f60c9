// Package needs is for tests that need what not every machine has: foreign clients and servers, file
// systems of their own. Where ZKD_INTEROP=require is set, as in CI, nothing of that may be missing.
package needs

import "os"

// TB is what is needed of a test.
type TB interface {
	Helper()
	Fatal(args ...any)
	Skip(args ...any)
}

// Required says whether everything has to be there.
func Required() bool { return os.Getenv("ZKD_INTEROP") == "require" }

// Unavailable skips a test for what this machine does not have, or fails it where that is required.
func Unavailable(t TB, why string) {
	t.Helper()
	if Required() {
		t.Fatal(why)
	}
	t.Skip(why)
}
