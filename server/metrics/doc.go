// Package metrics serves the numbers of a server to Prometheus, at /metrics, under the names
// that ZooKeeper's PrometheusMetricsProvider gives them, with those of zkd (zkd_) and of the
// process (go_, process_) beside them.
//
// Data flow: a scrape asks the stats.Registry for every value and writes it in the text
// format 0.0.4 into a buffer, which is then sent. Counters and sums count since the start,
// whatever srst has reset. Percentiles are those of the last five to ten minutes: before
// them an older reading of the same histogram is subtracted.
//
// Why not prometheus/client_golang: it would add 2.2 MB and eight modules to a binary of
// 11.6 MB, to print what the registry lists already. The names of its standard collectors
// are kept.
//
// Ownership: a Server belongs to who started it; a scrape holds a lock on the older readings
// while it gathers, and none while it sends.
package metrics
