package cli

import (
	"io"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/zkdtest"
)

// BenchmarkOneShot is a command from its arguments to its exit code, with a session of its own.
// The start of the process comes on top, some 3 ms.
func BenchmarkOneShot(b *testing.B) {
	srv := zkdtest.Start(b)
	b.ReportAllocs()
	for b.Loop() {
		code := Main(Process{
			Args:  []string{"-server", srv.Addr(), "get", "/zookeeper"},
			Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard,
		})
		if code != exitOK {
			b.Fatalf("exit code %d", code)
		}
	}
}
