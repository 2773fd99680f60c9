package client

import (
	"crypto/md5"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// DigestMD5 is the SASL mechanism DIGEST-MD5 (RFC 2831) as ZooKeeper uses it: authentication
// only. It is old, and belongs inside TLS.
func DigestMD5(user, password string) SASL { return &digestMD5{user: user, password: password} }

type digestMD5 struct{ user, password string }

// String does not show the password, for those who print a configuration.
func (m *digestMD5) String() string { return "DIGEST-MD5 as " + m.user }

func (m *digestMD5) Start(string) (SASLExchange, error) {
	return &digestExchange{m: m, cnonce: rand.Text()}, nil
}

// A digestExchange is one conversation:
//
//	client                                        server
//	(empty)                                   →
//	                                          ←   realm="…",nonce="…",charset=utf-8,algorithm=md5-sess
//	username="u",…,response=<32 hex>,qop=auth →
//	                                          ←   rspauth=<32 hex>
type digestExchange struct {
	m      *digestMD5
	cnonce string
	steps  int
	expect string // the server's proof that it knows the password too
}

// digestURI names what we authenticate to. ZooKeeper's is the same on every server.
const digestURI = "zookeeper/zk-sasl-md5"

func (x *digestExchange) Step(token []byte) ([]byte, bool, error) {
	x.steps++
	switch x.steps {
	case 1:
		return []byte{}, false, nil
	case 2:
		response, err := x.respond(token)
		return response, false, err
	}
	d, err := parseDirectives(string(token))
	if err != nil {
		return nil, false, err
	}
	if subtle.ConstantTimeCompare([]byte(d["rspauth"]), []byte(x.expect)) != 1 {
		return nil, false, errors.New("the server did not prove that it knows the password")
	}
	return nil, true, nil
}

// respond answers the challenge.
func (x *digestExchange) respond(challenge []byte) ([]byte, error) {
	d, err := parseDirectives(string(challenge))
	if err != nil {
		return nil, err
	}
	nonce, realm := d["nonce"], d["realm"]
	switch {
	case nonce == "":
		return nil, errors.New("the challenge has no nonce")
	case d["algorithm"] != "md5-sess":
		return nil, fmt.Errorf("the challenge wants the algorithm %q, not md5-sess", d["algorithm"])
	case d["qop"] != "" && !hasWord(d["qop"], "auth"):
		return nil, fmt.Errorf("the server wants protection %q, and only plain authentication is known here", d["qop"])
	}
	key := x.sessionKey(realm, nonce)
	x.expect = x.proof(key, "", nonce)
	var b strings.Builder
	b.WriteString(`charset=utf-8,username=` + quote(x.m.user))
	if realm != "" {
		b.WriteString(",realm=" + quote(realm))
	}
	fmt.Fprintf(&b, `,nonce=%s,nc=%s,cnonce=%s,digest-uri=%s,maxbuf=65536,response=%s,qop=auth`,
		quote(nonce), nonceCount, quote(x.cnonce), quote(digestURI), x.proof(key, "AUTHENTICATE", nonce))
	return []byte(b.String()), nil
}

// nonceCount says that the nonce is used for the first time.
const nonceCount = "00000001"

// sessionKey is hex(MD5(A1)), for md5-sess (RFC 2831 §2.1.2.1):
//
//	A1 = MD5(user ":" realm ":" password) ":" nonce ":" cnonce
func (x *digestExchange) sessionKey(realm, nonce string) string {
	secret := md5.New()
	secret.Write(hashText(x.m.user))
	secret.Write([]byte(":"))
	secret.Write(hashText(realm))
	secret.Write([]byte(":"))
	secret.Write(hashText(x.m.password))
	return hexMD5(string(secret.Sum(nil)) + ":" + nonce + ":" + x.cnonce)
}

// proof is what the client sends (method AUTHENTICATE) and the server answers (no method):
//
//	hex(MD5(sessionKey ":" nonce ":" nc ":" cnonce ":auth:" hex(MD5(method ":" uri))))
func (x *digestExchange) proof(key, method, nonce string) string {
	return hexMD5(key + ":" + nonce + ":" + nonceCount + ":" + x.cnonce + ":auth:" + hexMD5(method+":"+digestURI))
}

func hexMD5(s string) string {
	sum := md5.Sum([]byte(s))
	return hex.EncodeToString(sum[:])
}

// hashText is how text enters the hash: in ISO 8859-1 where it can be written so, else in UTF-8
// (RFC 2831 §2.1.2.1), so that it does not matter which of both a peer speaks.
func hashText(s string) []byte {
	out := make([]byte, 0, len(s))
	for _, r := range s {
		if r > 0xff {
			return []byte(s)
		}
		out = append(out, byte(r))
	}
	return out
}

func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

func hasWord(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(w) == word {
			return true
		}
	}
	return false
}

// parseDirectives reads name=value pairs, separated by commas; a value may be quoted. Of a name
// that comes twice the first counts, as RFC 2831 leaves to the client for realm.
func parseDirectives(s string) (map[string]string, error) {
	d := map[string]string{}
	for {
		s = strings.TrimLeft(s, ", \t")
		if s == "" {
			return d, nil
		}
		name, rest, ok := strings.Cut(s, "=")
		if !ok {
			return nil, fmt.Errorf("the server's token has the directive %q without a value", s)
		}
		value, rest, err := directiveValue(strings.TrimLeft(rest, " \t"))
		if err != nil {
			return nil, err
		}
		name = strings.ToLower(strings.TrimSpace(name))
		if _, twice := d[name]; !twice {
			d[name] = value
		}
		s = rest
	}
}

func directiveValue(s string) (value, rest string, err error) {
	if !strings.HasPrefix(s, `"`) {
		value, rest, _ = strings.Cut(s, ",")
		return strings.TrimSpace(value), rest, nil
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return b.String(), s[i+1:], nil
		case s[i] == '\\' && i+1 < len(s):
			i++
		}
		b.WriteByte(s[i])
	}
	return "", "", errors.New("the server's token has no closing quote")
}
