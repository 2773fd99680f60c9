// Package stats counts what a server does: counters, gauges, latencies and sizes, under the
// names that ZooKeeper gives them, so that mntr, the admin server and a Prometheus endpoint
// render the same numbers.
//
// Data flow: the connections record into a Shard (frames, bytes, request latencies), all
// others into the exported fields of Server. A reader asks the Registry, which lists every
// metric with its ZooKeeper name and kind and computes what is derived (the latency of all
// requests is the sum over opcodes and shards) when it is asked, not when it is recorded.
// ConnStats holds the numbers of one connection.
//
// Cost: recording is one or two atomic additions, takes no lock and allocates nothing
// (except the first value of a Histogram, which brings its 4 KiB of buckets). Reading a
// registry costs some hundred microseconds. Numbers that belong together (a sum and its
// count) are read one after the other and may differ by a request under way.
//
// Time: every duration is an argument in nanoseconds; nothing here reads a clock. What is
// named in milliseconds is converted when it is read, so averages keep the fractions that
// ZooKeeper loses.
//
// srst: Reset starts the view SinceReset anew and leaves SinceStart alone. The first is what
// operators expect of srvr and mntr, the second what a monitoring system needs, which takes
// a falling counter for a restart.
package stats
