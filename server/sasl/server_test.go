package sasl

import (
	"bytes"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// The example of RFC 2831 §4.
func TestProofsOfTheRFC(t *testing.T) {
	const nonce, realm = "OA6MG9tEQGm2hh", "elwood.innosoft.com"
	r := &response{user: "chris", cnonce: "OA6MHXh6VqTrRk", uri: "imap/elwood.innosoft.com"}
	key := r.sessionKey(realm, "secret", nonce)
	if got := r.proof(key, "AUTHENTICATE", nonce); got != "d388dad90d4bbd760a152321f2143af7" {
		t.Errorf("response %s", got)
	}
	if got := r.proof(key, "", nonce); got != "ea40f60335c427b5527b84dbabcdfffd" {
		t.Errorf("rspauth %s", got)
	}
}

// A client is a second implementation of the mechanism, straight from the formulas, that can
// be told to do things wrong.
type client struct {
	user, password, realm, cnonce, nc, qop, uri, charset, authzID string

	nonce string // "" for the one of the challenge
	extra string // appended to the response
	cut   string // directive left out
}

func goodClient() client {
	return client{
		user: "bob", password: "bobsecret", realm: "zk-sasl-md5", cnonce: "abc", nc: "00000001", qop: "auth",
		uri: "zookeeper/zk-sasl-md5", charset: "utf-8",
	}
}

func h(format string, args ...any) string {
	return fmt.Sprintf("%x", md5.Sum(fmt.Appendf(nil, format, args...)))
}

func (c *client) proof(nonce, a2 string) string {
	first := md5.Sum(fmt.Appendf(nil, "%s:%s:%s", c.user, c.realm, c.password))
	a1 := fmt.Sprintf("%s:%s:%s", first[:], nonce, c.cnonce)
	if c.authzID != "" {
		a1 += ":" + c.authzID
	}
	return h("%s:%s:%s:%s:%s:%s", h("%s", a1), nonce, c.nc, c.cnonce, "auth", h("%s", a2))
}

func (c *client) respond(challenge string) string {
	if c.nonce == "" {
		c.nonce = strings.Split(strings.Split(challenge, `nonce="`)[1], `"`)[0]
	}
	parts := []string{
		"charset=" + c.charset, `username="` + c.user + `"`, `realm="` + c.realm + `"`, `nonce="` + c.nonce + `"`,
		"nc=" + c.nc, `cnonce="` + c.cnonce + `"`, `digest-uri="` + c.uri + `"`, "maxbuf=65536",
		"response=" + c.proof(c.nonce, "AUTHENTICATE:"+c.uri), "qop=" + c.qop,
	}
	if c.authzID != "" {
		parts = append(parts, `authzid="`+c.authzID+`"`)
	}
	kept := parts[:0]
	for _, p := range parts {
		if c.cut == "" || !strings.HasPrefix(p, c.cut+"=") {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, ",") + c.extra
}

func newServer(t testing.TB) *Server {
	t.Helper()
	s, err := New(Config{
		Lookup: Users(map[string]string{"bob": "bobsecret", "alice": "", "j\u00fcrgen": "p\u00e4ss"}),
		Nonce:  strings.NewReader(strings.Repeat("random", 20)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWhoIsLetIn(t *testing.T) {
	tests := []struct {
		name   string
		change func(c *client)
		want   error
	}{
		{"right password", func(*client) {}, nil},
		{"empty password", func(c *client) { c.user, c.password = "alice", "" }, nil},
		{"qop left to its default", func(c *client) { c.cut = "qop" }, nil},
		{"unknown directives", func(c *client) { c.extra = `, new-thing="x" ,,other=y ` }, nil},
		{"uri in other letters", func(c *client) { c.uri = "ZooKeeper/ZK-sasl-md5" }, nil},
		{"ASCII without a charset", func(c *client) { c.cut = "charset" }, nil},
		{"ISO 8859-1 without a charset", func(c *client) { c.cut, c.user, c.password = "charset", "j\xfcrgen", "p\xe4ss" }, nil},
		{"acting as itself", func(c *client) { c.authzID = "bob" }, nil},

		{"wrong password", func(c *client) { c.password = "guess" }, ErrRefused},
		{"unknown user", func(c *client) { c.user = "eve" }, ErrRefused},
		{"unknown user, empty password", func(c *client) { c.user, c.password = "eve", "" }, ErrRefused},
		{"acting as another", func(c *client) { c.authzID = "alice" }, ErrRefused},
		{"empty authorization id", func(c *client) { c.extra = `,authzid=""` }, ErrRefused},

		{"nonce of another exchange", func(c *client) { c.nonce = "cmFuZG9t" }, ErrMalformed},
		{"nonce used twice", func(c *client) { c.nc = "00000002" }, ErrMalformed},
		{"short nonce count", func(c *client) { c.nc = "1" }, ErrMalformed},
		{"protection of messages", func(c *client) { c.qop = "auth-int" }, ErrMalformed},
		{"another realm", func(c *client) { c.realm = "example.com" }, ErrMalformed},
		{"another service", func(c *client) { c.uri = "imap/zk-sasl-md5" }, ErrMalformed},
		{"another charset", func(c *client) { c.charset = "utf-16" }, ErrMalformed},
		{"invalid UTF-8", func(c *client) { c.user = "b\xffb" }, ErrMalformed},
		{"username twice", func(c *client) { c.extra = `,username="alice"` }, ErrMalformed},
		{"username twice in other letters", func(c *client) { c.extra = `,USERNAME="alice"` }, ErrMalformed},
		{"too long", func(c *client) { c.extra = "," + strings.Repeat(" ", maxTokenBytes) }, ErrMalformed},
		{"no username", func(c *client) { c.cut = "username" }, ErrMalformed},
		{"no realm", func(c *client) { c.cut = "realm" }, ErrMalformed},
		{"no nonce", func(c *client) { c.cut = "nonce" }, ErrMalformed},
		{"no cnonce", func(c *client) { c.cut = "cnonce" }, ErrMalformed},
		{"no nonce count", func(c *client) { c.cut = "nc" }, ErrMalformed},
		{"no uri", func(c *client) { c.cut = "digest-uri" }, ErrMalformed},
		{"no response", func(c *client) { c.cut = "response" }, ErrMalformed},
		{"short response", func(c *client) { c.cut, c.extra = "response", ",response=0123" }, ErrMalformed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, c := newServer(t), goodClient()
			tt.change(&c)
			challenge, done, id, err := s.Step(nil)
			if done || id != "" || err != nil {
				t.Fatalf("challenge: %v, %q, %v", done, id, err)
			}
			final, done, id, err := s.Step([]byte(c.respond(string(challenge))))
			if !errors.Is(err, tt.want) || done != (tt.want == nil) {
				t.Fatalf("done %v, %v; want %v", done, err, tt.want)
			}
			if tt.want != nil && (final != nil || id != "") {
				t.Errorf("a refused client got %q and is %q", final, id)
			}
			if want := "rspauth=" + c.proof(c.nonce, ":"+c.uri); tt.want == nil && string(final) != want {
				t.Errorf("final %s, want %s", final, want)
			}
			if user, _ := latin1(c.user); tt.want == nil && id != user && id != c.user {
				t.Errorf("id %q of user %q", id, c.user)
			}
			if _, done, _, err := s.Step([]byte(c.respond(string(challenge)))); done || !errors.Is(err, ErrOver) {
				t.Errorf("a token after the end: %v, %v", done, err)
			}
		})
	}
}

func TestUnknownUserAndWrongPasswordLookAlike(t *testing.T) {
	var texts []string
	for _, user := range []string{"bob", "eve"} {
		s, c := newServer(t), goodClient()
		c.user, c.password = user, "guess"
		challenge, _, _, _ := s.Step(nil)
		_, _, _, err := s.Step([]byte(c.respond(string(challenge))))
		texts = append(texts, strings.ReplaceAll(fmt.Sprint(err), user, "…"))
	}
	if texts[0] != texts[1] {
		t.Errorf("wrong password: %s\nunknown user:  %s", texts[0], texts[1])
	}
}

func TestTheFirstTokenDoesNotMatter(t *testing.T) {
	s, c := newServer(t), goodClient()
	c.nonce = "cmFuZG9t"
	challenge, done, _, err := s.Step([]byte(c.respond("")))
	if done || err != nil || !strings.HasPrefix(string(challenge), `realm="zk-sasl-md5",nonce="cmFuZG9t`) {
		t.Errorf("%q, done %v, %v", challenge, done, err)
	}
	if _, _, _, err := newServer(t).Step(make([]byte, maxTokenBytes+1)); !errors.Is(err, ErrMalformed) {
		t.Errorf("a long first token: %v", err)
	}
}

func TestOtherNamesThanTheDefaults(t *testing.T) {
	s, err := New(Config{
		Lookup: Users(map[string]string{"bob": "bobsecret"}), Nonce: strings.NewReader(strings.Repeat("n", nonceBytes)),
		Realm: `my "realm"`, Protocol: "p", ServerName: "host",
	})
	if err != nil {
		t.Fatal(err)
	}
	challenge, _, _, _ := s.Step(nil)
	if want := `realm="my \"realm\"",nonce="`; !strings.HasPrefix(string(challenge), want) {
		t.Errorf("challenge %s", challenge)
	}
	c := goodClient()
	c.realm, c.uri, c.cut = `my "realm"`, "p/host", "realm"
	c.extra = `,realm="my \"realm\""`
	if _, done, id, err := s.Step([]byte(c.respond(string(challenge)))); !done || id != "bob" || err != nil {
		t.Errorf("done %v, id %q, %v", done, id, err)
	}
}

func TestNoNonceWithoutRandomBytes(t *testing.T) {
	users := Users(nil)
	for _, c := range []Config{{Lookup: users}, {Nonce: new(bytes.Buffer)}} {
		if _, err := New(c); err == nil {
			t.Errorf("New(%+v) works", c)
		}
	}
	s, err := New(Config{Lookup: users, Nonce: iotest.ErrReader(io.ErrClosedPipe)})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := s.Step(nil); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("challenge without random bytes: %v", err)
	}
	if _, _, _, err := s.Step(nil); !errors.Is(err, ErrOver) {
		t.Errorf("after that: %v", err)
	}
}

func FuzzStep(f *testing.F) {
	c := goodClient()
	s := newServer(f)
	challenge, _, _, _ := s.Step(nil)
	f.Add([]byte(c.respond(string(challenge))))
	c.authzID = "alice"
	f.Add([]byte(c.respond(string(challenge))))
	good := c
	f.Fuzz(func(t *testing.T, token []byte) {
		s := newServer(t)
		if _, _, _, err := s.Step(nil); err != nil {
			t.Fatal(err)
		}
		final, done, id, err := s.Step(token)
		if done != (err == nil) || done != (final != nil) || done && id != "bob" && id != "alice" && id != "jürgen" {
			t.Fatalf("final %q, done %v, id %q, %v", final, done, id, err)
		}
		// Nobody gets in without a proof that was made with a password.
		if done && !bytes.Contains(token, []byte(goodProof(id, good.nonce, token))) {
			t.Fatalf("%q is let in as %q", token, id)
		}
	})
}

// goodProof computes what a token must contain to be let in as user, from its own cnonce
// and uri as far as the reference client can be made to use them.
func goodProof(user, nonce string, token []byte) string {
	d, err := parseDirectives(token)
	if err != nil {
		return "no proof"
	}
	c := goodClient()
	c.user, c.password = user, map[string]string{"bob": "bobsecret", "alice": "", "j\u00fcrgen": "p\u00e4ss"}[user]
	c.cnonce, c.uri, c.authzID = d["cnonce"], d["digest-uri"], d["authzid"]
	return c.proof(nonce, "AUTHENTICATE:"+c.uri)
}
