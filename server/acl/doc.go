// Package acl decides who may do what to a node.
//
// Data flow: a connection collects identities (its address, digests, certificates, SASL
// names), each a scheme and a name; the server sends them along with every request. Expand
// turns the list that a client asks for into the one that is stored, Table stores equal
// lists once and gives out a Ref per node, and Allowed compares a stored list with the
// identities of a request. How an identity is proved is not decided here.
//
// Schemes: world, auth (only in requests, Expand replaces it), digest, ip, sasl, x509, and
// super, which is never stored and passes every check. Behaviour is that of the providers
// of Apache ZooKeeper (server/auth), because stored lists outlive a migration.
//
// The package is pure: no lock, no goroutine, no clock. A Table belongs to the apply loop;
// readers may look between two of its changes. Lists are immutable once they are handed in
// or out: they are shared by nodes, events and replies.
package acl
