// Package httpport serves HTTP to operators and their tools on a port of its own, so that a
// client which is slow, hostile or many costs the server next to nothing.
//
// Data flow: Listen opens the port; from Serve on its acceptor admits connections up to a limit
// and hands them to net/http. The first byte of a connection tells TLS from plain where the port takes
// both. Each request then runs the handler under limits: of the header, of the time without
// progress while the answer is written, and of the answer's time altogether.
//
// Who may ask what is not decided here: the handler finds the client's certificate with
// State and the rest in the request.
//
// Ownership: a Port belongs to who opened it; Close returns when its acceptor and every
// handler have ended.
package httpport
