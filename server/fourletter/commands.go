package fourletter

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/zkd-project/zkd/internal/version"
	"github.com/zkd-project/zkd/server/stats"
)

// notServing is the answer of most words while a server looks for a leader.
const notServing = "This ZooKeeper instance is not currently serving requests"

// Commands answers four-letter words for one server. The fields are set once; Run may then
// be called by any number of goroutines.
type Commands struct {
	Source  Source
	Stats   *stats.Server
	Allowed Whitelist
	// Version is the version line of srvr, stat, mntr and envi; "" stands for this binary's.
	Version string
	// Location is the time zone of dump; nil stands for the local one.
	Location *time.Location
}

// Run executes a word and writes its answer to w. extra is what followed the word (only the
// first ExtraBytes of it matter). The error is the first of w's, or says what is wrong with
// the word; either way the connection is to be closed, as it is after an answer.
func (c *Commands) Run(w io.Writer, word string, extra []byte) error {
	run, ok := commands[word]
	if !ok {
		return fmt.Errorf("%q is not a four-letter word; ask Is first", word)
	}
	t := newText(w)
	switch {
	case !c.Allowed.Allows(word):
		t.line(word, " is not executed because it is not in the whitelist.")
	case run.idle == nil:
		if err := run.always(c, t, extra); err != nil {
			return err
		}
	case c.Source.Serving():
		run.serving(c, t)
	default:
		run.idle(t)
	}
	return t.flush()
}

// A command is what a word does: always the same, or one thing while the server serves and
// another while it does not.
type command struct {
	always  func(c *Commands, t *text, extra []byte) error
	serving func(c *Commands, t *text)
	idle    func(t *text)
}

var commands = map[string]command{
	"ruok": {always: func(_ *Commands, t *text, _ []byte) error { t.str("imok"); return nil }},
	"envi": {always: func(c *Commands, t *text, _ []byte) error { c.environment(t); return nil }},
	"gtmk": {always: func(c *Commands, t *text, _ []byte) error { t.str(dec(c.Source.TraceMask())); return nil }},
	"stmk": {always: (*Commands).setTraceMask},

	"isro": {serving: (*Commands).isReadOnly, idle: func(t *text) { t.str("null") }},
	"hash": {serving: (*Commands).digests, idle: func(t *text) { t.str(notServing) }}, // no line end in ZooKeeper either
	"srvr": whenServing(func(c *Commands, t *text) { c.server(t, false) }),
	"stat": whenServing(func(c *Commands, t *text) { c.server(t, true) }),
	"mntr": whenServing((*Commands).monitor),
	"conf": whenServing((*Commands).config),
	"cons": whenServing((*Commands).connections),
	"dump": whenServing((*Commands).dump),
	"dirs": whenServing((*Commands).dirs),
	"wchs": whenServing((*Commands).watchSummary),
	"wchc": whenServing((*Commands).watchesBySession),
	"wchp": whenServing((*Commands).watchesByPath),
	"crst": whenServing(func(c *Commands, t *text) {
		c.Source.ResetConnections()
		t.line("Connection stats reset.")
	}),
	"srst": whenServing(func(c *Commands, t *text) {
		c.Stats.Reset()
		t.line("Server stats reset.")
	}),
}

func whenServing(f func(c *Commands, t *text)) command {
	return command{serving: f, idle: func(t *text) { t.line(notServing) }}
}

func (c *Commands) version() string {
	if c.Version != "" {
		return c.Version
	}
	return version.Get().Full()
}

func (c *Commands) setTraceMask(t *text, extra []byte) error {
	if len(extra) < traceMaskBytes {
		return fmt.Errorf("stmk came with %d bytes; send the mask as %d bytes in the same packet", len(extra), traceMaskBytes)
	}
	mask := int64(binary.BigEndian.Uint64(extra))
	c.Source.SetTraceMask(mask)
	t.str(dec(mask))
	return nil
}

