// Package zkdtest runs a zkd node inside a test, as httptest runs a web server:
//
//	srv := zkdtest.Start(t)
//	conn, _, err := zk.Connect([]string{srv.Addr()}, 10*time.Second)
//
// The node keeps everything in memory, listens on a free port of 127.0.0.1, serves when
// Start returns, and is gone, with all its goroutines, when the test ends. Sessions can be
// expired at will, and a stopped node restarts with its data and on its port, so a test can
// show what its program does on the worst day.
//
// StartCluster runs several nodes, which can be killed, paused and cut off from each other:
//
//	c := zkdtest.StartCluster(t, 3)
//	c.Kill(c.Leader())
//
// A Proxy in front of a node cuts a connection at the n-th frame, in either direction, loses or
// delays single frames, answers garbage, or nothing at all:
//
//	p := srv.Proxy()
//	p.At(zkdtest.ToClient, 3, zkdtest.Cut()) // the third reply from now on never arrives
//
// With InMemory a node or a cluster runs in a bubble of testing/synctest, where time is virtual.
//
// # Inside
//
//	client ── near ─┬─ pump, one per direction ─┬─ far ── node
//	                └── judge: At, Silence, On ─┘
//
// A Proxy accepts in one goroutine and carries each connection in two, which end with it; Proxy.mu
// guards what they are told to do and is not held while anything is read or written. InMemory
// replaces TCP by connections in memory, since a goroutine that waits in the kernel keeps virtual
// time from passing. For the same reason nothing in a bubble may wait for something outside.
package zkdtest
