package interop

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// forEachEnsemble runs body as one subtest per kind of ensemble under test, with its three
// members running and nobody killing them.
func forEachEnsemble(t *testing.T, want settings, body func(*testing.T, *cluster)) {
	t.Helper()
	leaveOutOfShort(t)
	program := map[string]string{zookeeper: zookeeper, zkdCluster: zkd}
	for _, kind := range serversUnderTest(t) {
		if program[kind] != "" {
			t.Run(kind, func(t *testing.T) { body(t, startCluster(t, program[kind], want)) })
		}
	}
}

// TestEnsemble compares what the leader and a follower say of themselves with what those of
// an Apache ZooKeeper of three servers say: the four-letter words, the names in mntr, and
// /zookeeper/config.
func TestEnsemble(t *testing.T) {
	forEachEnsemble(t, settings{}, func(t *testing.T, c *cluster) {
		// Where the machine stands still for a moment the roles change: then it is asked again.
		choose := map[string]func() *server{"leader": c.leader, "follower": func() *server { return c.without(c.leader())[0] }}
		for role, member := range choose { // first of all: some names come with what was done
			t.Run("mntr-keys-"+role, func(t *testing.T) {
				s := member()
				wrong := wrongMntrKeys(t, s, "testdata/mntr-keys-"+role+".txt")
				for len(wrong) > 0 && s.mode() != role {
					s = member()
					wrong = wrongMntrKeys(t, s, "testdata/mntr-keys-"+role+".txt")
				}
				if len(wrong) > 0 {
					t.Error(strings.Join(wrong, "\n"))
				}
			})
		}
		for role, member := range choose {
			t.Run(role, func(t *testing.T) {
				playTalksOf(t, member, func(s *server) bool { return s.mode() == role }, "ensemble-"+role, ensembleCases)
			})
		}
	})
}

var ensembleCases = []rawCase{
	{"short-words", func(k *talk) {
		for _, w := range []string{"ruok", "isro", "dirs", "orst", "obsr", "lead", "wchs", "crst", "srst"} {
			k.word(w)
		}
	}},
	{"srvr", func(k *talk) {
		k.open("").end() // so that there was a write
		k.word("srvr")
	}},
	{"stat", func(k *talk) {
		k.alone()
		c := k.open("")
		k.listing("stat")
		c.end()
	}},
	{"conf", func(k *talk) { k.text(configuredDir.ReplaceAllString(k.answer("conf"), "$1=<path>")) }},
	{"dump", func(k *talk) {
		k.alone()
		c := k.open("")
		c.must(opCreate, createBody("/e", nil, 1))
		k.dump()
		c.end()
	}},
	{"mntr-roles", func(k *talk) {
		var values map[string]string
		waitFor(k.t, patience, "all follow", func() bool { // who has stood still follows again after a moment
			values = k.mntr()
			followers, leads := values["zk_synced_followers"]
			return !leads || followers == fmt.Sprint(clusterSize-1)
		})
		for _, key := range []string{
			"server_state", "peer_state", "quorum_size", "learners", "synced_followers", "synced_non_voting_followers", "synced_observers",
			"last_proposal_size", "max_proposal_size", "min_proposal_size", "observer_master_id",
		} {
			value, ok := values["zk_"+key]
			if strings.HasSuffix(key, "_proposal_size") {
				value = maskNumbers(value)
			}
			k.logf("%s: %s (there: %t)", key, value, ok)
		}
	}},
	{"configuration", func(k *talk) {
		c := k.open("")
		c.asked(k.get("/zookeeper/config", false))
		c.ask(k.set("/zookeeper/config", nil, -1), k.del("/zookeeper/config", -1), k.children("/zookeeper/config", false))
		c.reconfig("of nothing", nothing, nothing, nothing, -1)
		c.end()
	}},
}

var configuredDir = regexp.MustCompile(`(?m)^(dataDir|dataLogDir)=.*$`)

// TestReconfig compares the answers to reconfig: mostly why it is refused. What is left out
// is a server that joins and does not run: ZooKeeper takes it into the configuration, zkd
// waits half a minute for it and then says what ZooKeeper says of a change without a quorum.
func TestReconfig(t *testing.T) {
	want := settings{config: map[string]string{"reconfigEnabled": "true"}, jvm: map[string]string{"zookeeper.skipACL": "yes"}, lines: true}
	forEachEnsemble(t, want, func(t *testing.T, c *cluster) {
		var epoch int64
		follower := func() *server {
			s := c.without(c.leader())[0]
			epoch = s.epoch()
			return s
		}
		// A change that is under way when a new leader begins a new epoch is given up, and asked for again.
		playTalksOf(t, follower, func(s *server) bool { return s.epoch() == epoch }, "ensemble-reconfig", reconfigCases)
	})
}

// epoch is that of the newest zxid of a member, 0 while it does not serve.
func (s *server) epoch() int64 {
	s.t.Helper()
	for line := range strings.Lines(s.ask("srvr")) {
		var zxid int64
		if _, err := fmt.Sscanf(line, "Zxid: 0x%x", &zxid); err == nil {
			return zxid >> 32
		}
	}
	return 0
}

// nothing stands for a null string of a reconfig.
const nothing = "-"

