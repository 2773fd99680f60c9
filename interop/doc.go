// Package interop holds tests that start the server binary and drive it with the real
// ZooKeeper clients: zkCli, the Java API, Curator, kazoo, the C client, go-zookeeper, and
// with frames made by hand.
//
// The same tests run against Apache ZooKeeper as Debian packages it, started by the tests
// themselves: a check that fails on zkd alone is ours, and one that fails on both is a
// wrong test. Every test has a subtest per server, so -run 'Kazoo/zkd$' does what it says.
//
// They run a third time against three processes of zkd that form a cluster: the clients talk
// to one member, and beside them disturb_test.go kills the leader (SIGKILL) every few seconds
// and starts it again. No client may notice. What has no meaning there says so and is skipped.
// several_test.go gives clients the addresses of all members, and ensemble_test.go compares
// what leader and follower say with an Apache ZooKeeper of three servers.
//
// Data flow: server_test.go starts a server on a free loopback port with a data directory
// of its own, and writes one zoo.cfg that both servers read. A client program (java/,
// python/, c/) gets the address, prints one line per check ("ok NAME" or "FAIL NAME why")
// and ends with "done N"; program_test.go turns the lines into subtests. proxy_test.go
// stands between client and server where a connection must be cut; the program orders the
// cut over a control connection. Conversations of raw frames and of zkCli become texts
// with what varies masked; testdata/ holds those of ZooKeeper, and zkd's must be equal but
// for the entries of bydesign_test.go, each with its reason.
//
// Settings, all from the environment:
//
//	ZKD_INTEROP=require              a missing client fails the test instead of skipping it
//	ZKD_INTEROP_SERVERS=zookeeper    run against these servers only: zookeeper, zkd, zkd-cluster,
//	                                 with commas. Without it all of them, but only some of
//	                                 the tests on zkd-cluster, to save time
//	ZKD_BIN=/path/to/zkd             use this binary instead of building ./cmd/zkd
//
// go test -short leaves the package out, and -update writes testdata/ anew from Apache
// ZooKeeper. Nothing here is imported by anything else.
package interop
