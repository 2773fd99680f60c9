package server

import (
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/wire"
)

// identities asks the server who the client is.
func (c *rawClient) identities() []string {
	c.t.Helper()
	d := wire.NewDecoder(c.call(wire.OpWhoAmI, nil, wire.OK).body)
	var list []string
	for _, i := range d.ClientInfos() {
		list = append(list, i.Scheme+":"+i.User)
	}
	slices.Sort(list)
	return list
}

func TestIdentitiesAddUp(t *testing.T) {
	c := open(t, startServer(t).addr, 10_000)
	c.call(wire.OpAuth, authBody("digest", "bob:pw"), wire.OK)
	c.call(wire.OpAuth, authBody("digest", "bob:pw"), wire.OK)
	c.call(wire.OpAuth, authBody("digest", "eve:pw"), wire.OK)
	c.call(wire.OpAuth, authBody("ip", ""), wire.OK)
	if got := c.identities(); !slices.Equal(got, []string{"digest:bob", "digest:eve", "ip:127.0.0.1"}) {
		t.Errorf("identities %q", got)
	}
}

// A proof may be any bytes. What others get to see of it, in lists and as a name, is text: clients
// that decode strictly could not read the list.
func TestMalformedDigestProofBecomesText(t *testing.T) {
	c := open(t, startServer(t).addr, 10_000)
	c.call(wire.OpAuth, authBody("digest", "u\xe4:p\xff"), wire.OK)
	r := wire.CreateRequest{Path: "/mine", ACL: []wire.ACL{{Perms: wire.PermAll, ID: wire.ID{Scheme: "auth"}}}}
	c.call(wire.OpCreate, r.Append(nil), wire.OK)
	body := c.call(wire.OpGetACL, pathBody("/mine"), wire.OK).body
	if id := acl.DigestID("", "u\ufffd:p\ufffd"); !bytes.Contains(body, []byte(id)) {
		t.Errorf("the list is %q, want %q in it", body, id)
	}
	if body := c.call(wire.OpWhoAmI, nil, wire.OK).body; !bytes.Contains(body, []byte("u\ufffd")) {
		t.Errorf("whoAmI answers %q", body)
	}
}

func TestFailedAuthIsAnsweredAndEndsTheConnection(t *testing.T) {
	srv := startServer(t, set("DigestAuthenticationProvider.superDigest", "super:x"))
	null := append(wire.AppendString(wire.AppendInt32(nil, 0), "digest"), 0xff, 0xff, 0xff, 0xff)
	for name, body := range map[string][]byte{
		"unknown scheme":      authBody("nonsense", "x"),
		"no scheme":           authBody("", "x"),
		"x509 without TLS":    authBody("x509", ""),
		"super":               authBody("super", "super:x"),
		"null proof":          null,
		"ensemble, not there": authBody("ensemble", "x"),
		"undecodable":         {1},
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t, srv.addr, 10_000)
			c.write(request(wire.XidAuth, wire.OpAuth, body), request(1, wire.OpExists, readBody("/", false)))
			if r := c.expect(wire.XidAuth, wire.AuthFailed); r.Zxid != 0 || len(r.body) != 0 {
				t.Errorf("reply %+v", r)
			}
			c.expectClosed()
		})
	}
}

func TestIdentityCountsForRequestsBehindIt(t *testing.T) {
	c := open(t, startServer(t).addr, 10_000)
	create := wire.CreateRequest{Path: "/n", ACL: []wire.ACL{{Perms: wire.PermAll, ID: wire.ID{Scheme: "auth"}}}}
	c.write(
		request(1, wire.OpCreate, create.Append(nil)),
		request(wire.XidAuth, wire.OpAuth, authBody("digest", "bob:pw")),
		request(2, wire.OpCreate, create.Append(nil)),
		request(3, wire.OpGetData, readBody("/n", false)),
	)
	c.expect(1, wire.InvalidACL)
	c.expect(wire.XidAuth, wire.OK)
	c.expect(2, wire.OK)
	c.expect(3, wire.OK)
}

func TestSuperUserPassesEveryACL(t *testing.T) {
	srv := startServer(t, set("DigestAuthenticationProvider.superDigest", acl.DigestID("SHA1", "super:secret")))
	owner := open(t, srv.addr, 10_000)
	owner.call(wire.OpAuth, authBody("digest", "bob:pw"), wire.OK)
	create := wire.CreateRequest{Path: "/n", ACL: []wire.ACL{{Perms: wire.PermAll, ID: wire.ID{Scheme: "auth"}}}}
	owner.call(wire.OpCreate, create.Append(nil), wire.OK)

	c := open(t, srv.addr, 10_000)
	c.call(wire.OpGetData, readBody("/n", false), wire.NoAuth)
	c.call(wire.OpAuth, authBody("digest", "super:wrong"), wire.OK)
	c.call(wire.OpGetData, readBody("/n", false), wire.NoAuth)
	c.call(wire.OpAuth, authBody("digest", "super:secret"), wire.OK)
	c.call(wire.OpGetData, readBody("/n", false), wire.OK)
	if n := srv.stats.AuthFailures.Value(0); n != 1 {
		t.Errorf("auth_failed_count is %d", n)
	}
}

func TestEnsembleNameDecidesOverTheConnection(t *testing.T) {
	provider := set("authProvider.1", "org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider")
	for _, tc := range []struct {
		opts  []option
		name  string
		taken bool
	}{
		{[]option{provider, set("ensembleAuthName", "a,b")}, "b", true},
		{[]option{provider, set("ensembleAuthName", "a,b")}, "c", false},
		{[]option{provider}, "anything", true},
	} {
		c := open(t, startServer(t, tc.opts...).addr, 10_000)
		xid := c.send(wire.OpAuth, authBody("ensemble", tc.name))
		if !tc.taken {
			c.expectClosed()
			continue
		}
		c.expect(xid, wire.OK)
		if got := c.identities(); len(got) != 1 {
			t.Errorf("identities %q", got)
		}
	}
}

