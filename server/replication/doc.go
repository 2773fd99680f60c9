// Package replication puts commands into the raft log, applies what is committed to the
// state machine, and keeps log, votes and snapshots on disk. It is the only package that
// knows hashicorp/raft.
//
// Data flow of a write: Propose queues a command; the batcher packs all that wait into one
// log entry (group commit); raft stores it (one write, one fdatasync) and, once committed,
// hands it to the FSM; the FSM takes the write lock once per batch, applies the commands to
// the machine and tells the Observer of each, then releases the lock. Who proposed learns
// the result there and nowhere else: it is computed where the client is.
//
// Readers take the read lock (RLock) and use Machine. They see whole batches only.
//
// Snapshots are taken when enough log has been applied; writers go on meanwhile. Purging
// removes old snapshots, and log files that only they needed.
//
// Any error of the log, of the stable store or of a snapshot ends it all (Options.Fatal):
// what is on the disk is not known then, and nothing is applied or answered afterwards.
//
// Goroutines: those of raft (its main loop alone writes to the log, its FSM goroutine alone
// applies), the batcher (batcher.go) and the keeper, which takes snapshots and purges
// (keeper.go). Close ends them all.
//
// For now a Node is the only voter. What clusters add has its place already: the transport
// (transport.go), the answers of ErrNotLeader, and Restored.
package replication
