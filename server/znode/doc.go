// Package znode is the tree of nodes: names, data, stat, sequence counters, ephemerals,
// container and TTL nodes, quotas, digests, and snapshots of all that.
//
// Data flow of a write: state looks the parent up, decides by its own rules whether the
// operation is allowed, and calls Create, Delete, SetData or SetACL, which only change. A
// change of a node passes one place (Tree.change), which keeps the pre-image for a running
// multi and for a running snapshot and takes the node out of the digests; Tree.changed puts
// it in again. Reads look a path up and take what they need from the Node, without an
// allocation.
//
// Nodes live in an arena of chunks and name each other by index: few pointers for the
// garbage collector, 128 bytes a node, and a dense numbering by which a snapshot walks the
// tree while it changes. A node is found by hashing (index of the parent, name) into one
// table for the whole tree; its siblings are chained; full paths are stored nowhere. What
// only directories need is in a second struct that a node gets with its first child.
//
// Time (milliseconds, wall clock of the leader), zxids and sessions are arguments. The
// package starts no goroutine, reads no clock and does no I/O but on the readers and
// writers it is given.
//
// Ownership: one writer (the apply loop) or any number of readers at a time; the caller
// holds the lock. Two things are safe beside readers: the cache of sorted children has its
// own mutex, and a Snapshot takes the readers' side of the lock by itself. A *Node is valid
// until the lock is released; data and names taken from it stay valid, they are never
// written again.
//
// The package does not judge: permissions, versions, sessions and the order of errors are
// state's.
package znode
