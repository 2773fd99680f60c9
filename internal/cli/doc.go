// Package cli is `zkd cli`: the commands of ZooKeeper's zkCli, word for word, and those that
// an operator misses there.
//
//	arguments ─► settings ─┬─ a command: run it, end with its exit code
//	                       ├─ a terminal: liner reads lines, with history and completion
//	                       └─ otherwise: lines from standard input, as a script
//	line ─► splitLine ─► command table ─► parseOptions ─► run ─► reply (table, raw or json)
//
// What zkCli prints to standard output is printed there, byte for byte, and what it prints to
// standard error, there; a test runs both against one server. The greeting, which scripts have
// to cut off, is left out. Exit codes are in exit.go.
//
// A shell is one goroutine that runs one command at a time. Beside it there are goroutines
// that print: one per connection for the changes of its state, one per watch. All output goes
// through a printer, whose mutex keeps lines whole. A command's context ends with Ctrl-C, or
// when there has been no connection for the session timeout.
//
// Secrets: a line with addauth is neither written to the history file nor listed by history,
// and nothing here prints credentials.
package cli
