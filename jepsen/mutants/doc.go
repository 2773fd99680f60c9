// Package mutants has bugs to plant in the server, each of which a workload must catch.
//
// A mutant is a small change of the source, made in a copy and handed to the compiler with
// `go build -overlay`: neither the tree nor any shipped binary ever holds one. The text that it
// replaces must occur exactly once, so that a mutant that no longer fits the source is noticed.
package mutants
