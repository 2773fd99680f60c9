// Package wire is ZooKeeper's client protocol: every record, opcode and error code, with
// an explicit encoder and decoder, and the framing around them. Server and client share it.
//
// Data flow on the server: a frame body goes into a Decoder, RequestHeader.Decode reads
// what is asked, the record of that opcode decodes the rest, and the reply is built with
// the Append functions in one buffer: AppendFrame reserves the length, FinishFrame fills
// it in. There is no reflection and no hidden copy: decoded byte slices alias the frame,
// decoded strings are copies.
//
// All integers are big-endian two's complement. A length of -1 is null: a null buffer is
// nil and an empty buffer is not, because clients see the difference; a null string is "",
// except that requests which ZooKeeper cannot serve with a null path are malformed with one.
//
// Layouts come from zookeeper.jute of Apache ZooKeeper. The package checks lengths against
// what is left of the frame before it allocates; it does not judge paths, flags or ACLs.
package wire
