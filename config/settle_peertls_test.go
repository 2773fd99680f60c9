package config

import (
	"crypto/tls"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The port between servers takes entries of the log: it is not to be open to a network by
// mistake.
func TestPeerPortWithoutTLSIsForLoopbackOnly(t *testing.T) {
	const refused = "other machines reach this peer port"
	for _, test := range []struct {
		name    string
		lines   []string
		problem string
		warning string
	}{
		{"a name", []string{"server.1=zk1:1:2", "server.2=zk2:1:2"}, refused, ""},
		{"an address", []string{"server.1=10.0.0.1:1:2", "server.2=10.0.0.2:1:2"}, refused, ""},
		{"every address", []string{"server.1=0.0.0.0:1:2", "server.2=10.0.0.2:1:2"}, refused, ""},
		{"an address of IPv6", []string{"server.1=[2001:db8::1]:1:2", "server.2=b:1:2"}, refused, ""},
		{"one of two addresses", []string{"server.1=127.0.0.1:1:2|a:1:2", "server.2=b:1:2", "multiAddress.enabled=true"}, refused, ""},
		{"loopback that listens everywhere", []string{"server.1=127.0.0.1:1:2", "server.2=127.0.0.1:3:4", "quorumListenOnAllIPs=true"}, refused, ""},
		{"a name that only begins like localhost", []string{"server.1=localhost.example.com:1:2", "server.2=b:1:2"}, refused, ""},
		{"an ensemble of one, which can grow", []string{"server.1=a:1:2", "standaloneEnabled=false"}, refused, ""},
		{"stores that nothing says to use", []string{"server.1=a:1:2", "server.2=b:1:2", "ssl.quorum.keyStore.location=k.pem", "ssl.quorum.trustStore.location=t.pem"}, refused, ""},
		{"refused in so many words", []string{"server.1=a:1:2", "server.2=b:1:2", "zkd.peerInsecure=false"}, refused, ""},

		{"loopback", []string{"server.1=127.0.0.1:1:2", "server.2=127.0.0.1:3:4"}, "", ""},
		{"another loopback address", []string{"server.1=127.0.0.9:1:2", "server.2=b:3:4"}, "", ""},
		{"loopback of IPv6", []string{"server.1=[::1]:1:2", "server.2=[::1]:3:4"}, "", ""},
		{"loopback of IPv4 in IPv6", []string{"server.1=[::ffff:127.0.0.1]:1:2", "server.2=[::1]:3:4"}, "", ""},
		{"localhost", []string{"server.1=LocalHost.:1:2", "server.2=localhost:3:4"}, "", ""},
		{"a single server", []string{"server.1=a:1:2"}, "", ""},
		{"the files of zkd cert", []string{"server.1=a:1:2", "server.2=b:1:2", "zkd.peerTLSDir=/tls"}, "", ""},
		{"the stores of ZooKeeper", []string{"server.1=a:1:2", "server.2=b:1:2", "sslQuorum=true", "ssl.quorum.keyStore.location=k.pem", "ssl.quorum.trustStore.location=t.pem"}, "", ""},

		{"the operator's word", []string{"server.1=a:1:2", "server.2=b:1:2", "zkd.peerInsecure=true"}, "", "whoever reaches the peer port can write anything"},
		{"the operator's word where nobody reaches it", []string{"server.1=127.0.0.1:1:2", "server.2=b:1:2", "zkd.peerInsecure=true"}, "", ""},
		{"the operator's word beside TLS", []string{"server.1=a:1:2", "server.2=b:1:2", "zkd.peerInsecure=true", "zkd.peerTLSDir=/tls"}, "", "is not needed"},

		{"no key store", []string{"server.1=127.0.0.1:1:2", "server.2=b:1:2", "sslQuorum=true", "ssl.quorum.trustStore.location=t.pem"}, "set ssl.quorum.keyStore.location, or zkd.peerTLSDir", ""},
		{"no trust store", []string{"server.1=127.0.0.1:1:2", "server.2=b:1:2", "sslQuorum=true", "ssl.quorum.keyStore.location=k.pem"}, "set ssl.quorum.trustStore.location, or zkd.peerTLSDir", ""},
		{"no stores and a single server", []string{"server.1=a:1:2", "sslQuorum=true"}, "", ""},
		{"an empty folder", []string{"zkd.peerTLSDir="}, "the value is empty", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, warnings, err := Load(node("1", append(test.lines, "clientPort=2181", "initLimit=5")...))
			if got := errorText(err); !strings.Contains(got, test.problem) || test.problem == "" && got != "" {
				t.Errorf("got problem %q, want %q", got, test.problem)
			}
			// Two servers are a warning of their own.
			warnings = slices.DeleteFunc(warnings, func(w Warning) bool { return strings.Contains(w.Text, "failure") })
			if test.warning == "" && len(warnings) > 0 || test.warning != "" && (len(warnings) != 1 || !strings.Contains(warnings[0].Text, test.warning)) {
				t.Errorf("got warnings %v, want %q", warnings, test.warning)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestRefusedPeerPortNamesTheCommands(t *testing.T) {
	got := problems(node("2", "clientPort=2181", "server.1=zk1:2888:3888", "server.2=zk2:2888:3888", "server.3=zk3:2888:3888"))
	for _, want := range []string{
		"zoo.cfg:4: server.2: ", `"zkd cert init --dir DIR"`, `"zkd cert node --dir DIR --id 2"`, "zkd.peerTLSDir", "zkd.peerInsecure=true",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	if strings.Contains(got, "\n") {
		t.Errorf("more than one line: %q", got)
	}
}

func TestPeerTLS(t *testing.T) {
	cluster := []string{"clientPort=2181", "server.1=a:1:2", "server.2=b:1:2", "server.3=c:1:2"}
	stores := []string{
		"ssl.quorum.keyStore.location=k.p12", "ssl.quorum.keyStore.password=s", "ssl.quorum.trustStore.location=t.jks",
		"ssl.quorum.clientAuth=none", "ssl.quorum.protocol=TLSv1.2",
	}
	for _, test := range []struct {
		name       string
		lines      []string
		key, trust Store
	}{
		{
			"a folder",
			[]string{"zkd.peerTLSDir=/tls"},
			Store{Location: filepath.FromSlash("/tls/node-2.pem"), Type: StorePEM},
			Store{Location: filepath.FromSlash("/tls/ca.pem"), Type: StorePEM},
		},
		{
			"stores", append(stores, "sslQuorum=true"),
			Store{Location: "k.p12", Type: StorePKCS12, Password: NewSecret("s")},
			Store{Location: "t.jks", Type: StoreJKS},
		},
		{
			"a folder before stores", append(stores, "sslQuorum=true", "zkd.peerTLSDir=tls"),
			Store{Location: filepath.FromSlash("tls/node-2.pem"), Type: StorePEM},
			Store{Location: filepath.FromSlash("tls/ca.pem"), Type: StorePEM},
		},
	} {
		for _, reload := range []bool{true, false} {
			lines := append(slices.Clone(cluster), test.lines...)
			if !reload {
				lines = append(lines, "sslQuorumReloadCertFiles=false")
			}
			c, _ := mustLoad(t, node("2", lines...))
			got, on := c.Cluster.PeerTLS()
			if !on || got.KeyStore != test.key || got.TrustStore != test.trust || got.Reload != reload {
				t.Errorf("%s: got %+v, %v", test.name, got, on)
			}
			if got.ClientAuth != ClientAuthNeed || got.MinVersion != tls.VersionTLS13 || got.MaxVersion != 0 || got.CipherSuites != nil {
				t.Errorf("%s: a side may be weaker: %+v", test.name, got)
			}
		}
	}
	c, _ := mustLoad(t, node("2", append(cluster, append(stores, "zkd.peerInsecure=true")...)...))
	if got, on := c.Cluster.PeerTLS(); on {
		t.Errorf("without sslQuorum: got %+v", got)
	}
}

func TestQuorumKeysWithoutEffectAreNamed(t *testing.T) {
	base := []string{
		"clientPort=2181", "server.1=a:1:2", "server.2=b:1:2", "server.3=c:1:2",
		"sslQuorum=true", "ssl.quorum.keyStore.location=k.pem", "ssl.quorum.trustStore.location=t.pem",
	}
	for _, test := range []struct {
		lines []string
		want  string // keys
	}{
		{nil, ""},
		{[]string{
			"ssl.quorum.clientAuth=need", "ssl.quorum.protocol=TLSv1.3", "ssl.quorum.enabledProtocols=TLSv1.2,TLSv1.3",
			"ssl.quorum.hostnameVerification=FALSE", "ssl.quorum.allowReverseDnsLookup=false", "ssl.quorum.ciphersuites=",
		}, ""},
		{[]string{
			"ssl.quorum.clientAuth=want", "ssl.quorum.protocol=TLSv1.2", "ssl.quorum.enabledProtocols=TLSv1.2",
			"ssl.quorum.hostnameVerification=true", "ssl.quorum.ciphersuites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
		}, "ssl.quorum.clientAuth, ssl.quorum.protocol, ssl.quorum.enabledProtocols, ssl.quorum.ciphersuites, ssl.quorum.hostnameVerification"},
	} {
		_, warnings := mustLoad(t, node("1", append(slices.Clone(base), test.lines...)...))
		got := ""
		for _, w := range warnings {
			_, keys, _ := strings.Cut(w.String(), "not used there: ")
			got += keys
		}
		if got != test.want || (len(warnings) > 0) != (test.want != "") {
			t.Errorf("%v: got %v, want %q", test.lines, warnings, test.want)
		}
	}
	_, warnings := mustLoad(t, node("1", append(base, "ssl.quorum.clientAuth=want", "zkd.peerTLSDir=/tls")...))
	if len(warnings) != 0 {
		t.Errorf("with a folder the stores are none of the peer port's business: %v", warnings)
	}
}

func TestPortUnificationOfPeersIsNoMeaning(t *testing.T) {
	for _, test := range []struct {
		line string
		want int
	}{{"portUnification=true", 1}, {"portUnification=false", 0}} {
		if _, warnings := mustLoad(t, zooCfg(test.line)); len(warnings) != test.want {
			t.Errorf("%s: got %v", test.line, warnings)
		}
	}
}
