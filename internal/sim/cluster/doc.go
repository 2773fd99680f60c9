// Package cluster runs whole clusters of the real server packages in one process, under faults
// that a seed decides, and checks what their clients have seen. It is level B of the simulations.
//
// Data flow: Run builds a World: servers (node.go), each on a simulated disk of its own (package
// disk), and clients (link.go, client.go, which speak raw frames), all on one network inside the
// process. Each part of the work (register, order, ephemeral, watch, stream, append, members) gives
// some clients a script; a nemesis breaks and heals the network (nemesis.go), ends processes, cuts
// their power, makes disks slow, full, broken or rotten (faults.go), also while the servers form
// the cluster, and starts them again. Everything that a client sends, hears or is told goes into
// one History, in the order in which it happened. When the time is over all faults are healed, every
// client has to come back and look once more, and the servers are compared: that is the phase in
// which progress is demanded. Then Check looks for broken promises, in the history alone, also with
// checkers of jepsen/check, which judge clusters of real processes, too.
//
// Run has to be called inside a bubble of testing/synctest. Time is virtual there, so that minutes
// take a second or two. A seed decides what clients and nemesis do and when, but not how
// goroutines take turns: a failure that a seed has shown once may take several runs to show
// again. Rounds of faults draw from sources of their own, so that Shrink can leave out what a
// failure does not need.
//
// That the checkers can fail is tested twice: with histories that were tampered with
// (check_test.go), and with bugs that are planted in the servers (mutants_test.go).
//
// What ends a process is the moment of its disk: nothing that it does afterwards counts, and the
// next one finds what a kill or a power cut has left then. A server that is paused is silent to
// everybody, while its own clock goes on. At most one voter at a time has lost its disk, or is taken
// out of the cluster, for more than that nobody promises to bear.
package cluster