func (c *Commands) isReadOnly(t *text) {
	if c.Source.Status().ReadOnly {
		t.str("ro")
		return
	}
	t.str("rw")
}

// server is srvr, and stat with the connections.
func (c *Commands) server(t *text, clients bool) {
	s := c.Source.Status()
	t.line("Zookeeper version: ", c.version())
	if s.ReadOnly {
		t.line("READ-ONLY mode; serving only read-only clients")
	}
	if clients {
		t.line("Clients:")
		c.eachConnection(t, true)
	}
	lat := c.Stats.Latency(stats.SinceReset)
	t.line("Latency min/avg/max: ", dec(lat.Min()), "/", stats.FormatFloat(lat.Avg()), "/", dec(lat.Max()))
	t.line("Received: ", dec(c.Stats.PacketsReceived(stats.SinceReset)))
	t.line("Sent: ", dec(c.Stats.PacketsSent(stats.SinceReset)))
	t.line("Connections: ", dec(s.Connections))
	t.line("Outstanding: ", dec(s.Outstanding))
	t.line("Zxid: ", hex(s.Zxid))
	t.line("Mode: ", s.Mode)
	t.line("Node count: ", dec(s.Nodes))
	if s.Mode == ModeLeader {
		last, smallest, largest := c.Stats.ProposalSizes.Values()
		t.line("Proposal sizes last/min/max: ", dec(last), "/", dec(smallest), "/", dec(largest))
	}
}

func (c *Commands) monitor(t *text) {
	s := c.Source.Status()
	put := func(key, value string) { t.line("zk_", key, "\t", value) }
	put("version", c.version())
	put("server_state", s.Mode)
	if s.PeerState != "" {
		put("peer_state", s.PeerState)
	}
	if s.Mode == ModeObserver {
		put("observer_master_id", dec(s.MasterID))
	}
	c.Stats.Registry().Monitor(put)
}

func (c *Commands) config(t *text) {
	f := c.Source.Config()
	dataBytes, logBytes := c.Source.DirSizes()
	put := func(key, value string) { t.line(key, "=", value) }
	put("clientPort", dec(f.ClientPort))
	put("secureClientPort", dec(f.SecureClientPort))
	put("dataDir", f.DataDir)
	put("dataDirSize", dec(dataBytes))
	put("dataLogDir", f.DataLogDir)
	put("dataLogSize", dec(logBytes))
	put("tickTime", dec(f.TickTimeMs))
	put("maxClientCnxns", dec(f.MaxClientCnxns))
	put("minSessionTimeout", dec(f.MinSessionTimeoutMs))
	put("maxSessionTimeout", dec(f.MaxSessionTimeoutMs))
	put("clientPortListenBacklog", dec(f.ClientPortBacklog))
	put("serverId", dec(f.ServerID))
	e := f.Ensemble
	if e == nil {
		return
	}
	peerType := "0"
	if e.Observer {
		peerType = "1"
	}
	put("initLimit", dec(e.InitLimit))
	put("syncLimit", dec(e.SyncLimit))
	put("electionAlg", dec(e.ElectionAlg))
	put("electionPort", dec(e.ElectionPort))
	put("quorumPort", dec(e.QuorumPort))
	put("peerType", peerType)
	if e.Membership != "" {
		t.line("membership: ")
		t.str(e.Membership)
	}
}

func (c *Commands) dirs(t *text) {
	dataBytes, logBytes := c.Source.DirSizes()
	t.line("datadir_size: ", dec(dataBytes))
	t.line("logdir_size: ", dec(logBytes))
}

func (c *Commands) digests(t *text) {
	for d := range c.Source.Digests() {
		// Java's long has a sign, and so has what scripts compare between servers.
		t.line(hex(d.Zxid)[2:], ": ", dec(int64(d.Digest)))
		if t.err != nil {
			return
		}
	}
}

func (c *Commands) environment(t *text) {
	t.line("Environment:")
	for _, e := range Environment(c.version()) {
		t.line(e.Key, "=", e.Value)
	}
}