var reconfigCases = []rawCase{
	{"the-first-configuration", func(k *talk) {
		c := k.open("")
		c.asked(k.get("/zookeeper/config", false))
		c.end()
	}},
	{"what-is-no-change", func(k *talk) {
		c := k.open("")
		c.reconfig("of nothing", nothing, nothing, nothing, -1)
		c.reconfig("with empty strings", "", "", "", -1)
		c.reconfig("with members and joining", k.dead(9), nothing, k.present(), -1)
		c.reconfig("with members and leaving", nothing, "9", k.present(), -1)
		c.end()
	}},
	{"versions", func(k *talk) {
		c := k.open("")
		for _, version := range []int64{0, 1, -2, 1 << 62} {
			c.reconfig(fmt.Sprintf("for the configuration %d", version), nothing, "9", nothing, version)
		}
		c.end()
	}},
	{"joining", func(k *talk) {
		c := k.open("")
		for _, line := range []string{
			"nonsense", "server.9", "server.9=", "server.x=127.0.0.1:1:2;3", "server.9=127.0.0.1", "server.9=127.0.0.1:1;3", "server.9=127.0.0.1:1:2",
			"server.9=127.0.0.1:1:2:king;3", "server.9=127.0.0.1:x:2;3", "server.9=127.0.0.1:1:2;x", "server.255=127.0.0.1:1:2;3", ",",
		} {
			c.changes(fmt.Sprintf("joining %q", line), line, nothing)
		}
		c.changes("joining another with the addresses of member 1", "server.9="+k.line(1), nothing)
		c.end()
	}},
	{"leaving", func(k *talk) {
		c := k.open("")
		for _, list := range []string{"nonsense", "1,2,3", "1,2", "-1,", "1 2", "9"} {
			c.changes(fmt.Sprintf("leaving %q", list), nothing, list)
		}
		c.end()
	}},
	{"members", func(k *talk) {
		c := k.open("")
		c.reconfig("members: none", nothing, nothing, "", -1)
		c.reconfig("members: nonsense", nothing, nothing, "nonsense", -1)
		c.reconfig("members: one of them", nothing, nothing, "server.1="+k.line(1), -1)
		c.end()
	}},
	{"a-change", func(k *talk) {
		c := k.open("")
		c.asked(k.get("/zookeeper/config", true))
		c.reconfig("leaving a number that is no member's", nothing, "9", nothing, -1)
		c.drained()
		c.asked(k.get("/zookeeper/config", false))
		c.reconfig("for the configuration that is", nothing, "9", nothing, k.version)
		c.reconfig("for the configuration before", nothing, "9", nothing, k.version-1)
		c.reconfig("with the same members", nothing, nothing, k.present(), -1)
		c.end()
	}},
}

// line is the line of a member without its number.
func (k *talk) line(number int) string {
	return k.cluster.peers[number-1] + ":participant;" + k.cluster.members[number-1].addr
}

// dead is the line of a server that does not run.
func (k *talk) dead(number int) string {
	return fmt.Sprintf("server.%d=127.0.0.1:%d:%d:participant;127.0.0.1:%d", number, number, number+10, number+20)
}

// present are the lines of all members.
func (k *talk) present() string {
	var lines []string
	for n := 1; n <= clusterSize; n++ {
		lines = append(lines, fmt.Sprintf("server.%d=%s", n, k.line(n)))
	}
	return strings.Join(lines, "\n")
}

// reconfig asks for a change and logs the answer.
func (c *talker) reconfig(label, joining, leaving, members string, version int64) {
	c.k.t.Helper()
	b := body{}
	for _, s := range []string{joining, leaving, members} {
		if s == nothing {
			b = b.null()
		} else {
			b = b.str(s)
		}
	}
	c.asked(c.k.bytes("reconfig "+label, opReconfig, b.i64(version)))
}

// changes asks for a change, logs whether it is one, and undoes it.
func (c *talker) changes(label, joining, leaving string) {
	c.k.t.Helper()
	before := len(c.k.lines)
	c.reconfig(label, joining, leaving, nothing, -1)
	if len(c.k.lines) > before+2 {
		c.k.lines = c.k.lines[:before+2]
		c.k.zxid = c.must(opReconfig, body{}.null().null().str(c.k.present()).i64(-1)).zxid
	}
}

// asked is ask for requests that are answered by the text of the configuration, whose lines
// it logs: addresses masked, the version in words.
func (c *talker) asked(r request) {
	c.k.t.Helper()
	c.logf("%s", r.label)
	a, err := c.try(r.op, r.body)
	if err != nil {
		c.k.t.Fatalf("%s: no reply: %v", r.label, err)
	}
	c.logf("  zxid=%s err=%d", c.k.relative(a.zxid), a.err)
	if a.err != 0 {
		return
	}
	in := cursor{b: a.rest}
	lines := strings.Split(string(in.buf()), "\n")
	st := in.stat()
	for i, line := range lines {
		if text, ok := strings.CutPrefix(line, "version="); ok {
			line = "version=<other>"
			if _, err := fmt.Sscanf(text, "%x", &c.k.version); err == nil && c.k.version == st.mzxid {
				line = "version=<mzxid>"
			}
		}
		lines[i] = "  |" + numbers.ReplaceAllStringFunc(line, func(n string) string {
			if strings.Contains(n, ".") || len(n) > 2 {
				return maskNumbers(n)
			}
			return n // of a member
		}) + "|"
	}
	slices.Sort(lines)
	for _, line := range lines {
		c.logf("%s", line)
	}
	c.logf("  %s", configMzxid.ReplaceAllString(c.k.statText(st, a.zxid), " mz=version "))
}

// configMzxid is what the version of the configuration is compared with.
var configMzxid = regexp.MustCompile(` mz\S+ `)
