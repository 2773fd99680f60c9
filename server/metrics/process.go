package metrics

import (
	"bytes"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zkd-project/zkd/server/stats"
)

// The names are those of the standard collectors of Prometheus' Go library, which dashboards
// for Go programs read. Nothing is stopped to read them.

// runtimeMetrics are sums of samples of the runtime.
var runtimeMetrics = []struct {
	name, help, kind string
	of               []string
}{
	{"go_goroutines", "goroutines", "gauge", []string{"/sched/goroutines:goroutines"}},
	{"go_sched_gomaxprocs_threads", "GOMAXPROCS", "gauge", []string{"/sched/gomaxprocs:threads"}},
	{"go_gc_gogc_percent", "GOGC as it is in force", "gauge", []string{"/gc/gogc:percent"}},
	{"go_gc_gomemlimit_bytes", "GOMEMLIMIT", "gauge", []string{"/gc/gomemlimit:bytes"}},
	{"go_memstats_alloc_bytes", "bytes of objects on the heap", "gauge", []string{"/memory/classes/heap/objects:bytes"}},
	{"go_memstats_alloc_bytes_total", "bytes allocated", "counter", []string{"/gc/heap/allocs:bytes"}},
	{"go_memstats_mallocs_total", "objects allocated", "counter", []string{"/gc/heap/allocs:objects", "/gc/heap/tiny/allocs:objects"}},
	{"go_memstats_frees_total", "objects freed", "counter", []string{"/gc/heap/frees:objects", "/gc/heap/tiny/allocs:objects"}},
	{"go_memstats_sys_bytes", "bytes from the system", "gauge", []string{"/memory/classes/total:bytes"}},
	{"go_memstats_heap_alloc_bytes", "bytes of objects on the heap", "gauge", []string{"/memory/classes/heap/objects:bytes"}},
	{"go_memstats_heap_sys_bytes", "bytes of the heap from the system", "gauge", []string{
		"/memory/classes/heap/objects:bytes", "/memory/classes/heap/unused:bytes",
		"/memory/classes/heap/released:bytes", "/memory/classes/heap/free:bytes",
	}},
	{"go_memstats_heap_idle_bytes", "bytes of the heap that wait to be used", "gauge", []string{"/memory/classes/heap/released:bytes", "/memory/classes/heap/free:bytes"}},
	{"go_memstats_heap_inuse_bytes", "bytes of the heap in use", "gauge", []string{"/memory/classes/heap/objects:bytes", "/memory/classes/heap/unused:bytes"}},
	{"go_memstats_heap_released_bytes", "bytes of the heap given back", "gauge", []string{"/memory/classes/heap/released:bytes"}},
	{"go_memstats_heap_objects", "objects on the heap", "gauge", []string{"/gc/heap/objects:objects"}},
	{"go_memstats_stack_inuse_bytes", "bytes of stacks", "gauge", []string{"/memory/classes/heap/stacks:bytes"}},
	{"go_memstats_stack_sys_bytes", "bytes of stacks, those of the system with them", "gauge", []string{"/memory/classes/heap/stacks:bytes", "/memory/classes/os-stacks:bytes"}},
	{"go_memstats_mspan_inuse_bytes", "bytes of mspans in use", "gauge", []string{"/memory/classes/metadata/mspan/inuse:bytes"}},
	{"go_memstats_mspan_sys_bytes", "bytes of mspans", "gauge", []string{"/memory/classes/metadata/mspan/inuse:bytes", "/memory/classes/metadata/mspan/free:bytes"}},
	{"go_memstats_mcache_inuse_bytes", "bytes of mcaches in use", "gauge", []string{"/memory/classes/metadata/mcache/inuse:bytes"}},
	{"go_memstats_mcache_sys_bytes", "bytes of mcaches", "gauge", []string{"/memory/classes/metadata/mcache/inuse:bytes", "/memory/classes/metadata/mcache/free:bytes"}},
	{"go_memstats_buck_hash_sys_bytes", "bytes of the tables of the profiler", "gauge", []string{"/memory/classes/profiling/buckets:bytes"}},
	{"go_memstats_gc_sys_bytes", "bytes of the collector", "gauge", []string{"/memory/classes/metadata/other:bytes"}},
	{"go_memstats_other_sys_bytes", "bytes of other things of the runtime", "gauge", []string{"/memory/classes/other:bytes"}},
	{"go_memstats_next_gc_bytes", "size of the heap at which the next collection ends", "gauge", []string{"/gc/heap/goal:bytes"}},
}

