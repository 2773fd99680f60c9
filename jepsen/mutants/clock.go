package mutants

// ClockFile is the variable of the environment that names the file with the shift of a
// server's wall clock in milliseconds.
const ClockFile = "ZKD_JEPSEN_CLOCK"

// Clock gives a server a wall clock that can be shifted while it runs. What it shifts is the
// time that goes into the log; durations are measured on the monotonic clock, which does not
// jump.
func Clock() []Change {
	return []Change{
		{
			"server/replication/batcher.go",
			"TimeMs: b.n.o.Now().UnixMilli(),",
			"TimeMs: b.n.o.Now().UnixMilli() + shiftMs(),",
		},
		{"server/replication/jepsenclock.go", "", clockSource},
	}
}

const clockSource = `package replication

import (
	"os"
	"strconv"
	"strings"
)

func shiftMs() int64 {
	b, err := os.ReadFile(os.Getenv("` + ClockFile + `"))
	if err != nil {
		return 0
	}
	ms, _ := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return ms
}
`
