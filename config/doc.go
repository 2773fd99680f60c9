// Package config turns a ZooKeeper configuration file, the environment and flags into one
// validated Config, or into a list of everything that is wrong with them.
//
// Data flow: every source becomes a list of key, value and Origin (properties.go reads the
// file, environment.go the variables); the table of keys (Keys) says which names are known,
// what each may hold and what it is good for; Load lays the sources over each other
// (defaults < file < environment < flags), applies each surviving value through the
// table, and then settles what depends on several keys at once: session timeouts, who the
// members are, which of them this server is, TLS, authentication.
//
// Rules for what is found in a zoo.cfg:
//
//   - a known key is honoured, or it is named in one warning as having no meaning here;
//   - an unknown key is a warning with the nearest known one, because ZooKeeper takes every
//     unknown key for a Java system property; "zookeeper." before any name is accepted;
//   - an unknown key that starts with "zkd.", and every bad value, is a Problem: the server
//     does not start. All problems are reported together, each with file, line and key.
//
// Environment variables are named ZKD_ and the key in upper case, dots as underscores and
// without a leading "zkd."; further underscores may be put anywhere. So tickTime is
// ZKD_TICK_TIME or ZKD_TICKTIME, zkd.logLevel is ZKD_LOG_LEVEL, server.1 is ZKD_SERVER_1.
//
// Secrets are of type Secret, which never prints what it holds. Load reads files (the
// configuration, the dynamic configuration, myid, the JAAS file) through Sources.ReadFile;
// it opens no store and no socket and resolves no name. A Config does not change after Load.
package config
