// Package boltstore keeps raft's term and vote, and on demand its log, in bbolt files by
// way of raft-boltdb. It is the only importer of raft-boltdb, whose dependencies are what
// decides which version of hashicorp/raft can be used.
//
// bbolt notices neither a flipped bit in a value nor, before it is too late, a file that has
// lost its end. So every value carries a CRC32C here, and panics and memory faults of bbolt
// become a *damage.Error.
package boltstore