func TestEnforcedAuthenticationRefusesEverythingElse(t *testing.T) {
	srv := startServer(t, set("enforce.auth.enabled", "true"), set("enforce.auth.schemes", "digest,sasl"),
		saslUsers(t), saslProvider)
	for _, op := range []wire.OpCode{wire.OpPing, wire.OpCloseSession, wire.OpExists, wire.OpCreate, 77} {
		c := open(t, srv.addr, 10_000)
		c.write(request(3, op, nil), request(4, wire.OpExists, readBody("/", false)))
		if r := c.expect(3, wire.SessionClosedRequireSASLAuth); r.Zxid != 0 {
			t.Errorf("%v: zxid 0x%x", op, r.Zxid)
		}
		c.expectClosed()
	}
	c := open(t, srv.addr, 10_000)
	c.call(wire.OpAuth, authBody("digest", "bob:pw"), wire.OK)
	c.ping()
}

var saslProvider = set("authProvider.1", "org.apache.zookeeper.server.auth.SASLAuthenticationProvider")

// saslUsers gives the server a JAAS file.
func saslUsers(t *testing.T) option {
	t.Helper()
	file := filepath.Join(t.TempDir(), "jaas.conf")
	err := os.WriteFile(file, []byte(`Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required
  user_bob="secret";
};
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	return set("java.security.auth.login.config", file)
}

// saslResponse is the client's side of DIGEST-MD5 (protocol.md §9.6).
func saslResponse(challenge []byte, user, password string) []byte {
	nonce := regexp.MustCompile(`nonce="([^"]*)"`).FindSubmatch(challenge)[1]
	hash := func(s string) string {
		sum := md5.Sum([]byte(s))
		return hex.EncodeToString(sum[:])
	}
	const realm, uri, rest = "zk-sasl-md5", "zookeeper/zk-sasl-md5", ":00000001:cnonce:auth:"
	first := md5.Sum([]byte(user + ":" + realm + ":" + password))
	a1 := hash(string(first[:]) + ":" + string(nonce) + ":cnonce")
	proof := hash(a1 + ":" + string(nonce) + rest + hash("AUTHENTICATE:"+uri))
	return []byte(`charset=utf-8,username="` + user + `",realm="` + realm + `",nonce="` + string(nonce) +
		`",nc=00000001,cnonce="cnonce",digest-uri="` + uri + `",maxbuf=65536,response=` + proof + `,qop=auth`)
}

func tokenOf(t *testing.T, r reply) []byte {
	t.Helper()
	d := wire.NewDecoder(r.body)
	token := d.Buffer()
	if d.Err() != nil || r.Zxid != 0 {
		t.Fatalf("reply %+v", r)
	}
	return token
}

func (c *rawClient) sasl(token []byte, code wire.Code) reply {
	c.t.Helper()
	return c.call(wire.OpSASL, wire.AppendBuffer(nil, token), code)
}

func TestSASLGivesAnIdentity(t *testing.T) {
	srv := startServer(t, saslUsers(t), saslProvider, set("superUser", "bob"))
	c := open(t, srv.addr, 10_000)
	challenge := tokenOf(t, c.sasl([]byte{}, wire.OK))
	final := tokenOf(t, c.sasl(saslResponse(challenge, "bob", "secret"), wire.OK))
	if !regexp.MustCompile(`^rspauth=[0-9a-f]{32}$`).Match(final) {
		t.Errorf("final token %q", final)
	}
	if got := c.identities(); !slices.Equal(got, []string{"ip:127.0.0.1", "sasl:bob", "super:"}) {
		t.Errorf("identities %q", got)
	}
}

func TestFailedSASLIsAnsweredWithANullTokenAndEndsTheConnection(t *testing.T) {
	srv := startServer(t, saslUsers(t), saslProvider)
	for _, who := range [][2]string{{"bob", "wrong"}, {"nobody", "secret"}} {
		c := open(t, srv.addr, 10_000)
		challenge := tokenOf(t, c.sasl([]byte{}, wire.OK))
		if token := tokenOf(t, c.sasl(saslResponse(challenge, who[0], who[1]), wire.AuthFailed)); token != nil {
			t.Errorf("token %x", token)
		}
		c.expectClosed()
	}
}

func TestFailedSASLClientsMayStay(t *testing.T) {
	srv := startServer(t, saslUsers(t), saslProvider, set("allowSaslFailedClients", "true"))
	c := open(t, srv.addr, 10_000)
	challenge := tokenOf(t, c.sasl([]byte{}, wire.OK))
	if token := tokenOf(t, c.sasl(saslResponse(challenge, "bob", "wrong"), wire.OK)); token != nil {
		t.Errorf("token %x", token)
	}
	challenge = tokenOf(t, c.sasl([]byte{}, wire.OK))
	tokenOf(t, c.sasl(saslResponse(challenge, "bob", "secret"), wire.OK))
	if got := c.identities(); !slices.Equal(got, []string{"ip:127.0.0.1", "sasl:bob"}) {
		t.Errorf("identities %q", got)
	}
}

func TestSASLWithoutUsersAnswersANullToken(t *testing.T) {
	c := open(t, startServer(t).addr, 10_000)
	if token := tokenOf(t, c.sasl([]byte{}, wire.OK)); token != nil {
		t.Errorf("token %x", token)
	}
	c.ping()
}
