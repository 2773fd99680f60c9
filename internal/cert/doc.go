// Package cert makes the certificates by which the members of a cluster know each other: one
// authority per cluster, and one certificate per member that it has signed. Its user is
// `zkd cert`.
//
// Data flow: NewAuthority draws a key and signs itself; Save writes it into a folder, Load
// reads it back, Issue signs the certificate of a Member, and Write puts that into a file as
// the server reads it (package config has the names, internal/tlsconf the reader). Describe
// says what is in such a file.
//
// A certificate names its member as zkd-member-N among its DNS names, and is good for both
// sides of a connection: each member dials the others and is dialed by them. Host names may be
// added, for tools that ask for them; between members they count for nothing.
//
// Files appear whole or not at all, and what exists is replaced only where the caller says so.
// The package prints nothing, and takes the time as an argument. All keys are ECDSA over P-256.
package cert
