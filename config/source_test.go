package config

import (
	"os"
	"strings"
	"testing"
)

// files is a Sources.ReadFile over a map.
type files map[string]string

func (f files) read(name string) ([]byte, error) {
	if text, ok := f[name]; ok {
		return []byte(text), nil
	}
	return nil, &os.PathError{Op: "open", Path: name, Err: os.ErrNotExist}
}

func mustLoad(t *testing.T, src Sources) (*Config, []Warning) {
	t.Helper()
	if src.ReadFile == nil {
		src.ReadFile = files{}.read
	}
	c, warnings, err := Load(src)
	if err != nil {
		t.Fatal(err)
	}
	return c, warnings
}

// zooCfg loads one file made of lines, with a folder that does not exist.
func zooCfg(lines ...string) Sources {
	text := "dataDir=/none\nclientPort=2181\n" + strings.Join(lines, "\n")
	return Sources{File: "zoo.cfg", ReadFile: files{"zoo.cfg": text}.read}
}

func TestNoSourcesMakeADurableNodeOnLoopback(t *testing.T) {
	c, warnings := mustLoad(t, Sources{})
	if c.ClientPort != 2181 || c.ClientPortAddress != "127.0.0.1" || c.DataDir != "./zkd-data" || c.TickTimeMs != 2000 ||
		c.InMemory || c.Cluster.ServerID != 1 || c.Cluster.Ensemble || c.SecureClientPort != -1 {
		t.Errorf("got %+v", c)
	}
	if len(warnings) != 0 {
		t.Errorf("warnings: %v", warnings)
	}
}

func TestInMemoryNeedsNoFolder(t *testing.T) {
	c, warnings := mustLoad(t, Sources{
		InMemory: true, File: "zoo.cfg",
		ReadFile: files{"zoo.cfg": "clientPort=2182"}.read,
	})
	if !c.InMemory || c.DataDir != "" || c.DataLogDir != "" || c.ClientPort != 2182 || len(warnings) != 0 {
		t.Errorf("got %+v, warnings %v", c, warnings)
	}
}

func TestFlagsBeatEnvironmentBeatsFileBeatsDefault(t *testing.T) {
	for _, test := range []struct {
		file, env, flag string
		want            int32
		origin          string
	}{
		{"", "", "", 3000, ""},
		{"1000", "", "", 1000, "zoo.cfg:3"},
		{"1000", "1100", "", 1100, "environment ZKD_TICK_TIME"},
		{"1000", "1100", "1200", 1200, "flag --tick-time"},
		{"1000", "", "1200", 1200, "flag --tick-time"},
		{"", "1100", "1200", 1200, "flag --tick-time"},
		{"bad", "", "1200", 1200, "flag --tick-time"}, // a value that is not in force is not judged
	} {
		src := zooCfg()
		if test.file != "" {
			src = zooCfg("tickTime=" + test.file)
		}
		if test.env != "" {
			src.Env = []string{"PATH=/bin", "ZKD_TICK_TIME=" + test.env}
		}
		if test.flag != "" {
			src.Overrides = []Override{{"tickTime", "900", "flag --tick-time"}, {"tickTime", test.flag, "flag --tick-time"}}
		}
		c, warnings := mustLoad(t, src)
		if c.TickTimeMs != test.want || len(warnings) != 0 {
			t.Errorf("%+v: got %d, warnings %v", test, c.TickTimeMs, warnings)
		}
		for _, s := range c.Settings {
			if s.Name == "tickTime" && s.Origin.String() != test.origin {
				t.Errorf("%+v: origin is %s", test, s.Origin)
			}
		}
	}
}

