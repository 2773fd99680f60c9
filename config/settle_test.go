package config

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
)

func TestSessionTimeoutsFollowTheTick(t *testing.T) {
	for _, test := range []struct {
		lines    []string
		min, max int32
		bad      bool
	}{
		{nil, 6000, 60000, false},
		{[]string{"tickTime=100"}, 200, 2000, false},
		{[]string{"tickTime=100", "minSessionTimeout=-1", "maxSessionTimeout=-1"}, 200, 2000, false},
		{[]string{"minSessionTimeout=0", "maxSessionTimeout=0"}, 0, 0, false},
		{[]string{"maxSessionTimeout=5999"}, 0, 0, true},
		{[]string{"minSessionTimeout=60001"}, 0, 0, true},
		{[]string{"minSessionTimeout=-2"}, 0, 0, true},
		{[]string{"tickTime=0"}, 0, 0, true},
		{[]string{"tickTime=100000000"}, 200_000_000, 2_000_000_000, false},
		{[]string{"tickTime=100000001"}, 0, 0, true},
	} {
		c, _, err := Load(zooCfg(test.lines...))
		if test.bad {
			if err == nil {
				t.Errorf("%v: no error", test.lines)
			}
			continue
		}
		if err != nil || c.MinSessionTimeoutMs != test.min || c.MaxSessionTimeoutMs != test.max {
			t.Errorf("%v: got %d to %d, %v", test.lines, c.MinSessionTimeoutMs, c.MaxSessionTimeoutMs, err)
		}
	}
}

