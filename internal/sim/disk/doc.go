// Package disk is a disk in memory that behaves as badly as vfs allows: what was not
// synced is lost, kept or torn at a crash, operations fail when told to, and everything it
// chooses comes from a seed.
//
// Data flow: a Disk is a vfs.FS. Each write to a file remembers, sector by sector, what
// the medium may hold until the next Sync of that file; each create, rename and remove is
// remembered by its directory until the next SyncDir. AfterCrash makes of all that a new
// Disk, as a machine would find it after a power cut, and leaves the old one as it is, so
// a test can look at one moment with many seeds. PowerCut makes every later operation
// fail, as it is for a process that is about to die.
//
// What a crash does with what was not synced:
//
//   - each sector of 512 bytes holds what was last synced or any version written since,
//     independently of the other sectors;
//   - the length is the synced one or any it has had since; what was never written inside
//     it reads as zeros;
//   - each name that was created, renamed or removed has its old or its new meaning; a
//     rename is one step;
//   - after a failed Sync all this holds for what had been written until then for ever,
//     unless it is written again: a later Sync that succeeds does not help.
//
// Faults (Inject) let the N-th operation of a kind fail, write less than it was given, or
// take long.
//
// A Disk may be used by several goroutines; only a single one makes it deterministic.
package disk
