package main

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/internal/freeport"
)

func noHostname() (string, error) { return "", errors.New("nobody may ask") }

func TestVariablesMakeTheImagesConfiguration(t *testing.T) {
	const three = "server.1=zoo1:2888:3888;2181 server.2=zoo2:2888:3888;2181 server.3=zoo3:2888:3888;2181"
	standard := []string{
		"dataDir=/data", "dataLogDir=/datalog", "tickTime=2000", "initLimit=5", "syncLimit=2",
		"autopurge.snapRetainCount=3", "maxClientCnxns=60", "standaloneEnabled=true", "admin.enableServer=true",
	}
	tests := []struct {
		name string
		env  []string
		want []string // after the standard lines
	}{
		{"none", nil, []string{"server.1=localhost:2888:3888;2181"}},
		{"empty ones", []string{"ZOO_SERVERS=", "ZOO_TICK_TIME=", "ZOO_CFG_EXTRA="}, []string{"server.1=localhost:2888:3888;2181"}},
		{
			"three servers",
			[]string{"ZOO_MY_ID=2", "ZOO_SERVERS=" + three},
			strings.Fields(three),
		},
		{
			"servers without a client port, as up to 3.4",
			[]string{"ZOO_SERVERS=server.1=a:2888:3888\nserver.2=b:2888:3888"},
			[]string{"server.1=a:2888:3888", "server.2=b:2888:3888", "clientPort=2181"},
		},
		{
			"extra lines",
			[]string{"ZOO_CFG_EXTRA=quorumListenOnAllIPs=true  secureClientPort=2281", "ZOO_SERVERS=server.1=a:2888:3888"},
			[]string{"server.1=a:2888:3888", "quorumListenOnAllIPs=true", "secureClientPort=2281"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := newContainer(tt.env, noHostname)
			require.NoError(t, err)
			require.Equal(t, append(standard[:len(standard):len(standard)], tt.want...), strings.Split(strings.TrimSpace(c.text()), "\n"))
			require.Empty(t, c.notes)
		})
	}
}

func TestEveryVariableReachesItsKey(t *testing.T) {
	dir := t.TempDir()
	env := []string{
		"ZOO_CONF_DIR=" + filepath.Join(dir, "conf"), "ZOO_DATA_DIR=" + filepath.Join(dir, "data"), "ZOO_DATA_LOG_DIR=" + filepath.Join(dir, "log"),
		"ZOO_TICK_TIME=1000", "ZOO_INIT_LIMIT=11", "ZOO_SYNC_LIMIT=7", "ZOO_AUTOPURGE_SNAPRETAINCOUNT=5", "ZOO_AUTOPURGE_PURGEINTERVAL=2",
		"ZOO_MAX_CLIENT_CNXNS=9", "ZOO_STANDALONE_ENABLED=false", "ZOO_ADMINSERVER_ENABLED=false", "ZOO_4LW_COMMANDS_WHITELIST=mntr, ruok",
		"ZOO_CFG_EXTRA=enforceQuota=true", "JVMFLAGS=-Xmx1g -Djute.maxbuffer=2000000 -Dzookeeper.readonlymode.enabled=true",
		"ZKD_LOG_FORMAT=json", "ZOO_MY_ID=1",
	}
	c, err := newContainer(env, noHostname)
	require.NoError(t, err)
	require.Equal(t, []string{"JVMFLAGS: there is no Java here, so these are ignored: -Xmx1g"}, c.notes)
	cfg, err := c.load(env)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "data"), cfg.DataDir)
	require.Equal(t, filepath.Join(dir, "log"), cfg.DataLogDir)
	require.EqualValues(t, 1000, cfg.TickTimeMs)
	require.Equal(t, []int{11, 7, 5, 9}, []int{cfg.InitLimit, cfg.SyncLimit, cfg.SnapRetainCount, cfg.MaxClientCnxns})
	require.EqualValues(t, 2*3600*1000, cfg.PurgeIntervalMs)
	require.True(t, cfg.Cluster.Ensemble)
	require.False(t, cfg.Admin.Enabled)
	require.Equal(t, []string{"isro", "mntr", "ruok", "srvr"}, cfg.FourLetterWords)
	require.True(t, cfg.EnforceQuota)
	require.True(t, cfg.ReadOnlyMode)
	require.Equal(t, 2000000, cfg.JuteMaxBuffer)
	require.Equal(t, "json", cfg.LogFormat)
	require.Equal(t, 2181, cfg.ClientPort)
}

