// Package check judges histories: each checker takes what the clients of a run have seen and
// names every observation that the promises of the server do not allow.
//
// A checker is a function of the history alone: no clock, no cluster, so that it can be run
// again over a recorded history, and be shown to fail on one that was changed. Every checker
// says how many operations it has judged: a run in which that is 0 has shown nothing.
package check
