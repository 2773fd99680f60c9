// Package snapshot is the container in which the state of a server is kept and sent: named,
// versioned sections in checksummed blocks. One reader serves a restart, the installation
// of a snapshot on a follower, a backup, and the tools.
//
// Data flow: the owner of the state makes a Writer over a file or a stream, opens one
// Section after the other, lets each package write its part into it, and calls Close. A
// reader takes the sections in the same order with Next and hands each to the package that
// wrote it. Both sides hold one block in memory, whatever the size of the whole.
//
// A file that was cut off, extended, or changed in any bit is refused with the offset of
// the block where it shows, and so is one whose blocks are in another order or come from
// another file. Bytes that Read has returned were verified; that the file is whole is only
// known when Next has returned io.EOF.
//
// Compression and encryption are the business of whoever stores or sends the bytes. What is
// in a section, and which versions of it can be read, is known to its owner alone.
package snapshot
