// Package peer is the one TCP port between the members of a cluster: messages of raft,
// snapshots, and streams for whoever has something to say to another member.
//
// Data flow: raft calls the methods of raft.Transport on a Transport, which encodes the
// message (codec.go), sends it over the link to that member (link.go) and matches the answer
// with it; at the other end the reader of the connection decodes it, hands it to raft's main
// loop through Consumer, and sends raft's answer back (serveraft.go). Snapshots (snapshot.go)
// and streams (stream.go) have connections of their own. Every connection opens with a
// handshake that names cluster, sender, whom it is meant for and which process speaks
// (handshake.go); where anything does not fit, no message passes. Members are named by their
// raft.ServerID, myid-incarnation, and found by Options.Resolve at every dial.
//
// For the leader the Transport does what raft leaves out, in messages that raft could have
// sent: it keeps the commit index within what is durable here (Options.CommitLimit), and has it
// travel at once (Advance, commit.go). For followers it notices the death of a process
// (PeerDown, Ask: look.go).
//
// Failures: a connection that breaks is dialed again when it is needed, one attempt per call;
// raft repeats what failed. Nothing here ever retries a message. What the other side sends is
// checked before memory is spent on it (frame.go, codec.go); a frame that does not decode ends
// its connection. Every limit is in limits.go.
//
// Without Options.TLS the port believes everybody who knows the cluster and the members' ids.
//
// The package decides nothing about leadership, membership or addresses, writes no file but
// through Options.Spool, and never touches the data of a log entry, which it neither copies
// after decoding nor uses again.
package peer
