// Package history is what a run has seen: every operation of every client, with when it
// began and ended, what it asked and what came back, and every fault that was injected.
//
// Data flow: workloads hand finished operations to a Recorder, which keeps them and writes
// them to history.jsonl, a line each; the checkers get them in the order of their
// beginning. All times are nanoseconds since the run began, on the one monotonic clock of
// the harness, so they can be compared between clients.
//
// Nothing here judges: what an operation means is the checkers' matter.
package history
