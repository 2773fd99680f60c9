package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/ensemble"
)

// The variables of ZooKeeper's official container image (github.com/31z4/zookeeper-docker), so
// that what starts that image starts zkd: the same folders, the same zoo.cfg, the same myid.
// It is a command and not a script, because the image has no shell.
//
// As there, a zoo.cfg that exists is used as it is, and so is a myid. Unlike there, the
// configuration is checked before anything is written, and a message names the variable that
// is wrong. A folder that cannot be written to, as in a container with a read-only root, is no
// obstacle: the file is a convenience for those who look into the container.

// envSettings are the variables with one key each. An empty def leaves the key to zkd: a purge
// after every snapshot, where the image says never.
var envSettings = []struct{ variable, key, def string }{
	{"ZOO_DATA_DIR", "dataDir", "/data"},
	{"ZOO_DATA_LOG_DIR", "dataLogDir", "/datalog"},
	{"ZOO_TICK_TIME", "tickTime", "2000"},
	{"ZOO_INIT_LIMIT", "initLimit", "5"},
	{"ZOO_SYNC_LIMIT", "syncLimit", "2"},
	{"ZOO_AUTOPURGE_SNAPRETAINCOUNT", "autopurge.snapRetainCount", "3"},
	{"ZOO_AUTOPURGE_PURGEINTERVAL", "autopurge.purgeInterval", ""},
	{"ZOO_MAX_CLIENT_CNXNS", "maxClientCnxns", "60"},
	{"ZOO_STANDALONE_ENABLED", "standaloneEnabled", "true"},
	{"ZOO_ADMINSERVER_ENABLED", "admin.enableServer", "true"},
	{"ZOO_4LW_COMMANDS_WHITELIST", "4lw.commands.whitelist", ""},
}

const (
	envConfDir = "ZOO_CONF_DIR"
	envMyID    = "ZOO_MY_ID"
	envServers = "ZOO_SERVERS"
	envExtra   = "ZOO_CFG_EXTRA"

	defaultConfDir = "/conf"
	defaultServers = "server.1=localhost:2888:3888;2181"
	// fromHostname as ZOO_MY_ID is for stateful sets, where all servers have the same
	// variables and differ in their names: zkd-0 is number 1.
	fromHostname = "hostname"
)

// envOther are variables with a meaning of their own, or with none here: logs go to standard
// error, and there is no Java.
var envOther = []string{
	envConfDir, envMyID, envServers, envExtra, "ZOO_LOG_DIR", "ZOO_LOG4J_PROP",
}

// A container is what the variables say. Build it with newContainer.
type container struct {
	confFile, myIDFile string
	lines              []envLine // of the zoo.cfg that the variables make
	myID               string
	notes              []string // for the log
}

// An envLine is a line of zoo.cfg and the variable that it comes from.
type envLine struct{ text, variable string }

// newContainer reads the variables; hostname is asked only where ZOO_MY_ID says so.
func newContainer(env []string, hostname func() (string, error)) (*container, error) {
	vars := map[string]string{}
	for _, pair := range env {
		name, text, _ := strings.Cut(pair, "=")
		vars[name] = strings.TrimSpace(text)
	}
	get := func(name, def string) string {
		if text := vars[name]; text != "" {
			return text
		}
		return def
	}
	c := &container{confFile: filepath.Join(get(envConfDir, defaultConfDir), "zoo.cfg")}
	c.javaFlags(vars)
	for _, s := range envSettings {
		if text := get(s.variable, s.def); text != "" {
			c.lines = append(c.lines, envLine{s.key + "=" + text, s.variable})
		}
		if s.key == "dataDir" {
			c.myIDFile = filepath.Join(get(s.variable, s.def), "myid")
		}
	}
	for _, name := range []string{envServers, envExtra} {
		def := ""
		if name == envServers {
			def = defaultServers
		}
		for _, word := range strings.Fields(get(name, def)) {
			c.lines = append(c.lines, envLine{word, name})
		}
	}
	c.ensureClientPort()
	c.unknown(vars)
	var err error
	if c.myID, err = number(get(envMyID, "1"), hostname); err != nil {
		return nil, err
	}
	return c, c.nameItself(hostname)
}

