// Package server is the shell around the state machine: it accepts connections, reads
// frames in order, routes them, and sends replies and watch events. It starts and stops
// everything below it.
//
// Data flow: conn.converse cuts what inbox.go has read into frames; request.go routes each
// by opcode. A read is served at once from the machine under the read lock (serve.go),
// unless the session has a write under way: then it waits in the connection's pending queue
// (pending.go). A write is numbered, put into that queue and proposed; when the log hands it
// back, Applied (apply.go), which runs under the write lock, fires the watches and then
// completes the queue's entry. All frames to a client leave through its one output queue
// (outbox.go), so their order is the order of the log.
//
// In a cluster every server does all this for its own clients. What it has proposed it keeps until
// it is applied, and proposes again when leadership has changed hands (repeat.go); which of its
// sessions live it reports to the leader (report.go), whose expiry alone ends sessions (expiry.go),
// and a server whose reports are not acknowledged tells its clients nothing, or serves those that
// take old state (readonly.go).
//
// Goroutines: one reader per connection, which also writes the replies to what it read; one
// more for each client that does not read as fast as it is written to; a few flushers, which
// write what the log produced; one loop each for expiry, the reaper, the free space of the disk and, in
// a cluster, the reports; one acceptor per listener.
// Locks, always in this order: the node's read or write lock, the server's registry mutex, a
// connection's mutex; those of the expiry, the watches and the flushers are taken last. None
// is held across I/O.
//
// Limits: config.Config and limits.go. A client that asks for too much waits; one that takes
// nothing for as long as it may be silent, or makes the server hold too much, is cut.
package server
