// Package fourletter answers ZooKeeper's four-letter words: ruok, srvr, mntr and the like,
// which operators' scripts and monitoring tools send instead of a frame.
//
// Data flow: the connection layer reads the first four bytes of a connection and asks Is.
// If they are a word it calls Commands.Run, which writes the answer, and closes the
// connection. What the words show comes from a Source, which the server implements, and
// from the server's stats.
//
// The texts are those of Apache ZooKeeper 3.9 to the byte, since scripts cut them apart.
// They were compared line by line with outputs recorded from 3.8.0 (testdata). Knowingly
// different are: the version, which has a qualifier of zkd; averages below 0.001, which are
// plain decimals (stats.FormatFloat); ZooKeeper's random order, which here is the Source's;
// the java.* lines of envi; and the metrics in mntr, which are those that exist here.
//
// Memory: answers are written in chunks as the Source yields them, so the answer of a large
// server is never held as a whole. The writer sets the pace: give it a deadline, since a
// client that does not read would otherwise keep its goroutine for ever.
//
// The package starts no goroutine and holds no lock while it writes.
package fourletter
