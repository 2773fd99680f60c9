// Package zkdata reads and writes the files in which Apache ZooKeeper keeps its database.
//
// A database is a snapshot and the transactions behind it:
//
//	snapshot.Z ──ReadSnapshot──► Database ◄──Apply── Txn ◄──LogReader── log.Y, log.X …
//	                                │
//	                                ├── Walk, Sessions, Digest
//	snapshot.Z ◄──SnapshotWriter────┘
//
// Load does the left half for a directory, as ZooKeeper does when it starts: the newest
// snapshot that is complete, then every transaction behind it. ZooKeeper writes a snapshot
// while it goes on, so that the snapshot alone is no state that ever was: only the replay
// makes it one. Unlike ZooKeeper, Load refuses what it cannot be sure of: a gap between two
// transactions, transactions behind a damaged one, a tree whose digest is not the one that
// ZooKeeper has noted.
//
// Nothing here starts a goroutine, reads a clock or writes a file; what is read comes from an
// io.Reader or fs.FS. No length in a file is believed further than bytes follow it.
package zkdata
