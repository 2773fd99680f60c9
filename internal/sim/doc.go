// Package sim runs the replicated parts of zkd under a seed.
//
// Level A, here, is the state machine alone. A Generator draws a History from a seed: batches of
// commands of all kinds, right and wrong ones, with time steps, new terms and changed
// settings. Run carries it out in one goroutine: every batch goes through the real log
// encoding into three machines, which take snapshots, also slow ones while batches go on,
// restart from them, install those of others and replay what came after, each at moments
// of its own. After each batch their results, events and digests must be equal; results
// are also compared command by command with the naive model of package model, reads after
// each batch, and from time to time everything that can be read. A history that fails is
// shrunk to the few commands that matter.
//
// Everything comes from the seed: a failure names the command that replays it.
//
// Package disk below is the simulated disk, package crash has the tests of what is written
// to it, package rng is the random source.
package sim
