// Package recipes builds locks, elections and their like on package client.
//
//	m := recipes.NewMutex(c, "/locks/reindex")
//	err := m.Do(ctx, func(ctx context.Context, l recipes.Lease) error {
//		_, err := c.Multi().Add(l.Guard()...).Set("/index/state", state, -1).Commit(ctx)
//		return err
//	})
//
// # Leases
//
// What is held is a Lease: an ephemeral node of this session. Its Done closes, and the contexts
// made of it end, before anybody else can hold, as long as the process runs. A process that was
// stopped can wake up and act on what it believed before; against that there are Valid, which
// asks the clock, Guard, which lets the server refuse a write, and Token, a number by which any
// other resource can refuse a holder of the past.
//
// # Names
//
// Node names and data are those of Apache Curator, so that programs in Java share the queue;
// WithFormat(Kazoo) shares with Python programs instead. No name satisfies both: a node that
// would not respect ours makes the call fail with a ForeignContenderError, since otherwise both
// would hold the lock. (One that comes while we hold is seen by our next contender, not by the
// holder.) Curator and kazoo compare names as texts or digits, and misorder at the
// moment when the server's counter wraps around after 2,147,483,647 nodes; recipes do not.
//
// # Contexts
//
// Every call that waits takes a context. When it ends early, no node and no watch stays behind:
// what cannot be deleted now is deleted in the background, at the latest with the session.
// WithOwner makes locks reentrant.
//
// # Inside
//
//	Lock ── line: create, list, watch the one before us ──► hold ── Lease
//	     └─ post: create or wait for its end (Unfair) ────►  │
//	                                                         └ run: our node, the session, the clock
//
// A hold has one goroutine (run), which ends with the hold. Calls that wait have none. A new
// session begins everything again that had not been granted; what had been granted is lost.
package recipes
