// Package kazoo has workloads that drive a client which others have written: kazoo, of Python, in a
// process of its own. Its retries, its reconnects and its watches are under test together with the
// servers, by the checkers that judge the test client.
//
// Data flow: each child process runs client.py, does what it reads from its standard input, and
// answers on its standard output. What it did happened between the question and the answer on the
// clock of this process, so nothing of the child's clock is needed. Its connections lead through a
// road to the network of the run: a listener for each server, which dials that server the way all
// clients of the run do.
//
// kazoo tells no zxid of replies. What is judged is what its answers show: the order of operations
// by porcupine, the zxids in stats, sessions that end too early, and who holds a lock. A lock that
// nobody gets at the end is a watch that was lost: the recipe waits for one.
package kazoo
