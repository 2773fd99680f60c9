// Package state is the replicated state machine: the tree, the sessions, the ACL table, who
// the servers of the cluster are, the settings that came with the last batch, and the zxid.
//
// Data flow: a server encodes client writes as Commands, the leader packs those that wait
// into a Batch with one header, the batch becomes one log entry, and every server decodes
// it and calls Apply once per command, in order. Apply fills a Result with the reply and
// the Events that the command caused; only a reconfig may be answered by the Result of a
// later command (members.go). Reads (read.go) append the body of their reply straight from
// the tree.
//
// The machine is pure: it reads no clock, draws no random number, does no I/O, starts no
// goroutine and never depends on map order. What varies (the time, a session's id and
// password, the identities of a connection, the settings of the leader) the proposer has
// put into the header or the command; the machine itself counts the zxid. Equal log
// prefixes give equal machines, results, events and digests on every server.
//
// Owner: the apply loop writes; readers may look between two batches. The machine has no
// lock of its own.
package state
