// Package ensemble says who the servers of a cluster are: the text of a server line, the text
// of a whole configuration as /zookeeper/config shows it, and what a reconfig request makes
// of one configuration.
//
// Data flow: the configuration file's server.N lines become Members (ParseMember); the leader
// of a fresh cluster puts them into the log as a Config; a client's reconfig is judged by
// Config.Change or Config.Replace when it is applied, and becomes the Config that the leader
// walks towards. Config.String is what clients read, Parse what reads it back.
//
// All values are immutable by convention: a method that changes something returns another
// Config, and those that share Members must not write to them.
//
// The package is part of the pure core: it resolves no name and opens no socket. So an address
// is the text that was written, an IP address in its canonical form, and two addresses are the
// same if they are written the same.
package ensemble