func TestNumberFromTheHostname(t *testing.T) {
	for _, tt := range []struct{ host, want, err string }{
		{"zkd-0", "1", ""},
		{"my-zkd-12.zkd-headless.prod.svc.cluster.local", "13", ""},
		{"zkd0", "", "needs a host name that ends in a number"},
		{"7", "", "needs a host name that ends in a number"},
		{"zkd-", "", "needs a host name that ends in a number"},
	} {
		c, err := newContainer([]string{"ZOO_MY_ID=hostname"}, func() (string, error) { return tt.host, nil })
		if tt.err != "" {
			require.ErrorContains(t, err, tt.err, tt.host)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, tt.want, c.myID)
	}
	_, err := newContainer([]string{"ZOO_MY_ID=hostname"}, noHostname)
	require.ErrorContains(t, err, "nobody may ask")
}

// Older compose files say 0.0.0.0 in the line of the server itself.
func TestServerIsNotFoundByAnAddressThatIsNone(t *testing.T) {
	env := []string{"ZOO_MY_ID=2", "ZOO_SERVERS=server.1=zoo1:2888:3888;2181 server.2=0.0.0.0:2888:3888;2181"}
	c, err := newContainer(env, func() (string, error) { return "zoo2", nil })
	require.NoError(t, err)
	require.Contains(t, c.text(), "\nserver.2=zoo2:2888:3888;2181\nquorumListenOnAllIPs=true\n")
	require.Len(t, c.notes, 1)
	_, err = newContainer(env, noHostname)
	require.ErrorContains(t, err, "nobody may ask")
}

func TestMessagesNameTheVariable(t *testing.T) {
	dir := t.TempDir()
	where := []string{"ZOO_CONF_DIR=" + dir, "ZOO_DATA_DIR=" + dir, "ZOO_DATA_LOG_DIR=" + dir}
	for _, tt := range []struct{ set, want string }{
		{"ZOO_TICK_TIME=soon", `environment ZOO_TICK_TIME: tickTime: "soon" is not a number`},
		{"ZOO_SERVERS=server.1=a", "environment ZOO_SERVERS: server.1: "},
		{"ZOO_CFG_EXTRA=zkd.logFomat=json", "environment ZOO_CFG_EXTRA: zkd.logFomat: unknown key of zkd"},
		{"ZOO_MY_ID=one", "environment ZOO_MY_ID: "},
		{"ZOO_MY_ID=256 ZOO_STANDALONE_ENABLED=true", `environment ZOO_MY_ID: "256" is no number of a server`},
		{"JVMFLAGS=-Djute.maxbuffer=big", "environment JVMFLAGS: jute.maxbuffer: "},
	} {
		env := append(append(where[:len(where):len(where)], "ZOO_STANDALONE_ENABLED=false"), strings.Fields(tt.set)...)
		c, err := newContainer(env, noHostname)
		require.NoError(t, err)
		_, err = c.load(env)
		require.ErrorContains(t, err, tt.want)
		var bad *config.Error
		require.ErrorAs(t, err, &bad)
	}
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, list, "something was written before the configuration was known to be right")
}

func TestVariablesWithoutMeaningAreNamed(t *testing.T) {
	c, err := newContainer([]string{
		"ZOO_TICKTIME=2000", "ZOO_PORT=2181", "ZOO_LOG4J_PROP=INFO,CONSOLE", "PATH=/bin", "JVMFLAGS=-Dmy.password=secret -server",
		"ZOO_SERVICE_HOST=10.0.0.1", "ZOO_PORT_2181_TCP=tcp://10.0.0.1:2181",
	}, noHostname)
	require.NoError(t, err)
	require.Equal(t, []string{
		"JVMFLAGS: there is no Java here, so these are ignored: -Dmy.password -server",
		"environment variables that have no meaning in zkd are ignored: ZOO_PORT, ZOO_TICKTIME",
	}, c.notes)
}

func TestFilesThatAreThereAreKept(t *testing.T) {
	dir := t.TempDir()
	cfg, myid := filepath.Join(dir, "zoo.cfg"), filepath.Join(dir, "myid")
	require.NoError(t, os.WriteFile(cfg, []byte("dataDir="+dir+"\nclientPort=2182\n"), 0o600))
	require.NoError(t, os.WriteFile(myid, []byte("3\n"), 0o600))
	env := []string{"ZOO_CONF_DIR=" + dir, "ZOO_DATA_DIR=" + dir, "ZOO_MY_ID=1", "ZOO_TICK_TIME=nonsense"}
	c, err := newContainer(env, noHostname)
	require.NoError(t, err)
	loaded, err := c.load(env)
	require.NoError(t, err)
	require.Equal(t, 2182, loaded.ClientPort)
	require.Equal(t, 3, loaded.Cluster.ServerID)
	require.NoError(t, c.write())
	require.Len(t, c.notes, 2)
	text, err := os.ReadFile(myid)
	require.NoError(t, err)
	require.Equal(t, "3\n", string(text))
}

// startEntrypoint runs the entrypoint with the variables and returns when it is ready.
func startEntrypoint(t *testing.T, env []string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(zkdBinary, "docker-entrypoint")}
	p.cmd.Env = env
	p.run()
	return p
}

