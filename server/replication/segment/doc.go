// Package segment keeps the raft log in append-only files.
//
// Data flow: StoreLogs encodes a batch, writes it behind the last one with one write, syncs
// once and only then lets readers see it. GetLog serves the newest entries from memory and
// the others from the disk, where every read checks the checksum. DeleteRange drops whole
// files in front, or cuts the tail by writing the last file anew. Open reads all files and
// tells a torn tail, which a crash leaves and which is cut, from damage, which stops it.
//
// Ownership: one writer at a time (raft's main loop) calls StoreLogs and DeleteRange; any
// goroutine may call GetLog, FirstIndex and LastIndex. The package starts no goroutine.
//
// After a failed write or sync the log takes no more: nobody knows what is on the disk,
// and syncing again would claim what the kernel has thrown away.
package segment
