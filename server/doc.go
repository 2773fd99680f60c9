// Package server is the shell around the state machine: it accepts connections, reads
// frames in order, routes them, and sends replies and watch events. It starts and stops
// everything below it.
//
// Data flow: conn.readLoop cuts frames; request.go routes each by opcode. A read is served
// at once from the machine under the read lock (serve.go), unless the session has a write
// under way: then it waits in the connection's pending queue (pending.go). A write is
// numbered, put into that queue and proposed; when the log hands it back, Applied
// (apply.go), which runs under the write lock, fires the watches and then completes the
// queue's entry. All frames to a client leave through its one output queue (outbox.go), so
// their order is the order of the log.
//
// Goroutines: one reader per connection, which also writes the replies to what it read; a
// few flushers, which write what the log produced; one expiry loop; one reaper loop; one
// acceptor per listener. Locks, always in this order: the node's read or write lock, the
// server's registry mutex, a connection's mutex. None is held across I/O.
package server
