package admin

import (
	"io"
	"net/url"
	"slices"
	"strconv"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/internal/version"
	"github.com/zkd-project/zkd/server/fourletter"
	"github.com/zkd-project/zkd/server/stats"
)

// notServing is the error of most commands while a server looks for a leader.
const notServing = "This ZooKeeper instance is not currently serving requests"

// commands answers for one server. All fields are immutable.
type commands struct {
	source  Source
	stats   *stats.Server
	config  *config.Config
	version string // as srvr shows it
}

func newCommands(o Options) *commands {
	return &commands{source: o.Source, stats: o.Stats, config: o.Config, version: version.Get().Full()}
}

// A command is one name below the command URL.
type command struct {
	name    string
	aliases []string
	serving bool // it needs a server that serves
	changes bool // it changes something
	run     func(c *commands, q url.Values, o *object)
}

// table has the commands in the order of their names.
var table = []command{
	{"configuration", []string{"conf", "config"}, true, false, (*commands).configuration},
	{"connection_stat_reset", []string{"crst"}, true, true, func(c *commands, _ url.Values, _ *object) { c.source.ResetConnections() }},
	{"connections", []string{"cons"}, true, false, func(c *commands, _ url.Values, o *object) { c.connections(o, false) }},
	{"dirs", nil, true, false, (*commands).dirs},
	{"dump", nil, true, false, (*commands).dump},
	{"environment", []string{"env", "envi"}, false, false, (*commands).environment},
	{"get_trace_mask", []string{"gtmk"}, false, false, func(c *commands, _ url.Values, o *object) { integer(o, "tracemask", c.source.TraceMask()) }},
	{"hash", nil, true, false, (*commands).digests},
	{"initial_configuration", []string{"icfg"}, true, false, func(c *commands, _ url.Values, o *object) { o.str("initial_configuration", c.config.InitialConfig) }},
	{"is_read_only", []string{"isro"}, true, false, func(c *commands, _ url.Values, o *object) { o.boolean("read_only", c.source.Status().ReadOnly) }},
	{"last_snapshot", []string{"lsnp"}, true, false, (*commands).lastSnapshot},
	{"leader", []string{"lead"}, true, false, (*commands).leader},
	{"monitor", []string{"mntr"}, false, false, (*commands).monitor},
	{"observer_connection_stat_reset", []string{"orst"}, true, true, func(c *commands, _ url.Values, _ *object) { c.source.ResetObservers() }},
	{"observers", []string{"obsr"}, true, false, (*commands).observers},
	{"ruok", nil, true, false, func(*commands, url.Values, *object) {}},
	{"server_stats", []string{"srvr"}, true, false, func(c *commands, _ url.Values, o *object) { c.serverStats(o) }},
	{"set_trace_mask", []string{"stmk"}, false, true, (*commands).setTraceMask},
	{"stat_reset", []string{"srst"}, true, true, func(c *commands, _ url.Values, _ *object) { c.stats.Reset() }},
	{"stats", []string{"stat"}, true, false, func(c *commands, _ url.Values, o *object) {
		c.serverStats(o)
		c.connections(o, true)
	}},
	{"system_properties", []string{"sysp"}, false, false, (*commands).systemProperties},
	{"voting_view", nil, true, false, (*commands).votingView},
	{"watch_summary", []string{"wchs"}, true, false, (*commands).watchSummary},
	{"watches", []string{"wchc"}, true, false, (*commands).watchesBySession},
	{"watches_by_path", []string{"wchp"}, true, false, (*commands).watchesByPath},
	{"zabstate", nil, false, false, (*commands).zabState},
}

// find returns the command with a name or alias, nil if there is none.
func find(name string) *command {
	for i := range table {
		if c := &table[i]; c.name == name || slices.Contains(c.aliases, name) {
			return c
		}
	}
	return nil
}