// nameItself replaces 0.0.0.0 in the server's own line, as older compose files have it. The first leader
// would ask the others where it is; here its name is known without asking.
func (c *container) nameItself(hostname func() (string, error)) error {
	own := "server." + c.myID + "="
	for i := range c.lines {
		line := &c.lines[i]
		rest, anywhere := strings.CutPrefix(line.text, own+"0.0.0.0:")
		if !anywhere || line.variable != envServers {
			continue
		}
		host, err := hostname()
		if err != nil {
			return fmt.Errorf("%s: 0.0.0.0 is no name by which others could find this server, and it has no other: %w", envServers, err)
		}
		line.text = own + host + ":" + rest
		c.lines = append(c.lines, envLine{"quorumListenOnAllIPs=true", envServers})
		c.notes = append(c.notes, envServers+": the others find this server by its host name "+host+", not by 0.0.0.0")
		return nil
	}
	return nil
}

// number is the text of myid.
func number(text string, hostname func() (string, error)) (string, error) {
	if text != fromHostname {
		return text, nil
	}
	host, err := hostname()
	if err != nil {
		return "", fmt.Errorf("%s=%s: %w", envMyID, fromHostname, err)
	}
	name, _, _ := strings.Cut(host, ".")
	ordinal, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	if err != nil || !strings.Contains(name, "-") {
		return "", fmt.Errorf("%s=%s needs a host name that ends in a number, as zkd-0 does; this one is %s", envMyID, fromHostname, host)
	}
	return strconv.Itoa(ordinal + 1), nil
}

// ensureClientPort adds the port that images of ZooKeeper 3.4 had, where the server lines name
// none yet.
func (c *container) ensureClientPort() {
	for _, l := range c.lines {
		key, text, _ := strings.Cut(l.text, "=")
		key = strings.TrimPrefix(key, "zookeeper.")
		if key == "clientPort" || key == "secureClientPort" || l.variable == envServers && strings.Contains(text, ";") {
			return
		}
	}
	c.lines = append(c.lines, envLine{"clientPort=2181", envServers})
}

// javaFlags takes the keys out of JVMFLAGS and SERVER_JVMFLAGS, which is where operators of
// the image put what is no line of zoo.cfg there: -Djute.maxbuffer=…, -Dzookeeper.….
func (c *container) javaFlags(vars map[string]string) {
	for _, name := range []string{"JVMFLAGS", "SERVER_JVMFLAGS"} {
		var ignored []string
		for _, flag := range strings.Fields(vars[name]) {
			property, isProperty := strings.CutPrefix(flag, "-D")
			key, _, _ := strings.Cut(property, "=")
			if _, known := config.Lookup(key); isProperty && known {
				c.lines = append(c.lines, envLine{property, name})
				continue
			}
			if isProperty { // the value may be a secret
				flag = "-D" + key
			}
			ignored = append(ignored, flag)
		}
		if len(ignored) > 0 {
			c.notes = append(c.notes, name+": there is no Java here, so these are ignored: "+strings.Join(ignored, " "))
		}
	}
}

