// Package segment keeps the raft log in append-only files.
//
// Data flow: Append encodes a batch, writes it behind the last one with one write and lets
// readers see it; Sync makes durable what has been written, while further batches are; and
// Durable says how far that is. StoreLogs is both, one after the other. GetLog serves the
// newest entries from memory and the others from the disk, where every read checks the
// checksum. DeleteRange drops whole files in front, or cuts the tail by writing the last
// file anew. Open reads all files and tells a torn tail, which a crash leaves and which is
// cut, from damage, which stops it.
//
// Ownership: one writer at a time (raft's main loop) calls Append, StoreLogs and DeleteRange;
// any goroutine may call Sync, Durable, GetLog, FirstIndex and LastIndex. The package starts
// no goroutine: who appends without syncing sees to it that somebody syncs.
//
// After a failed write or sync the log takes no more: nobody knows what is on the disk,
// and syncing again would claim what the kernel has thrown away. Durable stays where it was.
// Readers still see what was appended, durable or not.
package segment
