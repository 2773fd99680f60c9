// Package admin is ZooKeeper's AdminServer: its commands over HTTP, as JSON, and two pages for
// supervisors, /livez and /readyz.
//
// Data flow: Start opens the port (internal/httpport keeps clients in their limits). The
// gate decides whether a request may be answered; a command then writes its fields into an
// object, which goes out in chunks as it grows, so that the watches of a large server are
// never held as one text. What the commands show comes from a Source, which is that of the
// four-letter words and a little more, and from the server's stats.
//
// The answers are those of Apache ZooKeeper, field by field: testdata holds what 3.8.0 said,
// and a test asks an installed one again. Knowingly different are: monitor, which lists the
// metrics that exist here, and answers while there is no leader, too; system_properties, which
// has the settings in force in place of Java's; the times in dump, which are those of the wall
// clock; zabstate, which says more during an election; and IPv6 addresses, which are
// shortened. Of 3.10 there is shed_connections. The commands snapshot and restore
// carry files in the format of zkd, and a restore is for the whole cluster (backup.go).
//
// Beside them are commands of zkd's own (operate.go): log_level, sessions, kill_session and top.
// What changes something there is asked for by POST, and by the super user alone.
//
// Who may ask: on a loopback address anybody on the machine, but no web page of somebody
// else that a browser on it shows. Elsewhere the token of zkd.adminToken or a client
// certificate is needed for everything but /livez and /readyz. Backups are for the super user
// alone, on any address.
//
// Ownership: a Server belongs to who started it. The package holds no lock while it writes.
package admin
