// Package machine tells the rules of the replicated state machine as scripts: read
// testdata/*.txt to learn what each operation does, what it refuses and in which order,
// and what watchers hear of it.
//
// A script starts with an empty machine in its first term, at the time 1 s. The commands:
//
//	open NAME [timeout=MS]      a new session; it is the one that acts from then on
//	as NAME [SCHEME:ID …]       NAME acts, from a connection with these identities
//	attach NAME …               a new connection takes the session over. late: it replaces a
//	                            connection that is not the newest; wrong: password;
//	                            unnoticed: NAME goes on through the old connection
//	close, expire NAME [late]   the acting session closes; the leader gives NAME up (late: as
//	                            it was before its last attach)
//
//	create PATH …               also create2, container, ttl (with ttl=MS); data=TEXT,
//	                            flags=ephemeral|sequential|ephemeral-sequential|N, acl=ACL
//	set PATH data=TEXT          also without data: null; version=N
//	delete PATH, check PATH     version=N
//	setacl PATH acl=ACL         version=N; ACL is scheme:id:perms,…  perms of rwcda
//	multi { … }                 the operations, one per line
//	raw OPCODE HEX              a body as bytes
//	again, skip                 the last request once more; a request with one missing before
//
//	get, stat, exists, ls, count, getacl PATH; ephemerals [PREFIX]; sequence PATH
//	events                      what the last command has watchers hear
//	zxid, sessions, due         the last zxid; who is there; containers and TTL nodes to reap
//	reap PATH
//
//	time MS                     the leader's clock moves on, or back
//	term                        another leader
//	set-switch NAME=on|off …    quota, ttl, skipacl, reconfig, digest, sasl, x509; never-used=MS
//	restart                     snapshot and restore
//
// A write prints its code, or what a client gets. Every command goes through the log
// encoding as a batch of its own.
//
// There is no code here besides tests.
package machine