func TestEnvironmentNames(t *testing.T) {
	for _, test := range []struct{ pair, name, value string }{
		{"ZKD_TICKTIME=1", "tickTime", "1"},
		{"ZKD_TICK_TIME=1", "tickTime", "1"},
		{"ZKD_TICK_TIME= 1 ", "tickTime", "1"},
		{"ZKD_LOG_LEVEL=debug", "zkd.logLevel", "debug"},
		{"ZKD_4LW_COMMANDS_WHITELIST=*", "4lw.commands.whitelist", "*"},
		{"ZKD_JUTE_MAXBUFFER=0x1fffff", "jute.maxbuffer", "0x1fffff"},
		{"ZKD_NIO_SESSIONLESS_CNXN_TIMEOUT=5", "zkd.handshakeTimeoutMs", "5"},
		{"ZKD_SERVER_12=h:1:2", "server.12", "h:1:2"},
		{"ZKD_AUTH_PROVIDER_1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider", "authProvider.1", "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"},
		{"ZKD_SUPER_USER_A=x", "superUser.a", "x"},
		{"ZKD_SSL_KEY_STORE_PASSWORD=x", "ssl.keyStore.password", "***"},
	} {
		c, warnings := mustLoad(t, Sources{Env: []string{test.pair}})
		if len(c.Settings) != 1 || c.Settings[0].Name != test.name || c.Settings[0].Value != test.value || len(warnings) != 0 {
			t.Errorf("%s: got %v, warnings %v", test.pair, c.Settings, warnings)
		}
	}
}

func TestEveryKeyHasAnEnvironmentVariableOfItsOwn(t *testing.T) {
	seen := map[string]string{}
	for _, k := range Keys() {
		for _, name := range append([]string{k.Name}, k.Aliases...) {
			s := squeeze(name)
			if other, taken := seen[s]; taken && other != k.Name { // one key may be spelled in two ways
				t.Errorf("%s and %s are both %s", other, name, s)
			}
			seen[s] = k.Name
		}
		if k.prefix == "" && squeeze(strings.TrimPrefix(k.Env, envPrefix)) != squeeze(k.Name) {
			t.Errorf("%s: %s does not lead back to it", k.Name, k.Env)
		}
	}
}

func TestOddEnvironment(t *testing.T) {
	for _, test := range []struct {
		env  []string
		want string // the warning
	}{
		{[]string{"ZKD_SERVICE_HOST=10.0.0.1", "ZKD_SERVICE_PORT=2181", "ZKD_PORT=tcp://10.0.0.1:2181", "ZKD_PORT_2181_TCP_ADDR=10.0.0.1"}, ""},
		{[]string{"ZKD_CLIENT_PORT=tcp://10.0.0.1:2181"}, "ZKD_CLIENT_PORT is ignored: it looks like a link to a Kubernetes service, not like a value of clientPort"},
		{[]string{"ZKD_TICKS=1", "ZKD_ADMIN_SERVRPORT=1"}, "environment variables that name no key are ignored: ZKD_ADMIN_SERVRPORT, ZKD_TICKS"},
		{[]string{"ZKD_TICK_TIME=1000", "ZKD_TICKTIME=1000"}, "environment ZKD_TICK_TIME: tickTime: set by environment ZKD_TICKTIME as well; this one counts"},
	} {
		_, warnings := mustLoad(t, Sources{Env: test.env})
		got := ""
		for _, w := range warnings {
			got += w.String()
		}
		if got != test.want {
			t.Errorf("%v: got %q, want %q", test.env, got, test.want)
		}
	}
}

// problems loads and returns the error as text, "" without one.
func problems(src Sources) string {
	if _, _, err := Load(src); err != nil {
		return err.Error()
	}
	return ""
}

func TestBadFlagsAndVariablesAreNamed(t *testing.T) {
	src := zooCfg()
	src.Env = []string{"ZKD_SYNC_LIMIT=0"}
	src.Overrides = []Override{{"clientPort", "x", "flag --client-port"}, {"tikTime", "1", "flag --set"}}
	want := "flag --set: tikTime: unknown key; did you mean tickTime?\n" +
		`flag --client-port: clientPort: "x" is not a number; allowed: a whole number, -1 to 65535` + "\n" +
		"environment ZKD_SYNC_LIMIT: syncLimit: 0 is out of range; allowed: a whole number, 1 or more"
	if got := problems(src); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestMissingFile(t *testing.T) {
	if got := problems(Sources{File: "none.cfg"}); got != "none.cfg: cannot be read: no such file or directory" {
		t.Errorf("got %q", got)
	}
}
