// Package foreign has workloads that drive clients which others have written, each in processes of its
// own: Python's kazoo, and Java's with Curator on it. Their retries, their reconnects and their watches
// are under test together with the servers, by the checkers that judge the test client.
//
// Data flow: each child process runs a program of this folder, client.py or Client.java, does what it
// reads from its standard input, and answers on its standard output (talk.go has the lines). What it
// did happened between the question and the answer on the clock of this process, so nothing of the
// child's clock is needed. Its connections lead through a road to the network of the run: a listener
// for each server, which dials that server the way all clients of the run do.
//
// These libraries tell no zxid of replies. What is judged is what their answers show: the order of
// operations by porcupine, the zxids in stats, sessions that end too early, and who holds a lock. A lock
// that nobody gets at the end is a watch that was lost: the recipes wait for one.
package foreign
