// Package session holds which sessions exist, and decides which of them are alive.
//
// The two halves have different owners and never meet:
//
//   - Table is replicated state: commands in the log create, attach and remove sessions, so
//     it is the same on every server at the same zxid. Its owner is the state machine.
//   - Tracker is the leader's alone, kept in memory and made anew by each leader: when each
//     session was last heard of, in buckets of one tick.
//
// Data flow: servers report the ids that they have heard of, the leader's expiry loop calls
// Tracker.Touch for each, and once per tick Tracker.Expire(now), and proposes to close every
// session returned; applying that command removes the session from the Table and its
// ephemeral nodes from the tree, everywhere at the same zxid, and the leader's loop calls
// Tracker.Remove. Nothing here deletes a znode.
//
// Time is an argument (nanoseconds since the owner's epoch, monotonic). The package starts
// no goroutine, takes no lock, reads no clock and draws no random number: ids and passwords
// are the proposer's.
package session