func TestEntrypointServesAndIsHealthy(t *testing.T) {
	dir, client, adminAddr := t.TempDir(), freeport.Addr(t), freeport.Addr(t)
	conf := filepath.Join(dir, "conf")
	require.NoError(t, os.Mkdir(conf, 0o700))
	_, adminPort, err := net.SplitHostPort(adminAddr)
	require.NoError(t, err)
	env := []string{
		"ZOO_CONF_DIR=" + conf, "ZOO_DATA_DIR=" + filepath.Join(dir, "data"), "ZOO_DATA_LOG_DIR=" + filepath.Join(dir, "log"),
		"ZOO_SERVERS=server.7=localhost:2888:3888;" + client, "ZOO_MY_ID=7", "ZOO_CFG_EXTRA=admin.serverPort=" + adminPort,
	}
	check := func(more ...string) (string, error) {
		c := exec.Command(zkdBinary, append([]string{"healthcheck"}, more...)...)
		c.Env = env
		out, err := c.CombinedOutput()
		return string(out), err
	}
	out, err := check()
	require.Error(t, err, "healthy before it runs: %s", out)
	require.Equal(t, 1, strings.Count(strings.TrimSpace(out), "zkd:"), out)

	p := startEntrypoint(t, env)
	connect(t, client)
	for _, more := range [][]string{nil, {"--live"}, {"--config", filepath.Join(conf, "zoo.cfg")}} {
		out, err = check(more...)
		require.NoError(t, err, "%v: %s", more, out)
	}
	env = append(env, "ZKD_ADMIN_ENABLE_SERVER=false") // asks the client port
	out, err = check()
	require.NoError(t, err, out)
	text, err := os.ReadFile(filepath.Join(dir, "data", "myid"))
	require.NoError(t, err)
	require.Equal(t, "7\n", string(text))
	require.NoError(t, p.stop(syscall.SIGTERM))
}

// A server that answers, and does not serve, is alive and not ready.
func TestHealthTellsAliveFromReady(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			http.Error(w, "not serving: there is no leader", http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n")
	}))
	defer web.Close()
	words := answering(t, "This ZooKeeper instance is not currently serving requests\n")
	port := func(a net.Addr) int { return a.(*net.TCPAddr).Port }
	withAdmin := &config.Config{Admin: config.Admin{Enabled: true, Port: port(web.Listener.Addr())}}
	wordsOnly := &config.Config{ClientPort: port(words)}
	for _, cfg := range []*config.Config{withAdmin, wordsOnly} {
		require.NoError(t, health(t.Context(), cfg, true))
		require.ErrorContains(t, health(t.Context(), cfg, false), "not ")
	}
	readOnly := &config.Config{ClientPort: port(answering(t, "Zookeeper version: 3.9.5\nMode: read-only\nNode count: 5\n"))}
	require.NoError(t, health(t.Context(), readOnly, true))
	require.ErrorContains(t, health(t.Context(), readOnly, false), "no leader")
	require.Error(t, health(t.Context(), &config.Config{}, true))
}

// answering is a port that says this to everybody.
func answering(t *testing.T, text string) net.Addr {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.ReadFull(c, make([]byte, 4))
			_, _ = io.WriteString(c, text)
			_ = c.Close()
		}
	}()
	return l.Addr()
}

// A server goes on without its admin port if that is taken: what another program answers there says
// nothing about it.
func TestHealthIsNotThatOfAnotherProgram(t *testing.T) {
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "not serving: it is another server", http.StatusServiceUnavailable)
	}))
	defer down.Close()
	port := func(a net.Addr) int { return a.(*net.TCPAddr).Port }
	serves := port(answering(t, "Zookeeper version: 3.9.5\nMode: leader\nNode count: 5\n"))
	silent, ready := port(answering(t, "")), httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok\n")
	}))
	defer ready.Close()
	for _, admin := range []net.Addr{other.Listener.Addr(), down.Listener.Addr()} {
		cfg := &config.Config{ClientPort: serves, Admin: config.Admin{Enabled: true, Port: port(admin)}}
		require.NoError(t, health(t.Context(), cfg, false))
		cfg.ClientPort = -1
		require.Error(t, health(t.Context(), cfg, false))
	}
	tooMany := &config.Config{ClientPort: silent, Admin: config.Admin{Enabled: true, Port: port(ready.Listener.Addr())}}
	require.NoError(t, health(t.Context(), tooMany, false), "the admin server is asked then")
	tooMany.Admin.Port = port(other.Listener.Addr())
	err := health(t.Context(), tooMany, false)
	require.ErrorContains(t, err, "does not answer")
	require.ErrorContains(t, err, "another program")
	require.NotContains(t, err.Error(), "\n")
}
