package fourletter

import (
	"math"
	"os"
	"os/user"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/internal/version"
)

// A Pair is a line of envi.
type Pair struct{ Key, Value string }

// missing is what ZooKeeper shows for a property that is not set.
const missing = "<NA>"

// Environment is what envi shows, under ZooKeeper's keys and in its order, and zkd.version
// as the last. fullVersion is the version as srvr shows it.
//
// What is a property of Java shows what comes nearest here (java.version is Go's version,
// java.class.path the program), or "<NA>", as ZooKeeper shows what is not set. The memory is
// that of Go's heap, its maximum GOMEMLIMIT or else the machine's memory.
func Environment(fullVersion string) []Pair {
	free, limit, total := memory()
	return []Pair{
		{"zookeeper.version", fullVersion},
		{"host.name", or(os.Hostname())},
		{"java.version", runtime.Version()},
		{"java.vendor", "Go"},
		{"java.home", missing},
		{"java.class.path", or(os.Executable())},
		{"java.library.path", missing},
		{"java.io.tmpdir", os.TempDir()},
		{"java.compiler", runtime.Compiler},
		{"os.name", javaName(osNames, runtime.GOOS)},
		{"os.arch", javaName(archNames, runtime.GOARCH)},
		{"os.version", osVersion()},
		{"user.name", userName()},
		{"user.home", or(os.UserHomeDir())},
		{"user.dir", or(os.Getwd())},
		{"os.memory.free", megabytes(free)},
		{"os.memory.max", megabytes(limit)},
		{"os.memory.total", megabytes(total)},
		{"zkd.version", version.Get().Release},
	}
}

// Java's names of systems and processors, where they differ from Go's.
var (
	osNames = map[string]string{
		"linux": "Linux", "darwin": "Mac OS X", "windows": "Windows", "freebsd": "FreeBSD", "openbsd": "OpenBSD",
		"netbsd": "NetBSD", "solaris": "SunOS", "illumos": "SunOS", "aix": "AIX",
	}
	archNames = map[string]string{"arm64": "aarch64", "386": "i386"}
)

func javaName(names map[string]string, name string) string {
	if n, ok := names[name]; ok {
		return n
	}
	return name
}

// or is a value that could be found out, else missing. A line end in it would forge a line.
func or(value string, err error) string {
	if err != nil || value == "" || strings.ContainsAny(value, "\r\n") {
		return missing
	}
	return value
}

// osVersion is the release of the kernel, where the system tells it in a file.
func osVersion() string {
	b, err := os.ReadFile("/proc/sys/kernel/osrelease")
	return or(strings.TrimSpace(string(b)), err)
}

func userName() string {
	u, err := user.Current()
	if err != nil {
		return or(os.Getenv("USER"), nil)
	}
	return or(u.Username, nil)
}

// memory is the heap in bytes as Java counts it: what is free of what the process has taken
// for it, the most it may take, and what it has taken.
func memory() (free, limit, total int64) {
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
	}
	metrics.Read(samples)
	var n [3]int64
	for i, s := range samples {
		if s.Value.Kind() == metrics.KindUint64 {
			n[i] = int64(s.Value.Uint64())
		}
	}
	limit = debug.SetMemoryLimit(-1) // asks only
	if limit == math.MaxInt64 {
		limit = machineMemory()
	}
	free, total = n[0]+n[1], n[0]+n[1]+n[2]
	return free, max(limit, total), total
}

// machineMemory is the memory of the machine in bytes, 0 where no file tells.
func machineMemory() int64 {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == "MemTotal:" {
			kib, _ := strconv.ParseInt(f[1], 10, 64)
			return kib << 10
		}
	}
	return 0
}

func megabytes(n int64) string {
	return strconv.FormatInt(n>>20, 10) + "MB"
}