func TestPurgeInterval(t *testing.T) {
	for _, test := range []struct {
		line string
		want int64
	}{
		{"", -1},
		{"autopurge.purgeInterval=0", 0},
		{"autopurge.purgeInterval=24", 24 * 3600 * 1000},
		{"autopurge.purgeInterval=1500ms", 1500},
		{"autopurge.purgeInterval=2S", 2000},
		{"autopurge.purgeInterval=3m", 180000},
		{"autopurge.purgeInterval=4h", 4 * 3600 * 1000},
		{"autopurge.purgeInterval=5d", 5 * 24 * 3600 * 1000},
	} {
		if c, _ := mustLoad(t, zooCfg(test.line)); c.PurgeIntervalMs != test.want {
			t.Errorf("%q: got %d", test.line, c.PurgeIntervalMs)
		}
	}
	for _, bad := range []string{"h", "-1", "1.5h", "1 h", "5mss", "99999999999d"} {
		if problems(zooCfg("autopurge.purgeInterval="+bad)) == "" {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestFourLetterWords(t *testing.T) {
	for _, test := range []struct {
		lines []string
		want  string
	}{
		{nil, "srvr"},
		{[]string{"4lw.commands.whitelist="}, "srvr"},
		{[]string{"4lw.commands.whitelist= mntr ,ruok,,mntr"}, "mntr ruok srvr"},
		{[]string{"readonlymode.enabled=TRUE"}, "isro srvr"},
		{[]string{"4lw.commands.whitelist=ruok, * , no"}, strings.Join(fourLetterWords, " ")},
	} {
		if c, _ := mustLoad(t, zooCfg(test.lines...)); strings.Join(c.FourLetterWords, " ") != test.want {
			t.Errorf("%v: got %v", test.lines, c.FourLetterWords)
		}
	}
}

func TestLimitsFollowOneAnother(t *testing.T) {
	c, _ := mustLoad(t, zooCfg("jute.maxbuffer=0x40000000", "maxClientCnxns=-1", "maxCnxns=-1"))
	const gib = 1 << 30
	if c.JuteMaxBuffer != gib || c.JuteMaxBufferExtra != gib || c.MaxConnBufferBytes != gib || c.MaxTotalBufferBytes != gib ||
		c.MaxClientCnxns != 0 || c.MaxCnxns != 0 {
		t.Errorf("got %+v", c)
	}
	for _, test := range []struct {
		lines []string
		want  int64
	}{
		{nil, 128 << 20},
		{[]string{"snapSizeLimitInKb=4194304"}, 4 << 30},
		{[]string{"snapSizeLimitInKb=4194304", "zkd.snapshotBytes=1000"}, 1000},
		{[]string{"snapSizeLimitInKb=-1", "snapCount=1000"}, 0},
	} {
		if c, _ := mustLoad(t, zooCfg(test.lines...)); c.SnapshotBytes != test.want {
			t.Errorf("%v: got %d", test.lines, c.SnapshotBytes)
		}
	}
	if got := problems(zooCfg("zkd.snapshotBytes=0")); !strings.Contains(got, "no snapshot would ever be taken") {
		t.Errorf("got %q", got)
	}
}

// node loads a configuration with the lines and the myid of this server.
func node(myid string, lines ...string) Sources {
	f := files{"zoo.cfg": "dataDir=/d\n" + strings.Join(lines, "\n")}
	if myid != "" {
		f["/d/myid"] = myid
	}
	return Sources{File: "zoo.cfg", ReadFile: f.read}
}

func TestClientAddressComesFromTheServerLine(t *testing.T) {
	three := []string{"server.1=a:1:2;2181", "server.2=b:1:2;10.0.0.2:2182;2282", "server.3=c:1:2"}
	for _, test := range []struct {
		myid  string
		lines []string
		want  string // address or problem
	}{
		{"1", nil, "0.0.0.0:2181"},
		{"2\n", nil, "10.0.0.2:2182"},
		{"3", []string{"clientPort=2183"}, ":2183"},
		{"3", []string{"clientPort=2183", "clientPortAddress=[::1]"}, "[::1]:2183"},
		{"1", []string{"clientPort=2181", "clientPortAddress=0.0.0.0"}, "0.0.0.0:2181"},
		{"2", []string{"clientPort=2182", "clientPortAddress=10.0.0.2"}, "10.0.0.2:2182"},
		{"2", []string{"clientPort=2182", "clientPortAddress=::"}, "10.0.0.2:2182"},
		{"2", []string{"clientPort=2182", "clientPortAddress=b.example"}, "10.0.0.2:2182"},
		{"2", []string{"clientPort=2182", "clientPortAddress=10.0.0.3"}, "clientPortAddress: 10.0.0.3, but the server line of this server says 10.0.0.2"},
		{"2", []string{"clientPort=2181"}, "clientPort: 2181, but the server line of this server says 2182"},
		{"4", nil, "there is no line server.4"},
		{"", nil, "/d/myid: is missing"},
		{"x", nil, `/d/myid:1: "x" is not a number`},
		{"0", nil, "/d/myid:1: 0 is out of range"},
	} {
		lines := append(append(slices.Clone(three), test.lines...),
			"ssl.keyStore.location=k.pem", "ssl.trustStore.location=t.pem", "zkd.peerTLSDir=tls")
		c, _, err := Load(node(test.myid, lines...))
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = HostPort{Host: c.ClientPortAddress, Port: c.ClientPort}.String()
			if want := map[bool]int{true: 2282, false: -1}[c.Cluster.ServerID == 2]; c.SecureClientPort != want {
				t.Errorf("myid %q: TLS port %d, want %d", test.myid, c.SecureClientPort, want)
			}
		}
		if !strings.Contains(got, test.want) || err == nil && got != test.want {
			t.Errorf("myid %q, %v: got %q, want %q", test.myid, test.lines, got, test.want)
		}
	}
}

func TestWhatMakesAnEnsemble(t *testing.T) {
	for _, test := range []struct {
		lines    []string
		ensemble bool
		problem  string
	}{
		{nil, false, ""},
		{[]string{"server.1=a:1:2"}, false, ""},
		{[]string{"server.1=a:1:2", "standaloneEnabled=false"}, true, ""},
		{[]string{"server.1=a:1:2", "server.2=b:1:2"}, true, ""},
		{[]string{"server.1=a:1:2", "server.2=b:1:2:observer", "standaloneEnabled=false"}, true, ""},
		{[]string{"server.1=a:1:2", "server.2=b:1:2:observer"}, false, "observers need an ensemble"},
		{[]string{"server.1=a:1:2:observer"}, false, "observers need an ensemble"},
		{[]string{"standaloneEnabled=false"}, true, "no server.N line is a participant"},
		{[]string{"server.1=a:1:2|b:1:2", "server.2=c:1:2", "multiAddress.enabled=true"}, true, ""},
		{[]string{"server.1=a:1:2", "server.2=b:1:2", "group.1=1:2"}, true, ""},
		{[]string{"server.255=a:1:2", "extendedTypesEnabled=false"}, false, ""},
	} {
		c, _, err := Load(node("1", append(test.lines, "clientPort=2181", "zkd.peerTLSDir=tls")...))
		switch {
		case test.problem != "":
			if err == nil || !strings.Contains(err.Error(), test.problem) {
				t.Errorf("%v: got %v, want %q", test.lines, err, test.problem)
			}
		case err != nil:
			t.Errorf("%v: %v", test.lines, err)
		case c.Cluster.Ensemble != test.ensemble:
			t.Errorf("%v: Ensemble is %v", test.lines, c.Cluster.Ensemble)
		}
	}
}

func TestDynamicFileHasNothingButServers(t *testing.T) {
	src := node("1", "dynamicConfigFile=dyn", "clientPort=2181")
	src.ReadFile = files{
		"zoo.cfg": "dataDir=/d\nclientPort=2181\ndynamicConfigFile=dyn\ngroup.1=1",
		"dyn":     "server.1=a:1:2\nversion=100\ntickTime=5\nserver.2=b:1",
	}.read
	want := "zoo.cfg:4: group.1: must be in dyn, which dynamicConfigFile names, and not here\n" +
		"dyn:2: version: must not be in this file; allowed: server.N, group.N and weight.N\n" +
		"dyn:3: tickTime: must not be in this file; allowed: server.N, group.N and weight.N\n" +
		`dyn:4: server.2: "b:1" is not host:port:electionPort or host:port:electionPort:role; ` +
		"allowed: host:port:electionPort[:role][;[host:]clientPort][;[host:]secureClientPort]"
	if got := problems(src); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestAdvertisedAddress(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"zk1.example.com", "zk1.example.com:2181"},
		{"zk1.example.com:12181", "zk1.example.com:12181"},
		{"[2001:db8::1]:12181", "[2001:db8::1]:12181"},
		{"[2001:db8::1]", "[2001:db8::1]:2181"},
		{"a:b", "problem"},
		{"2181", "problem"},
		{"", "problem"},
	} {
		got := "problem"
		if c, _, err := Load(zooCfg("zkd.advertisedAddress=" + test.text)); err == nil {
			got = c.Advertised.String()
		}
		if got != test.want {
			t.Errorf("%q: got %q, want %q", test.text, got, test.want)
		}
	}
}

func TestPortsThatCannotBeOpened(t *testing.T) {
	stores := []string{"ssl.keyStore.location=k.p12", "ssl.trustStore.location=t.jks"}
	for _, test := range []struct {
		lines []string
		want  string
	}{
		{append(stores, "secureClientPort=2181"), "port 2181 is clientPort already"},
		{append(stores, "secureClientPort=2281", "secureClientPortAddress=[::1]"), ""},
		{append(stores, "secureClientPort=2181", "clientPortAddress=127.0.0.1", "secureClientPortAddress=127.0.0.2"), ""},
		{append(stores, "client.portUnification=true"), ""},
		{[]string{"client.portUnification=true"}, "client.portUnification: a TLS port needs a key"},
		{[]string{"secureClientPort=2281", "ssl.keyStore.location=k.pem"}, "set ssl.trustStore.location, or ssl.clientAuth=none"},
		{[]string{"secureClientPort=2281", "ssl.keyStore.location=k.pem", "ssl.clientAuth=none"}, ""},
		{[]string{"secureClientPortAddress=::1"}, "secureClientPortAddress: is set, but secureClientPort is not"},
		{[]string{"ssl.keyStore.type=BCFKS"}, "allowed: JKS, PEM or PKCS12"},
		{append(stores, "ssl.authProvider=custom"), "allowed: x509"},
	} {
		if got := problems(zooCfg(test.lines...)); !strings.Contains(got, test.want) || test.want == "" && got != "" {
			t.Errorf("%v: got %q, want %q", test.lines, got, test.want)
		}
	}
}

func TestTLSVersionsAndSuites(t *testing.T) {
	const v12, v13 = tls.VersionTLS12, tls.VersionTLS13
	for _, test := range []struct {
		lines    []string
		min, max uint16 // 0: a problem
		suites   int
	}{
		{nil, v12, v13, 0},
		{[]string{"ssl.protocol=TLSv1.2"}, v12, v12, 0},
		{[]string{"ssl.protocol=TLSv1.3"}, v12, v13, 0},
		{[]string{"ssl.protocol=TLSv1.1"}, 0, 0, 0},
		{[]string{"ssl.enabledProtocols=TLSv1.3"}, v13, v13, 0},
		{[]string{"ssl.enabledProtocols=TLSv1.2,TLSv1.3", "ssl.protocol=TLSv1.2"}, v12, v13, 0},
		{[]string{"ssl.enabledProtocols=TLSv1.1, TLSv1.2"}, v12, v12, 0},
		{[]string{"ssl.enabledProtocols=TLSv1"}, 0, 0, 0},
		{[]string{"ssl.enabledProtocols=TLSv1.4,TLSv1.3"}, 0, 0, 0},
		{[]string{"ssl.ciphersuites=TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"}, v12, v12, 1},
		{[]string{"ssl.ciphersuites=TLS_AES_128_GCM_SHA256"}, v13, v13, 0},
		{[]string{"ssl.ciphersuites=TLS_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,SSL_OLD"}, v12, v13, 1},
		{[]string{"ssl.ciphersuites=TLS_AES_128_GCM_SHA256", "ssl.protocol=TLSv1.2"}, 0, 0, 0},
		{[]string{"ssl.ciphersuites=TLS_RSA_WITH_RC4_128_SHA"}, 0, 0, 0},
	} {
		c, _, err := Load(zooCfg(test.lines...))
		if err != nil {
			if test.min != 0 {
				t.Errorf("%v: %v", test.lines, err)
			}
			continue
		}
		if c.TLS.MinVersion != test.min || c.TLS.MaxVersion != test.max || len(c.TLS.CipherSuites) != test.suites {
			t.Errorf("%v: got %x to %x, %v", test.lines, c.TLS.MinVersion, c.TLS.MaxVersion, c.TLS.CipherSuites)
		}
	}
}

const saslProvider = "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"

func TestSASLUsers(t *testing.T) {
	const jaas = "Server { x.DigestLoginModule required user_super=\"a\" user_bob=\"b\"; };\nOther { x.DigestLoginModule required user_eve=\"e\"; };\nKrb { x.Krb5LoginModule required; };"
	for _, test := range []struct {
		lines []string
		users string // "off", or names and passwords, or a problem
	}{
		{nil, "off"},
		{[]string{"java.security.auth.login.config=jaas"}, "bob:b super:a"},
		{[]string{"java.security.auth.login.config==jaas"}, "bob:b super:a"},
		{[]string{"java.security.auth.login.config=file:///etc/jaas"}, "bob:b super:a"},
		{[]string{"java.security.auth.login.config=jaas", "zookeeper.sasl.serverconfig=Other"}, "eve:e"},
		{[]string{"java.security.auth.login.config=jaas", "SASLAuthenticationProvider.superPassword=s"}, "bob:b super:s"},
		{[]string{"java.security.auth.login.config=jaas", "sasl.serverconfig=Other", "SASLAuthenticationProvider.superPassword=s"}, "eve:e"},
		{[]string{"java.security.auth.login.config=empty"}, "off"},
		{[]string{"java.security.auth.login.config=jaas", "sasl.serverconfig=No"}, "jaas has no section No"},
		{[]string{"java.security.auth.login.config=jaas", "sasl.serverconfig=Krb"}, "jaas:3: section Krb has no user"},
		{[]string{"sasl.serverconfig=Server"}, "there is no JAAS file"},
		{[]string{"java.security.auth.login.config=none"}, "none cannot be read"},
	} {
		src := zooCfg(test.lines...)
		main, _ := src.ReadFile("zoo.cfg")
		src.ReadFile = files{"zoo.cfg": string(main), "jaas": jaas, "/etc/jaas": jaas, "empty": ""}.read
		c, _, err := Load(src)
		got := "off"
		switch {
		case err != nil:
			got = err.Error()
		case c.SASL.Enabled:
			var users []string
			for name, password := range c.SASL.Users {
				users = append(users, name+":"+password.Reveal())
			}
			slices.Sort(users)
			got = strings.Join(users, " ")
		}
		if got != test.users && (err == nil || !strings.Contains(got, test.users)) {
			t.Errorf("%v: got %q, want %q", test.lines, got, test.users)
		}
	}
}

func TestEnforcedSchemesMustExist(t *testing.T) {
	for _, test := range []struct {
		lines []string
		want  string // schemes, or the problem
	}{
		{nil, ""},
		{[]string{"enforce.auth.schemes=magic"}, ""}, // not enabled
		{[]string{"enforce.auth.enabled=true", "enforce.auth.schemes=digest, ip"}, "digest ip"},
		{[]string{"enforce.auth.enabled=true"}, "enforce.auth.schemes is not set"},
		{[]string{"enforce.auth.enabled=true", "enforce.auth.schemes=digest", "DigestAuthenticationProvider.enabled=false"}, "DigestAuthenticationProvider.enabled is false"},
		{[]string{"enforce.auth.enabled=true", "enforce.auth.schemes=x509"}, "set secureClientPort"},
		{[]string{"enforce.auth.enabled=true", "enforce.auth.schemes=world"}, "it is unknown"},
		{[]string{"sessionRequireClientSASLAuth=true"}, "add authProvider.1="},
		{[]string{"sessionRequireClientSASLAuth=true", saslProvider}, "set java.security.auth.login.config"},
		{[]string{"sessionRequireClientSASLAuth=true", saslProvider, "java.security.auth.login.config=jaas", "enforce.auth.enabled=true", "enforce.auth.schemes=digest"}, "sasl"},
	} {
		src := zooCfg(test.lines...)
		main, _ := src.ReadFile("zoo.cfg")
		src.ReadFile = files{"zoo.cfg": string(main), "jaas": `Server{M required user_a="b";};`}.read
		c, _, err := Load(src)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = strings.Join(c.Auth.EnforceSchemes, " ")
		}
		if got != test.want && (err == nil || !strings.Contains(got, test.want)) {
			t.Errorf("%v: got %q, want %q", test.lines, got, test.want)
		}
	}
}

