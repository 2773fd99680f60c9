// Package client speaks to zkd, Apache ZooKeeper 3.5 to 3.9 and ClickHouse Keeper.
//
//	c, err := client.Dial(ctx, "a:2181,b:2181,c:2181/app", client.WithTimeout(10*time.Second))
//	data, stat, err := c.Get(ctx, "/config")
//	defer c.Close(context.Background()) // ctx may have ended by then
//
// A Client is one session and at most one connection. Its methods may be called from any
// goroutine; calls that run at the same time share the connection as a pipeline. Every call
// takes a context, and waits while there is no connection until the context ends: nothing
// fails only because a server restarts.
//
// # Errors
//
// A call that did not succeed returns an *Error, which says what was asked, and what came
// back: errors.Is(err, ErrNoNode) and the like. When a write may or may not have happened,
// because the connection or the context ended after it was sent, the error is an
// *UncertainError (errors.Is(err, ErrUncertain)), never a guess. Reads, and writes that can be
// repeated without doubt, are repeated after a lost connection by themselves; Idempotent
// widens that to any write whose repetition the caller allows. What can never succeed is not
// repeated for ever: a reply beyond WithMaxFrame fails its call at once and leaves the connection
// to the others, and a request beyond the usual jute.maxbuffer is given up after the third loss.
//
// # Sessions
//
// The client reconnects by itself and resumes its session. Events tells every change of
// state, in order and without loss. Session is a handle on the time for which the session is
// surely alive: its Deadline counts from the moment the newest answered request was sent, so
// it passes before the server can give an ephemeral node away, also when nobody can be asked.
// A process that was stopped for too long learns it from Valid, before any timer has fired.
//
// # Watches
//
// A Watch (GetW, ExistsW, ChildrenW) ends in exactly one Event: a change, or an error that
// says why none can come any more. A Subscription (Subscribe, or Watch as an iterator) goes on
// over reconnects. Nothing is dropped in silence: EventReset says that changes may have been
// missed and that from here on none is, ErrLagged that the reader was too slow.
//
// An event is handed out before any reply that shows its change, as the server sends them.
// One watch on the server serves all local watchers of a path. A call that is given up leaves
// no watch behind: what the server has registered for it is removed again.
//
// # Inside
//
//	caller ── submit ──► queue ── writer ──► socket ──► reader ──► pending request, watches
//	                                                              │
//	          run: connect, resume, auth, set watches, keep alive ┘ (cuts the connection)
//
// run (one goroutine per client) dials, shakes hands, authenticates and sets the watches again
// before any user's request is sent; then it pings and watches for silence. A connection has
// one reader and one writer. core.mu guards what they share: the queue, the requests that wait
// for their reply, the watches and the session; it is never held across I/O. Events and replies
// are taken in the reader, in the order in which they arrive. Encoding happens in the caller's
// goroutine into pooled buffers, decoding of a reply's body too. While several requests are under
// way the writer lets their callers go first, so that one write carries many; a call allocates
// nothing but what it returns.
//
// Time is read from the monotonic clock, and beside it the wall clock is consulted by Valid,
// because the monotonic one may stand still while a machine sleeps.
//
// The package imports the standard library and package wire alone.
package client
