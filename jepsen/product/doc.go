// Package product has the workloads that drive the product's own client and recipes: a lock and
// an election, by contenders that stall, die and are cut off.
//
// Data flow: a contender has a client of its own, whose connections lead through a gate. Closing
// the gate is what a cable that was pulled is to a client: it may think and ask its clocks, and
// hears nothing. What it believes meanwhile is recorded as intervals on the clock of the run, and
// what it does with its belief as writes with the fencing token of its lease.
//
// It is the only package of these tests that imports the product's client, for that is what it
// tests; what its checkers believe comes from the intervals and from versions alone.
package product
