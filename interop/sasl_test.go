package interop

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

const saslProvider = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"

// serverLogin is a JAAS file as the administrator of a ZooKeeper server writes it.
const serverLogin = `
Server {
       org.apache.zookeeper.server.auth.DigestLoginModule required
       user_super="super-secret"
       user_bob="bob-secret"
       user_ann="ann \"quoted\" secret";
};
`

// clientLogin has a section per user.
func clientLogin() string {
	var b strings.Builder
	for _, u := range [][3]string{
		{"Bob", "bob", "bob-secret"},
		{"Ann", "ann", `ann \"quoted\" secret`},
		{"Super", "super", "super-secret"},
		{"Wrong", "bob", "wrong"},
		{"Unknown", "eve", "eve-secret"},
		{"Eve", "eve", "bob-secret"},
	} {
		fmt.Fprintf(&b, "%s {\n org.apache.zookeeper.server.auth.DigestLoginModule required\n username=\"%s\"\n password=\"%s\";\n};\n", u[0], u[1], u[2])
	}
	return b.String()
}

// TestSASL drives the Java client with DIGEST-MD5.
func TestSASL(t *testing.T) {
	want := settings{
		byRequest: true,
		config:    map[string]string{"authProvider.1": saslProvider},
		jvm:       map[string]string{"java.security.auth.login.config": "@server.jaas@"},
		files:     map[string]string{"server.jaas": serverLogin, "client.jaas": clientLogin()},
	}
	forEachServer(t, want, func(t *testing.T, s *server) {
		args := append(javaAddresses(t, s), "-Djava.security.auth.login.config="+filepath.Join(s.dir, "client.jaas"))
		known := map[string]string{}
		if s.kind == zookeeper {
			known["sasl-unknown-user-with-the-password-of-the-one-before"] = "for an unknown name ZooKeeper 3.8 compares with the password of the login before, of whichever connection"
		}
		runProgram(t, known, javaProgram(t, "SaslChecks", args...))
	})
}

// TestRawEnforcedAuth plays the servers' settings that demand an identity.
func TestRawEnforcedAuth(t *testing.T) {
	t.Run("digest", func(t *testing.T) {
		want := settings{byRequest: true, config: map[string]string{"enforce.auth.enabled": "true", "enforce.auth.schemes": "digest"}}
		forEachServer(t, want, func(t *testing.T, s *server) { playTalks(t, s, "enforced-digest", enforcedCases) })
	})
	t.Run("sasl", func(t *testing.T) {
		want := settings{
			byRequest: true,
			config:    map[string]string{"authProvider.1": saslProvider, "sessionRequireClientSASLAuth": "true"},
			jvm:       map[string]string{"java.security.auth.login.config": "@server.jaas@"},
			files:     map[string]string{"server.jaas": serverLogin},
		}
		forEachServer(t, want, func(t *testing.T, s *server) { playTalks(t, s, "enforced-sasl", enforcedCases) })
	})
}

var enforcedCases = []rawCase{
	{"without-an-identity", func(k *talk) {
		for _, r := range []request{
			k.exists("/", false), k.create("/x", nil, 0), k.sync("/"), k.whoAmI(), k.addWatch("/", 1), k.setWatches(0, nil, nil, nil), k.multi(), k.multiRead(),
			{"ping", opPing, nil},
			{"closeSession", opClose, nil},
		} {
			c := k.bare()
			c.ask(r)
			c.closed()
		}
	}},
	{"digest-login", func(k *talk) {
		c := k.bare()
		c.pipeline(numbered{xidAuth, k.auth("digest", "bob:pw")})
		c.ask(k.exists("/no", false))
	}},
	{"sasl-failure", func(k *talk) {
		c := k.bare()
		c.ask(k.bytes("sasl with nonsense", opSASL, body{}.buf([]byte("nonsense"))), k.bytes("sasl with nonsense again", opSASL, body{}.buf([]byte("nonsense"))))
	}},
}

// bare opens a session without the ping that open sends.
func (k *talk) bare() *talker {
	k.t.Helper()
	return &talker{openSession(k.t, k.addr, 600000), k, ""}
}
