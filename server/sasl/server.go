package sasl

import (
	"crypto/fips140"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
)

// What ZooKeeper's clients and servers have built in.
const (
	DefaultProtocol   = "zookeeper"
	DefaultServerName = "zk-sasl-md5"
	DefaultRealm      = "zk-sasl-md5"
)

const (
	maxTokenBytes = 4096 // RFC 2831 §2.1.2 sets this limit for a response
	nonceBytes    = 30   // random bytes, 40 characters of base64
)

var (
	// ErrRefused is returned when user name or password are wrong, or when the client
	// wants to be someone else than it has proved to be.
	ErrRefused = errors.New("sasl: not authenticated")
	// ErrMalformed is returned when a token is not what the mechanism asks for.
	ErrMalformed = errors.New("sasl: malformed token")
	// ErrOver is returned for a token that comes after the end of the exchange.
	ErrOver = errors.New("sasl: the exchange is over, a new one needs a new connection")
)

// A Lookup finds the password of a user.
type Lookup func(user string) (password string, ok bool)

// Users is the Lookup of a fixed list.
func Users(passwords map[string]string) Lookup {
	m := maps.Clone(passwords)
	return func(user string) (string, bool) {
		p, ok := m[user]
		return p, ok
	}
}

// Config says whom a Server authenticates. Empty names stand for the defaults.
type Config struct {
	Lookup     Lookup
	Nonce      io.Reader // of random bytes, such as crypto/rand.Reader
	Realm      string
	Protocol   string
	ServerName string
}

// A Server is the server's side of one exchange. It is not safe for concurrent use.
type Server struct {
	lookup Lookup
	random io.Reader
	realm  string
	uri    string // protocol/server name
	nonce  string // set with the challenge
	next   step
}

// step is what the next token has to be.
type step uint8

const (
	wantInitial step = iota
	wantResponse
	wantNothing
)

// New returns a Server for one exchange.
func New(c Config) (*Server, error) {
	if c.Lookup == nil || c.Nonce == nil {
		return nil, errors.New("sasl: a lookup of users and a source of random bytes are needed")
	}
	if fips140.Enforced() {
		return nil, errors.New("sasl: DIGEST-MD5 needs MD5, which FIPS 140 mode forbids; run without GODEBUG=fips140=only or use another scheme")
	}
	or := func(s, fallback string) string {
		if s == "" {
			return fallback
		}
		return s
	}
	return &Server{
		lookup: c.Lookup,
		random: c.Nonce,
		realm:  or(c.Realm, DefaultRealm),
		uri:    or(c.Protocol, DefaultProtocol) + "/" + or(c.ServerName, DefaultServerName),
	}, nil
}

// Step takes a token of the client and returns what to send back. When done is true the
// client is authenticated as authzID, and still has to be sent the token. An error ends the
// exchange; its text is for the server's log, not for the client.
func (s *Server) Step(token []byte) (challenge []byte, done bool, authzID string, err error) {
	switch s.next {
	case wantInitial:
		// A client that tries to go on with an earlier exchange sends something here; RFC
		// 2831 §2.2 lets a server answer as if it had not.
		s.next = wantResponse
		challenge, err = s.challenge(len(token))
	case wantResponse:
		s.next = wantNothing
		challenge, authzID, err = s.verify(token)
		done = err == nil
	default:
		err = ErrOver
	}
	if err != nil {
		s.next = wantNothing
	}
	return challenge, done, authzID, err
}

func (s *Server) challenge(tokenBytes int) ([]byte, error) {
	if tokenBytes > maxTokenBytes {
		return nil, tooLong(tokenBytes)
	}
	var b [nonceBytes]byte
	if _, err := io.ReadFull(s.random, b[:]); err != nil {
		return nil, fmt.Errorf("sasl: no random bytes for the nonce: %w", err)
	}
	s.nonce = base64.StdEncoding.EncodeToString(b[:])
	return []byte("realm=" + quote(s.realm) + ",nonce=" + quote(s.nonce) + ",charset=utf-8,algorithm=md5-sess"), nil
}

// verify judges the client's response.
func (s *Server) verify(token []byte) (final []byte, authzID string, err error) {
	if len(token) > maxTokenBytes {
		return nil, "", tooLong(len(token))
	}
	d, err := parseDirectives(token)
	if err != nil {
		return nil, "", err
	}
	r, err := s.response(d)
	if err != nil {
		return nil, "", err
	}
	// From here on a user that does not exist costs the same as one that does.
	password, known := s.lookup(r.user)
	a1 := r.sessionKey(s.realm, password, s.nonce)
	want := r.proof(a1, "AUTHENTICATE", s.nonce)
	right := subtle.ConstantTimeCompare([]byte(want), []byte(r.response)) == 1
	if !known || !right {
		return nil, "", fmt.Errorf("%w: user name or password of %q is wrong", ErrRefused, r.user)
	}
	if r.hasAuthzID && r.authzID != r.user {
		return nil, "", fmt.Errorf("%w: %q may not act as %q", ErrRefused, r.user, r.authzID)
	}
	return []byte("rspauth=" + r.proof(a1, "", s.nonce)), r.user, nil
}

// response checks everything but the proof itself.
func (s *Server) response(d directives) (*response, error) {
	r := &response{
		cnonce: d["cnonce"], uri: d["digest-uri"], response: d["response"],
	}
	text := latin1
	if charset, ok := d["charset"]; ok {
		if charset != "utf-8" {
			return nil, malformed("charset is %q, offered was utf-8", charset)
		}
		text = utf8Text
	}
	for _, name := range []string{"username", "realm", "nonce", "cnonce", "nc", "digest-uri", "response"} {
		if _, ok := d[name]; !ok {
			return nil, malformed("%s is missing", name)
		}
	}
	var realm string
	var ok [3]bool
	r.user, ok[0] = text(d["username"])
	realm, ok[1] = text(d["realm"])
	r.authzID, ok[2] = text(d["authzid"])
	_, r.hasAuthzID = d["authzid"]
	switch qop, hasQop := d["qop"]; {
	case ok != [3]bool{true, true, true}:
		return nil, malformed("username, realm or authzid is not valid UTF-8")
	case realm != s.realm:
		return nil, malformed("realm is %q, offered was %q", realm, s.realm)
	case subtle.ConstantTimeCompare([]byte(d["nonce"]), []byte(s.nonce)) != 1:
		return nil, malformed("the nonce is not the one of this exchange")
	case d["nc"] != firstUse:
		return nil, malformed("the nonce count is %q, want %s", d["nc"], firstUse)
	case hasQop && qop != "auth":
		return nil, malformed("qop is %q, offered was auth", qop)
	case !strings.EqualFold(r.uri, s.uri):
		return nil, malformed("digest-uri is %q, this server is %q", r.uri, s.uri)
	case len(r.response) != 32:
		return nil, malformed("the response has %d characters, want 32", len(r.response))
	}
	return r, nil
}

func tooLong(n int) error {
	return malformed("%d bytes, the limit is %d", n, maxTokenBytes)
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}
