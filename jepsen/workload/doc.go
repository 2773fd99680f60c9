// Package workload has what the clients of a run do, each with the checkers that judge it.
//
// A workload draws everything from the seed of the run: how many clients, which keys, when
// they move. Its Run returns when the context ends; Final is called when all faults are over
// and all servers serve again, for the reads that settle what became of writes without an
// answer.
package workload
