// Package sasl is the server's side of SASL DIGEST-MD5 (RFC 2831), as ZooKeeper uses it:
// authentication only, no protection of what follows.
//
// Data flow: a connection that receives a sasl request (opcode 102) makes a Server and hands
// it every token. The first, empty token gives the challenge, the second is the client's
// response; if it is right Step returns the final token and the id under which the
// connection is known from then on (scheme "sasl"). After any error the connection answers
// AuthFailed and is closed.
//
//	client                    server
//	(empty)               →
//	                      ←   realm="zk-sasl-md5",nonce="…",charset=utf-8,algorithm=md5-sess
//	username="u",…,response=<32 hex>   →
//	                      ←   rspauth=<32 hex>
//
// The mechanism is old: MD5, and passwords that the server must know in clear text. It is
// here since deployed clients use it; TLS belongs around it.
//
// What comes from the client is limited and parsed strictly; a wrong user name and a wrong
// password take the same path to the same error. The package starts no goroutine, reads no
// clock, and takes its random numbers from a reader.
package sasl
