// Package backup looks at the machines in backups: what is in one, and in what two differ.
//
// How a backup is written and read is the business of package replication, how it is put back
// that of packages state and server. Nothing here changes a machine.
package backup
