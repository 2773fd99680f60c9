// Package watch knows which connections wait for which changes, and who must be told when
// a change happens.
//
// Data flow: a read or an addWatch of a connection calls Table.Add; the apply loop calls
// Table.Fire for each event of a command, in order, and hands the Deliveries to the queues
// of the connections; a connection that ends calls Table.RemoveAll. Watches belong to a
// connection and to this server: nothing here is replicated or written to disk.
//
// The semantics are those of Apache ZooKeeper 3.9: two tables, data and child, and in them
// per path and connection a set of modes. Here both tables are one, and a watch is a set
// of four Kinds:
//
//	kind        data table  child table  fires on                             one-shot
//	Data        x                        created, changed, deleted            yes
//	Child                   x            child created or deleted, deleted    yes
//	Persistent  x           x            all of these                         no
//	Recursive   x                        created, changed, deleted, also of   no
//	                                     every descendant
//
// A Table has a mutex, because readers register in parallel. Atomicity of "read and watch"
// is not its business: the server holds the read lock of the state around both. Nor are
// permissions: Fire reports every watcher, and consumes the one-shot watches also of those
// who may not read the node and will not be told.
package watch
