// Package model is the replicated machine written a second time, as plainly as it can be:
// a map from full paths to nodes, a map of sessions, and every rule spelled out where it
// applies. It is what internal/sim compares server/state with.
//
// Nothing here is fast and nothing is shared with server/state, server/znode, server/acl
// or the decoder of wire: a mistake would have to be made twice to go unseen. Only the
// types of commands and results are the machine's, because both must speak of the same
// things.
//
// Data flow: BeginBatch takes the header of a batch, Apply runs one command and returns
// the result that the machine must give as well. Reads (read.go) append reply bodies,
// inspect.go lists everything there is.
package model
