// Package clientprom counts what a client does, for Prometheus.
//
//	m := clientprom.New()
//	prometheus.MustRegister(m)
//	c, err := client.Dial(ctx, "a:2181,b:2181,c:2181", client.WithTracer(m))
//	m.Attach(c)
//
// Without Attach there is everything but the gauges that ask the client, and the states of its
// session. client.JoinTracers has other tracers told beside it.
//
// # Metrics
//
//	zkd_client_operation_duration_seconds{op}     histogram; from the call to its outcome, waiting and repetitions included
//	zkd_client_operations_total{op,result}        what was done, by outcome: ok, NONODE, uncertain, ...
//	zkd_client_operation_retries_total{op}        how often something was sent again
//	zkd_client_request_bytes_total{op}            frames of requests, each counted once
//	zkd_client_response_bytes_total{op}           bodies of replies
//	zkd_client_operations_in_flight               calls that have begun and not ended
//	zkd_client_connection_events_total{event}     attempt, failed, established, lost, rewatched, stood_still
//	zkd_client_rewatched_paths_total              paths whose watches were set again after a reconnect
//	zkd_client_stood_still_seconds_total          for how long the process, or its machine, did not run
//
// and for attached clients, each the sum over all of them:
//
//	zkd_client_session_events_total{state}        changes of state; rate of "lapsed" or "expired" is what to alert on
//	zkd_client_sessions{state}                    how many clients are in that state now: 1 for the state of a lone client
//	zkd_client_in_flight_bytes                    frames that wait for their reply
//	zkd_client_in_flight_requests                 their number
//	zkd_client_waiting_calls                      calls that wait for room in flight
//	zkd_client_watches                            watches that have not fired
//	zkd_client_subscriptions                      persistent watches
//	zkd_client_background_deletions               deletions that are not known to be done
//
// The values of all labels come from small fixed sets: neither paths nor addresses are among them. An
// exists of a node that is not there has the result NONODE, though the caller gets no error. To tell
// several clients apart, give each its own Metrics and register it with
// prometheus.WrapRegistererWith(prometheus.Labels{"client": "orders"}, registerer).
//
// It is a module of its own, so that nobody who uses the client gets Prometheus with it.
package clientprom
