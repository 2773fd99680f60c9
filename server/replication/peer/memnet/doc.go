// Package memnet is a network inside the process: listeners, and connections with buffers,
// deadlines and everything that goes wrong between machines.
//
// Data flow: a Host stands for one machine. What it listens to and dials is found through
// the Network that it belongs to. A connection is two halves, one per direction; Write puts
// bytes into a half and waits when it is full, Read takes them out when their delay is over.
// Faults are set between two hosts, per direction: Block holds the bytes back as a network
// does whose cable is out (nothing is lost, TCP would send it again), Delay makes them late,
// Cut resets the connections that exist, Refuse answers dials as a closed port does, and
// Crash is the end of a process: its listeners are gone and its peers read the end.
//
// Everything waits on condition variables and timers, so that it works under the virtual
// time of testing/synctest. The package starts no goroutine.
package memnet
