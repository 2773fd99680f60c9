// Package audit writes the audit log: who changed what, in the form in which Apache ZooKeeper
// (3.6 and later, audit.enable) writes it, so that what reads ZooKeeper's reads this one.
//
//	2026-11-22 00:52:38,472 INFO audit.Log: session=0x10… user=bob,127.0.0.1 ip=127.0.0.1 operation=create znode=/a znode_type=persistent result=success
//
// Between the fields stand tabs. A field that has no value is left out, what failed has ERROR
// in place of INFO, and the time never goes back from one line to the next.
//
// Data flow: the server calls Log.Write for each change that a client of this server has made,
// from its apply loop, when the outcome is known. Write puts the line behind those that wait and
// returns; one goroutine writes them out. It never waits for the disk. The lines that wait are
// bounded (maxWaiting): beyond it they are dropped, counted, and the log itself says how many
// are missing there (operation=auditGap), as soon as it can be written again. Whoever rather
// stops than loses a line watches the counter; a server that stood still because the disk of
// its audit log does would stop every client for a line of text.
//
// Secrets: no data, no passwords, and of a digest only the user in front of its hash. What a
// client chose is escaped, so that a name cannot pretend to be a second line or another field.
package audit
