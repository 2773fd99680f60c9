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
package zkdtest
