// Package cluster runs servers as processes of their own, and does to them what can happen
// to processes: kill -9, stop and continue, an orderly end, and a start on the same data.
//
// A Cluster does not know what is between the servers: a Driver gives every server its
// addresses and says how a process is started and a client connects. Loopback runs
// everywhere; netns needs root on Linux and has a real network for every server.
package cluster
