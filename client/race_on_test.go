//go:build race

package client

// raceEnabled says that sync.Pool drops at random, so that allocations cannot be counted.
const raceEnabled = true
