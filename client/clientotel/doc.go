// Package clientotel tells OpenTelemetry what a client does: a span for each operation, and metrics.
//
//	tel, err := clientotel.New()
//	c, err := client.Dial(ctx, "a:2181,b:2181,c:2181", client.WithTracer(tel))
//	err = tel.Attach(c)
//
// Without Attach there is everything but the numbers that have to be asked of the client, and the
// states of its session. Give each client a Telemetry of its own: the address of its server is in it.
// client.JoinTracers has other tracers told beside it.
//
// # Spans
//
// A span is of kind client and named like the operation ("getData"), below the span of the context
// that the call was given. Its attributes are those of the semantic conventions for database clients:
// db.system.name ("zookeeper"), db.operation.name, server.address, server.port, and where it failed
// error.type and, if a server answered, db.response.status_code ("NONODE"). Beside them there are
// zkd.path (see WithoutPaths), zkd.request.size, zkd.response.size, zkd.zxid, and zkd.attempts where
// something was sent again. An exists of a node that is not there is not a failure.
//
// What an application waits for a watch or a lock is not one operation, and has no span here.
//
// # Metrics
//
//	db.client.operation.duration   s            histogram, as the conventions have it: by operation, error, server
//	zkd.client.io                  By           frames of requests and bodies of replies, by operation and network.io.direction
//	zkd.client.retries             {request}    what was sent again, by operation
//	zkd.client.operations.active   {operation}  calls that have begun and not ended
//	zkd.client.connection.events   {event}      by zkd.connection.event: attempt, failed, established, lost, rewatched, stood still
//	zkd.client.rewatched           {path}       paths whose watches were set again after a reconnect
//	zkd.client.stood_still         s            for how long the process, or its machine, did not run
//
// and of an attached client:
//
//	zkd.client.session.events      {event}      by zkd.session.state, the state that was entered
//	zkd.client.session.state       {session}    by zkd.session.state: 1 for the present one
//	zkd.client.in_flight.size      By           frames that wait for their reply
//	zkd.client.in_flight.requests  {request}    their number
//	zkd.client.calls.waiting       {call}       calls that wait for room in flight
//	zkd.client.watches             {watch}      by zkd.watch.kind: one-shot, persistent
//	zkd.client.deletions.pending   {deletion}   deletions of the background that are not known to be done
//
// Paths are in spans alone; attributes of metrics come from small sets and the list of servers.
//
// It is a module of its own, so that nobody who uses the client gets OpenTelemetry with it.
package clientotel
