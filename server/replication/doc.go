// Package replication puts commands into the raft log, applies what is committed to the
// state machine, and keeps log, votes and snapshots on disk. It is the only package that
// knows hashicorp/raft.
//
// Data flow of a write: Propose queues a command (queue.go). On the leader the batcher packs all
// that wait into one log entry (group commit); on another server they go to the leader's queue
// over a stream (forward.go). raft writes the entry and sends it to the others, and the leader
// syncs meanwhile (durable.go); once it is committed and durable here, the FSM takes the write
// lock once per batch, applies the commands to the machine and tells the Observer of each, then
// releases the lock. Who proposed learns the result there and nowhere else: it is computed where
// the client is. Whenever the way to the leader changes, Observer.Routed asks for what is not
// applied yet.
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
// applies), the batcher, the durability, which syncs, the keeper, which takes snapshots and purges;
// in a cluster also those that watch the leader, keep the way to it (forward.go), tend the
// membership (membership.go) and compare digests (digest.go). Close ends them all.
package replication
