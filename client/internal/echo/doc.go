// Package echo is a server without a tree: it answers every request at once, with a reply that
// was made beforehand. What a client takes with it is the client's own cost.
//
//	socket ──► read what is there ──► one reply for each whole frame ──► one write
//
// A connection has one goroutine, which after the handshake allocates nothing: what a benchmark
// counts beside it are the client's allocations. Sessions, watches and versions do not exist.
package echo
