// Package wire is a client for the tests: it shows every frame, in the order of arrival and
// with its time, and hides nothing that the protocol says.
//
// Data flow: Conn.Send hands a request to the socket and returns a Call; one goroutine reads
// frames, numbers them, finishes the Call that is due and passes events on. Client keeps a
// session over connections: it pings, reconnects where it is told to, and says which requests
// were certainly not done and which may have been.
//
// It is not the client of the product, which is tested by being used beside it: what this one
// believes must not depend on the code under test. Only the encoding is shared.
package wire