// unknown notes variables that look meant, and do nothing.
func (c *container) unknown(vars map[string]string) {
	var names []string
	for name, text := range vars {
		known := slices.Contains(envOther, name) ||
			slices.ContainsFunc(envSettings, func(s struct{ variable, key, def string }) bool { return s.variable == name })
		// Kubernetes makes such variables for a service named zoo.
		link := strings.Contains(text, "://") || strings.Contains(name, "_SERVICE_") || strings.Contains(name, "_PORT_")
		if strings.HasPrefix(name, "ZOO_") && !known && !link {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		slices.Sort(names)
		c.notes = append(c.notes, "environment variables that have no meaning in zkd are ignored: "+strings.Join(names, ", "))
	}
}

// text is the zoo.cfg that the variables make.
func (c *container) text() string {
	var b strings.Builder
	for _, l := range c.lines {
		b.WriteString(l.text + "\n")
	}
	return b.String()
}

// sources reads files as they are, and in place of missing ones what the variables say.
func (c *container) sources(env []string) config.Sources {
	instead := map[string]string{c.confFile: c.text(), c.myIDFile: c.myID + "\n"}
	return config.Sources{
		File: c.confFile, Env: env,
		ReadFile: func(name string) ([]byte, error) {
			text, err := os.ReadFile(name)
			if made, ok := instead[name]; ok && errors.Is(err, fs.ErrNotExist) {
				return []byte(made), nil
			}
			return text, err
		},
	}
}

// load checks what the server will be started with. Messages about lines that no file has yet
// name the variable instead.
func (c *container) load(env []string) (*config.Config, error) {
	made := missing(c.confFile)
	cfg, _, err := config.Load(c.sources(env)) // serve tells the warnings
	if err == nil && missing(c.myIDFile) {
		err = c.checkMyID()
	}
	var bad *config.Error
	if !errors.As(err, &bad) {
		return cfg, err
	}
	for i := range bad.Problems {
		o := &bad.Problems[i].Origin
		switch {
		case o.File == c.confFile && made && o.Line > 0 && o.Line <= len(c.lines):
			*o = config.Origin{Name: "environment " + c.lines[o.Line-1].variable}
		case o.File == c.myIDFile && missing(c.myIDFile):
			*o = config.Origin{Name: "environment " + envMyID}
		}
	}
	return nil, bad
}

// checkMyID looks at a number that a server alone does not need: it is written into a file that
// counts from then on, whatever the variable says, and would keep the server out of every cluster.
func (c *container) checkMyID() error {
	if n, err := strconv.Atoi(c.myID); err == nil && n >= 1 && n <= ensemble.MaxID {
		return nil
	}
	return &config.Error{Problems: []config.Problem{{
		Origin: config.Origin{Name: "environment " + envMyID},
		Text:   fmt.Sprintf("%q is no number of a server; allowed: 1 to %d, or %s", c.myID, ensemble.MaxID, fromHostname),
	}}}
}

func missing(name string) bool {
	_, err := os.Stat(name)
	return errors.Is(err, fs.ErrNotExist)
}

// write puts the files where the image has them.
func (c *container) write() error {
	if missing(c.myIDFile) {
		if err := os.MkdirAll(filepath.Dir(c.myIDFile), 0o700); err != nil {
			return err
		}
		// A crash must not leave an empty file: it would be taken as it is, and stop every start.
		if err := vfs.WriteFileAtomic(vfs.OS, filepath.Dir(c.myIDFile), c.myIDFile, []byte(c.myID+"\n"), 0o600); err != nil {
			return err
		}
	} else if text, err := os.ReadFile(c.myIDFile); err == nil && strings.TrimSpace(string(text)) != c.myID {
		c.notes = append(c.notes, c.myIDFile+" says "+strings.TrimSpace(string(text))+", so "+envMyID+" does not count")
	}
	if !missing(c.confFile) {
		c.notes = append(c.notes, c.confFile+" exists, so of the variables ZOO_… only ZOO_MY_ID counts")
		return nil
	}
	if err := vfs.WriteFileAtomic(vfs.OS, filepath.Dir(c.confFile), c.confFile, []byte(c.text()), 0o600); err != nil {
		c.notes = append(c.notes, "the configuration is kept in memory: "+err.Error())
	}
	return nil
}

func entrypointCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "docker-entrypoint",
		Short: "Run a durable server as the environment variables of ZooKeeper's container image say",
		Long: `Run a durable server as the environment variables of ZooKeeper's container image say.

ZOO_MY_ID, ZOO_SERVERS, ZOO_TICK_TIME, ZOO_CFG_EXTRA and the others make a zoo.cfg in
ZOO_CONF_DIR (/conf), unless there is one, and a file myid in ZOO_DATA_DIR (/data), unless there
is one. ZOO_MY_ID=hostname takes the number from the end of the host name and adds one: zkd-0
is server 1. ZKD_ and the name of a key, as ZKD_LOG_FORMAT, sets any other key.`,
		Example: "  ZOO_MY_ID=1 ZOO_SERVERS='server.1=a:2888:3888;2181 server.2=b:2888:3888;2181 server.3=c:2888:3888;2181' zkd docker-entrypoint",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			env := os.Environ()
			c, err := newContainer(env, os.Hostname)
			if err != nil {
				return err
			}
			cfg, err := c.load(env)
			if err != nil {
				return err
			}
			if err := c.write(); err != nil {
				return err
			}
			log := newLogger(cfg)
			for _, n := range c.notes {
				log.Warn(n)
			}
			return serve(c.sources(env), false)
		},
	}
}
