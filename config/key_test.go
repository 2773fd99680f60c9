package config

import (
	"slices"
	"strings"
	"testing"
)

func TestEveryKeyIsDescribed(t *testing.T) {
	for _, k := range Keys() {
		if k.Name == "" || k.Group == "" || k.Kind == "" || k.Status == "" || k.Doc == "" || !strings.HasSuffix(k.Doc, ".") {
			t.Errorf("%+v is incomplete", k)
		}
		if (k.Kind == KindEnum || k.Kind == KindInt) && k.Allowed == "" && k.Status != NoMeaning {
			t.Errorf("%s: what is allowed?", k.Name)
		}
		if strings.HasPrefix(k.Name, "zkd.") && k.Status == NoMeaning {
			t.Errorf("%s is ours and has no meaning", k.Name)
		}
	}
}

// TestDefaultsMayBeWritten: writing the documented default into the file changes nothing.
func TestDefaultsMayBeWritten(t *testing.T) {
	for _, k := range Keys() {
		if k.Default == "" || k.prefix != "" || k.Status == NoMeaning || k.Name == "sasl.serverconfig" {
			continue // the last wants a JAAS file
		}
		if got := problems(zooCfg(k.Name + "=" + k.Default)); got != "" {
			t.Errorf("%s=%s: %s", k.Name, k.Default, got)
		}
	}
}

// TestBadValuesStopTheStart: no key with a syntax takes a word that it does not know, and
// none is forgotten by those who read it later.
func TestBadValuesStopTheStart(t *testing.T) {
	for _, k := range Keys() {
		if k.Status == NoMeaning || !slices.Contains([]Kind{KindInt, KindBool, KindEnum, KindInterval, KindServer, KindAddress}, k.Kind) {
			continue
		}
		name := strings.TrimSuffix(k.Name, "N")
		if name != k.Name {
			name += "1"
		}
		got := problems(zooCfg(name + "=no such/word"))
		if !strings.Contains(got, "zoo.cfg:3: "+name+": ") || !strings.Contains(got, "allowed: ") {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestKeysAreKnownUnderAllNames(t *testing.T) {
	for _, test := range []struct{ written, name string }{
		{"tickTime", "tickTime"},
		{"zookeeper.tickTime", "tickTime"},
		{"zookeeper.fsync.warningthresholdms", "fsync.warningthresholdms"},
		{"nio.sessionlessCnxnTimeout", "zkd.handshakeTimeoutMs"},
		{"zookeeper.nio.sessionlessCnxnTimeout", "zkd.handshakeTimeoutMs"},
		{"zookeeper.server.3", "server.N"},
		{"authProvider.x509", "authProvider.N"},
		{"superUser", "superUser"},
		{"superUser.ops", "superUser.X"},
		{"server.realm", "server.realm"},
		{"java.security.auth.login.config", "java.security.auth.login.config"},
		{"TICKTIME", ""},
		{"server.", ""},
		{"zookeeper.", ""},
	} {
		k, known := Lookup(test.written)
		if k.Name != test.name || known != (test.name != "") {
			t.Errorf("%s: got %q, %v", test.written, k.Name, known)
		}
	}
}

func TestKeysWithoutMeaningAreOneWarning(t *testing.T) {
	_, warnings := mustLoad(t, zooCfg("forceSync=no", "flushDelay=banana", "electionAlg=3", "snapshot.trust.empty=true",
		"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory"))
	if len(warnings) != 1 || warnings[0].String() != "these keys have no meaning in zkd and are ignored: flushDelay, forceSync, snapshot.trust.empty" ||
		!slices.Equal(warnings[0].Keys, []string{"flushDelay", "forceSync", "snapshot.trust.empty"}) {
		t.Errorf("got %v", warnings)
	}
}

func TestNearestKey(t *testing.T) {
	candidates := []string{"tickTime", "initLimit", "syncLimit", "clientPort", "maxClientCnxns", "autopurge.purgeInterval", "server.N"}
	for _, test := range []struct{ name, want string }{
		{"ticktime", "tickTime"},
		{"tickTme", "tickTime"},
		{"tikcTime", "tickTime"},
		{"maxClientConnxns", "maxClientCnxns"},
		{"autoPurge.purgeIntervall", "autopurge.purgeInterval"},
		{"clientProt", "clientPort"},
		{"initlimits", "initLimit"},
		{"ab", ""},
		{"", ""},
		{"somethingElse", ""},
	} {
		if got := nearest(test.name, candidates); got != test.want {
			t.Errorf("%q: got %q, want %q", test.name, got, test.want)
		}
	}
}
