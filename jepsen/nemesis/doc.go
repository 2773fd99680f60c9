// Package nemesis does to a cluster what the world does to it.
//
// A nemesis draws faults from its seed: which, on whom, for how long and how long the pause
// before the next one is. Targets are drawn by role (the leader, a majority, …) and looked up
// when the fault begins, so the same seed gives the same plan though not the same leader. Each
// fault is recorded with its beginning, its end and whom it hit.
//
// Nemeses of one group (network, process, disk, resources, clients and strangers, …) take turns;
// groups run beside each other. One that is Alone is the only one of its run.
package nemesis
