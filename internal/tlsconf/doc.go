// Package tlsconf makes the crypto/tls configurations of TLS ports from the key and trust
// stores that a zoo.cfg names, in the formats that Java reads: PEM, PKCS12 and JKS.
//
// Data flow: New reads the stores once, and an error there stops the start. ServerConfig
// returns one *tls.Config for the life of the port; at each handshake it looks, at most once
// a second, whether the size or the time of a file has changed, and reads all files again
// if so. Reload does that at once. Stores that cannot be used are logged and the old ones
// stay: a certificate that is being replaced takes no port down.
//
// Peer is the same for the port between the servers of a cluster, where one *tls.Config serves
// both directions, each side shows a certificate, and a certificate names the number of its
// server (MemberName).
//
// SubjectDN is the name of a client in the scheme x509, letter by letter as Java gives it.
//
// Ownership: a Config may be used by any number of goroutines. It starts none. What it gives
// to crypto/tls is never changed, only replaced.
package tlsconf
