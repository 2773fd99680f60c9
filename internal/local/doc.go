// Package local runs the servers of a cluster in this process, in memory: clients reach them
// over TCP, they reach each other over a network inside the process, on which everything can go
// wrong. It is what `zkd dev --nodes` and zkdtest.StartCluster are made of.
//
// Data flow: Start loads one configuration per server (the same settings, a number each) and
// starts them together, since empty servers form a cluster only when all are there. A server
// that was stopped or killed keeps its stores and its port, and can be started again.
package local