// answer runs a command, nil for an unknown one, and writes what it says to w. As in
// ZooKeeper everything is an answer: what went wrong stands in the field error.
func (c *commands) answer(w io.Writer, name string, cmd *command, q url.Values) error {
	o := newObject(w)
	problem := ""
	switch {
	case cmd == nil:
		problem = "Unknown command: " + name
	case cmd.serving && !c.source.Serving():
		name, problem = cmd.name, notServing
	default:
		name = cmd.name
		cmd.run(c, q, o)
	}
	o.str("command", name)
	switch {
	case problem != "":
		o.str("error", problem)
	case !o.failed:
		o.null("error")
	}
	return o.finish()
}

func (c *commands) configuration(_ url.Values, o *object) {
	f := c.source.Config()
	integer(o, "client_port", f.ClientPort)
	o.str("data_dir", f.DataDir)
	o.str("data_log_dir", f.DataLogDir)
	integer(o, "tick_time", f.TickTimeMs)
	integer(o, "max_client_cnxns", f.MaxClientCnxns)
	integer(o, "min_session_timeout", f.MinSessionTimeoutMs)
	integer(o, "max_session_timeout", f.MaxSessionTimeoutMs)
	integer(o, "server_id", f.ServerID)
	integer(o, "client_port_listen_backlog", f.ClientPortBacklog)
}

func (c *commands) dirs(_ url.Values, o *object) {
	dataBytes, logBytes := c.source.DirSizes()
	integer(o, "datadir_size", dataBytes)
	integer(o, "logdir_size", logBytes)
}

func (c *commands) environment(_ url.Values, o *object) {
	for _, e := range fourletter.Environment(c.version) {
		o.str(e.Key, e.Value)
	}
}

// systemProperties shows under zookeeper.NAME what somebody has set: in ZooKeeper, too, an
// unknown key of zoo.cfg becomes a property of that name.
func (c *commands) systemProperties(_ url.Values, o *object) {
	all := fourletter.Environment(c.version)
	for _, s := range c.config.Settings {
		all = append(all, fourletter.Pair{Key: "zookeeper." + s.Name, Value: s.Value})
	}
	slices.SortStableFunc(all, func(a, b fourletter.Pair) int { return compareText(a.Key, b.Key) })
	for _, p := range all {
		o.str(p.Key, p.Value)
	}
}

// digestVersion is the version of ZooKeeper's digest that this server computes.
const digestVersion = 2

func (c *commands) digests(_ url.Values, o *object) {
	o.list("digests", func(element func(func()) bool) {
		for d := range c.source.Digests() {
			more := element(func() {
				integer(o, "zxid", d.Zxid)
				integer(o, "digest_version", digestVersion)
				integer(o, "digest", int64(d.Digest)) // Java's long has a sign
			})
			if !more {
				return
			}
		}
	})
}

func (c *commands) lastSnapshot(_ url.Values, o *object) {
	zxid, at, ok := c.source.LastSnapshot()
	seconds := at.Unix()
	if !ok {
		zxid, seconds = -1, -1
	}
	o.str("zxid", hex(zxid))
	integer(o, "timestamp", seconds)
}

func (c *commands) monitor(_ url.Values, o *object) {
	s := c.source.Status()
	o.str("version", c.version)
	o.str("server_state", s.Mode)
	if s.PeerState != "" {
		o.str("peer_state", s.PeerState)
	}
	if s.Mode == fourletter.ModeObserver {
		integer(o, "observer_master_id", s.MasterID)
	}
	c.stats.Registry().Monitor(o.number)
}

func (c *commands) setTraceMask(q url.Values, o *object) {
	text := q.Get("traceMask")
	if text == "" {
		o.fail("setTraceMask requires long traceMask argument")
		return
	}
	mask, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		o.fail("setTraceMask requires long traceMask argument, got " + text)
		return
	}
	c.source.SetTraceMask(mask)
	integer(o, "tracemask", mask)
}

// hex is a number as Long.toHexString prints it.
func hex(n int64) string { return strconv.FormatUint(uint64(n), 16) }
