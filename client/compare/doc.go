// Package compare measures package client beside github.com/go-zookeeper/zk: one connection each,
// the same calls, the same servers, in one run.
//
//	make compare
//
// It is a module of its own, so that nobody who uses zkd gets the other client with it.
package compare