func appendRuntime(t *text) {
	var samples []metrics.Sample
	for _, m := range runtimeMetrics {
		for _, name := range m.of {
			samples = append(samples, metrics.Sample{Name: name})
		}
	}
	metrics.Read(samples)
	for _, m := range runtimeMetrics {
		sum, known := 0.0, true
		for i := range m.of {
			known = known && samples[i].Value.Kind() == metrics.KindUint64
			if known {
				sum += float64(samples[i].Value.Uint64())
			}
		}
		samples = samples[len(m.of):]
		if known { // a later Go may drop a sample
			t.single(m.name, m.help, m.kind, sum)
		}
	}
	threads, _ := runtime.ThreadCreateProfile(nil)
	t.single("go_threads", "threads made", "gauge", float64(threads))
	t.single("go_info", "the version of Go", "gauge", 1, label{"version", runtime.Version()})

	gc := debug.GCStats{PauseQuantiles: make([]time.Duration, 5)}
	debug.ReadGCStats(&gc)
	t.header("go_gc_duration_seconds", "pauses of the garbage collector", "summary")
	for i, q := range []string{"0", "0.25", "0.5", "0.75", "1"} {
		t.sample("go_gc_duration_seconds", gc.PauseQuantiles[i].Seconds(), label{"quantile", q})
	}
	t.sample("go_gc_duration_seconds_sum", gc.PauseTotal.Seconds())
	t.sample("go_gc_duration_seconds_count", float64(gc.NumGC))
	last := 0.0
	if gc.NumGC > 0 {
		last = float64(gc.LastGC.UnixNano()) / 1e9
	}
	t.single("go_memstats_last_gc_time_seconds", "when the last collection ended, since 1970", "gauge", last)
}

// Units of /proc/self/stat: Linux shows times in hundredths of a second on every machine
// that Go runs on.
const ticksPerSecond = 100

// appendProcess appends what the system says of the process; where it has no /proc, only
// the files.
func appendProcess(t *text) {
	if n, ok := stats.OpenFiles(); ok {
		t.single("process_open_fds", "open files and sockets", "gauge", float64(n))
	}
	if n, ok := stats.MaxFiles(); ok {
		t.single("process_max_fds", "limit of open files and sockets", "gauge", float64(n))
	}
	line, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return
	}
	f := statFields(line)
	if f == nil {
		return
	}
	t.single("process_cpu_seconds_total", "CPU time", "counter", (f[utime]+f[stime])/ticksPerSecond)
	t.single("process_virtual_memory_bytes", "virtual memory", "gauge", f[vsize])
	t.single("process_resident_memory_bytes", "resident memory", "gauge", f[rss]*float64(os.Getpagesize()))
	if boot := bootTime(); boot > 0 {
		t.single("process_start_time_seconds", "when the process was started, since 1970", "gauge", boot+f[startTime]/ticksPerSecond)
	}
}

// Places in /proc/self/stat behind the name of the program, see proc_pid_stat(5).
const (
	utime     = 11
	stime     = 12
	startTime = 19
	vsize     = 20
	rss       = 21
)

// statFields returns the numbers behind the name, which stands in parentheses and may hold
// anything; nil if there are too few.
func statFields(line []byte) []float64 {
	words := strings.Fields(string(line[bytes.LastIndexByte(line, ')')+1:]))
	if len(words) <= rss {
		return nil
	}
	f := make([]float64, rss+1)
	for i := range f {
		f[i], _ = strconv.ParseFloat(words[i], 64) // the first is a letter
	}
	return f
}

// bootTime is when the machine was started, in seconds since 1970, 0 if unknown.
var bootTime = sync.OnceValue(func() float64 {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if s, ok := strings.CutPrefix(line, "btime "); ok {
			boot, _ := strconv.ParseFloat(strings.TrimSpace(s), 64)
			return boot
		}
	}
	return 0
})
