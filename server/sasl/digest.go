package sasl

import (
	"crypto/md5"
	"encoding/hex"
	"unicode/utf8"
)

// firstUse is the nonce count of the first, and here only, use of a nonce.
const firstUse = "00000001"

// A response is what a client claims and by what it proves it.
type response struct {
	user       string
	authzID    string // whom it wants to be, if hasAuthzID
	hasAuthzID bool
	cnonce     string
	uri        string // as the client wrote it, since it is part of the proof
	response   string
}

// sessionKey is hex(MD5(A1)), where for the algorithm md5-sess (RFC 2831 §2.1.2.1)
//
//	A1 = MD5(user ":" realm ":" password) ":" nonce ":" cnonce [":" authzid]
func (r *response) sessionKey(realm, password, nonce string) string {
	secret := md5.New()
	for i, s := range []string{r.user, realm, password} {
		if i > 0 {
			secret.Write([]byte{':'})
		}
		secret.Write(hashedText(s))
	}
	a1 := append(secret.Sum(nil), ":"+nonce+":"+r.cnonce...)
	if r.hasAuthzID {
		a1 = append(a1, ":"+r.authzID...)
	}
	return hexMD5(a1)
}

// proof is what the client has to send (method AUTHENTICATE) or the server answers (no
// method):
//
//	hex(MD5(sessionKey ":" nonce ":" nc ":" cnonce ":auth:" hex(MD5(method ":" uri))))
func (r *response) proof(sessionKey, method, nonce string) string {
	a2 := hexMD5([]byte(method + ":" + r.uri))
	return hexMD5([]byte(sessionKey + ":" + nonce + ":" + firstUse + ":" + r.cnonce + ":auth:" + a2))
}

func hexMD5(b []byte) string {
	sum := md5.Sum(b)
	return hex.EncodeToString(sum[:])
}

// hashedText is how a user name, realm or password enters the hash: in ISO 8859-1 if it can
// be written so, else in UTF-8. This keeps the hash the same whether or not the client
// knows UTF-8 (RFC 2831 §2.1.2.1); Java does the same.
func hashedText(s string) []byte {
	out := make([]byte, 0, len(s))
	for _, c := range s {
		if c > 0xff {
			return []byte(s)
		}
		out = append(out, byte(c))
	}
	return out
}

// latin1 decodes what a client has sent without charset=utf-8.
func latin1(s string) (string, bool) {
	out := make([]rune, len(s))
	for i := range len(s) {
		out[i] = rune(s[i])
	}
	return string(out), true
}

// utf8Text takes what a client has sent with charset=utf-8.
func utf8Text(s string) (string, bool) {
	return s, utf8.ValidString(s)
}