func TestSecretsAreNeverShown(t *testing.T) {
	const secret = "geheim"
	src := zooCfg("ssl.keyStore.password="+secret, "DigestAuthenticationProvider.superDigest="+secret,
		"SASLAuthenticationProvider.superPassword="+secret, "some.password="+secret, "java.security.auth.login.config=jaas",
		"ssl.quorum.trustStore.password="+secret, "metricsProvider.ssl.keyStore.password="+secret)
	main, _ := src.ReadFile("zoo.cfg")
	src.ReadFile = files{"zoo.cfg": string(main), "jaas": "Server{x.DigestLoginModule required user_bob=\"" + secret + "\";};"}.read
	src.Overrides = []Override{{"ssl.trustStore.password", secret, "flag --set"}}
	c, warnings := mustLoad(t, src)
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var logged strings.Builder
	slog.New(slog.NewTextHandler(&logged, nil)).Info("config", "users", c.SASL.Users, "password", c.TLS.KeyStore.Password)
	all := []string{
		string(text), logged.String(), fmt.Sprintf("%v %+v %#v", *c, *c, *c), fmt.Sprint(warnings), c.InitialConfig,
		fmt.Sprintf("%s %q %x %d %#v", c.TLS.KeyStore.Password, c.TLS.KeyStore.Password, c.TLS.KeyStore.Password, c.TLS.KeyStore.Password, &c.TLS.KeyStore.Password),
	}
	for i, s := range all {
		if strings.Contains(s, secret) || strings.Contains(s, fmt.Sprintf("%x", secret)) {
			t.Errorf("%d: %s", i, s)
		}
		if i != 3 && !strings.Contains(s, "***") {
			t.Errorf("%d: nothing is hidden in %s", i, s)
		}
	}
	if c.TLS.TrustStore.Password.Reveal() != secret || !c.TLS.KeyStore.Password.IsSet() || c.Metrics.TLS.TrustStore.Password.IsSet() {
		t.Error("the secrets themselves are wrong")
	}
}

// FuzzLoad: no file makes Load panic, a Config is never returned with an error, and secrets
// do not get into messages.
func FuzzLoad(f *testing.F) {
	for _, k := range Keys() {
		f.Add(strings.Replace(k.Name, ".N", ".1", 1) + "=" + k.Default)
	}
	f.Add("server.1=a:1:2\nserver.2=b:1:2;3\nserver.3=c:1:2:observer\ngroup.1=1:2\n")
	f.Add("ssl.keyStore.password=hunter2\nzkd.x=hunter\njava.security.auth.login.config=jaas\ndynamicConfigFile=jaas")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4096 {
			t.Skip() // nothing but more of the same
		}
		src := zooCfg(text)
		main, _ := src.ReadFile("zoo.cfg")
		src.ReadFile = files{"zoo.cfg": string(main), "/none/myid": "1", "jaas": "Server{M required user_a=\"hunter3\";};"}.read
		c, warnings, err := Load(src)
		if (c == nil) != (err != nil) {
			t.Fatalf("%q: %v, %v", text, c, err)
		}
		if out := fmt.Sprint(warnings, err); strings.Contains(out, "hunter3") {
			t.Fatalf("%q: %s", text, out)
		}
	})
}
