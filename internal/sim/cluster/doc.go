// Package cluster runs whole clusters of the real server packages in one process, under faults
// that a seed decides, and checks what their clients have seen. It is level B of the simulations.
//
// Data flow: Run builds a World: servers in memory and clients of its own (link.go, client.go,
// which speak raw frames), all on one network inside the process. Each workload (register, order,
// ephemeral, watch, stream) gives some clients a script; a nemesis breaks and heals the network,
// crashes servers, also while they form the cluster, and starts them again. Everything that a
// client sends, hears or is told goes into one History, in the order in which it happened. When the
// time is over all faults are healed, every client has to come back and look once more, and the
// servers are compared. Then Check looks for broken promises, in the history alone.
//
// Run has to be called inside a bubble of testing/synctest. Time is virtual there, so that minutes
// take a second or two. A seed decides what clients and nemesis do and when, but not how
// goroutines take turns: a failure that a seed has shown once may take several runs to show
// again.
//
// That the checkers can fail is tested twice: with histories that were tampered with
// (check_test.go), and with bugs that are planted in the servers (mutants_test.go).
//
// Servers keep their stores over a crash, but in memory: what a disk loses is tested in package
// crash, not here. A server that is paused is silent to everybody, while its own clock goes on.
package cluster
