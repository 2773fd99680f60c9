package interop

import (
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestFourLetterWords compares the shape of every answer: line by line with numbers,
// versions, addresses and ids masked, and for mntr, envi and conf the set of keys.
func TestFourLetterWords(t *testing.T) {
	forEachServer(t, settings{byRequest: true}, func(t *testing.T, s *server) {
		playTalks(t, s, "fourletter", fourLetterCases)
	})
}

var fourLetterCases = []rawCase{
	{"plain-words", func(k *talk) {
		for _, w := range []string{"ruok", "isro", "gtmk", "crst", "srst", "dirs", "ruok\n", "ruok\r\nmore", "stmk\x00\x00\x00\x00\x00\x00\x01\x32", "gtmk"} {
			k.word(w)
		}
	}},
	{"unknown-words", func(k *talk) {
		for _, w := range []string{"RUOK", "Srvr", "xxxx", "orst", "obsr", "lead", "icfg", "sysp", "GET "} {
			k.word(w)
		}
	}},
	{"srvr", func(k *talk) { k.word("srvr") }},
	{"stat", func(k *talk) {
		k.alone()
		c := k.open("")
		k.listing("stat")
		c.end()
	}},
	{"cons", func(k *talk) {
		k.alone()
		c := k.open("")
		k.listing("cons")
		c.must(opGetData, readBody("/", false))
		k.listing("cons")
		c.must(opSetData, setBody(k.base, nil, -1))
		k.listing("cons")
		c.end()
	}},
	{"cons-after-a-handshake", func(k *talk) {
		k.alone()
		c := k.bare()
		k.listing("cons")
		_ = c.conn.Close()
		k.alone()
		d := k.connect("", "the same session", connectRequest{timeoutMs: 600000, session: c.info.session, password: c.info.password})
		k.listing("cons")
		d.end()
	}},
	{"last-operation", func(k *talk) {
		c := k.open("")
		for _, r := range []request{
			k.create("~/1", nil, 0), k.create2("~/2", nil, 0), k.container("~/3", 4), k.createTTL("~/4", 5, 600000), k.set("~/1", nil, -1), k.get("~/1", false),
			k.getACL("~/1"), k.setACL("~/1", -1, openACL...), k.exists("~/1", false), k.exists("~/no", false), k.children("~", false), k.children2("~", false), k.sync("/"),
			k.multi(k.check("~", -1)), k.multiRead(k.get("~", false)), k.addWatch("~", 0), k.checkWatches("~", 3), k.removeWatches("~", 3), k.setWatches(0, nil, nil, nil),
			k.setWatches2(0, nil, nil, nil, nil, nil), k.ephemerals("/"), k.allChildren("~"), k.del("~/1", -1), k.whoAmI(),
			{"ping", opPing, nil},
		} {
			c.call(r.op, r.body)
			name, _, _ := strings.Cut(r.label, " ")
			k.logf("%s: %s", name, lastOperation(k, c))
		}
		c.end()
	}},
	{"conf", func(k *talk) { k.keys("conf", "=") }},
	{"envi", func(k *talk) { k.keys("envi", "=") }},
	{"mntr-values", func(k *talk) {
		k.alone()
		before := k.mntr()
		c := k.open("")
		c.must(opCreate, createBody(k.path("~/e"), []byte("12345"), 1))
		c.must(opGetData, readBody(k.path("~/e"), true))
		waitFor(k.t, patience, "only the connection of mntr and the session's", func() bool { return k.mntr()["zk_num_alive_connections"] == "2" })
		after := k.mntr()
		for _, key := range []string{"znode_count", "watch_count", "ephemerals_count", "outstanding_requests", "global_sessions", "local_sessions", "approximate_data_size"} {
			k.logf("%s: %+d", key, number(k.t, after["zk_"+key])-number(k.t, before["zk_"+key]))
		}
		k.logf("connection_drop_probability: %s", after["zk_connection_drop_probability"])
		for _, key := range []string{"packets_received", "packets_sent", "uptime", "open_file_descriptor_count", "max_file_descriptor_count", "max_client_response_size", "cnt_readlatency"} {
			k.logf("%s is positive: %t", key, number(k.t, after["zk_"+key]) > 0)
		}
		c.end()
	}},
	{"mntr-state", func(k *talk) { k.logf("server_state: %s", k.mntr()["zk_server_state"]) }},
	{"watches", func(k *talk) {
		k.word("wchs")
		k.word("wchc")
		k.word("wchp")
		c := k.open("")
		c.must(opGetData, readBody(k.base, true))
		c.must(opGetChildren, readBody(k.base, true))
		for _, w := range []string{"wchs", "wchc", "wchp"} {
			k.word(w)
		}
		c.must(opAddWatch, body{}.str(k.path("~/p")).i32(0))
		c.must(opAddWatch, body{}.str(k.path("~/r")).i32(1))
		k.logf("with persistent watches: %q", k.answer("wchs"))
		c.end()
	}},
	{"dump", func(k *talk) {
		c := k.open("")
		c.must(opCreate, createBody(k.path("~/e"), nil, 1))
		k.dump()
		c.end()
	}},
	{"hash", func(k *talk) {
		ok := true
		for line := range strings.Lines(k.answer("hash")) {
			ok = ok && regexp.MustCompile(`^[0-9a-f]+: -?\d+\n$`).MatchString(line)
		}
		k.logf("every line is a zxid and a digest: %t", ok)
	}},
	{"a-slow-word", func(k *talk) {
		c, err := net.Dial("tcp", k.addr)
		if err != nil {
			k.t.Fatal(err)
		}
		defer c.Close()
		var out []byte
		for _, b := range []byte("ruok") {
			if _, err := c.Write([]byte{b}); err != nil {
				k.t.Fatal(err)
			}
		}
		_ = c.SetReadDeadline(time.Now().Add(patience))
		out = make([]byte, 10)
		n, _ := c.Read(out)
		k.logf("one byte at a time: %q", out[:n])
	}},
}

// alone waits until the connections of earlier cases are gone: but for that of mntr itself.
func (k *talk) alone() {
	k.t.Helper()
	waitFor(k.t, patience, "no connection is left", func() bool { return k.mntr()["zk_num_alive_connections"] == "1" })
}

// dump logs the answer to dump, each line once: connections and sessions fall into buckets by
// the clock, and how many there are is chance.
func (k *talk) dump() {
	k.t.Helper()
	k.text(expiryDate.ReplaceAllString(k.answer("dump"), "expire at <date>:"))
	seen := map[string]bool{}
	k.lines = slices.DeleteFunc(k.lines, func(line string) bool {
		again := seen[line]
		seen[line] = true
		return again
	})
}

var expiryDate = regexp.MustCompile(`expire at .*:`)

// mntr returns the keys and values of mntr.
func (k *talk) mntr() map[string]string {
	k.t.Helper()
	m := map[string]string{}
	for line := range strings.Lines(k.answer("mntr")) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "\t")
		m[key] = value
	}
	return m
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Errorf("no number: %q", s)
	}
	return n
}

// TestMntrKeys holds every key that ZooKeeper's mntr has: scrapers ask for them by name.
// testdata/mntr-keys.txt was recorded from Apache ZooKeeper.
func TestMntrKeys(t *testing.T) {
	forEachServer(t, settings{byRequest: true}, func(t *testing.T, s *server) { checkMntrKeys(t, s, "testdata/mntr-keys.txt") })
}

// checkMntrKeys compares the keys of mntr with those in a file.
func checkMntrKeys(t *testing.T, s *server, golden string) {
	t.Helper()
	for _, wrong := range wrongMntrKeys(t, s, golden) {
		t.Error(wrong)
	}
}

// wrongMntrKeys says what is wrong with the keys of mntr, by those in a file.
func wrongMntrKeys(t *testing.T, s *server, golden string) (wrong []string) {
	t.Helper()
	c := openSession(t, s.addr, 10000)
	c.must(opGetData, readBody("/", false))
	k := &talk{t: t, addr: s.addr}
	var keys []string
	for key := range k.mntr() {
		keys = append(keys, learnerHandler.ReplaceAllString(key, "N_learner_handler"))
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	c.closeSession()
	if *update && s.kind == zookeeper {
		if err := os.WriteFile(golden, []byte(strings.Join(keys, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	recorded, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range strings.Fields(string(recorded)) {
		metric := summaryPrefix.ReplaceAllString(strings.TrimPrefix(key, "zk_"), "")
		switch there := slices.Contains(keys, key); {
		case !there && (s.kind == zookeeper || mntrLeftOut[metric] == ""):
			wrong = append(wrong, "mntr has no key "+key)
		case there && s.kind == zkd && mntrLeftOut[metric] != "":
			wrong = append(wrong, "mntr has the key "+key+", which bydesign_test.go says is left out")
		}
	}
	if !strings.HasPrefix(s.ask("mntr"), "zk_version\t") {
		wrong = append(wrong, "the first line of mntr is not zk_version")
	}
	return wrong
}

// TestFourLetterWhitelist asks a server that allows only some words.
func TestFourLetterWhitelist(t *testing.T) {
	want := settings{byRequest: true, config: map[string]string{"4lw.commands.whitelist": "ruok, mntr"}}
	forEachServer(t, want, func(t *testing.T, s *server) {
		for _, word := range []string{"stat", "cons", "dump", "envi", "conf", "wchs", "isro", "crst"} {
			if got, refusal := s.ask(word), word+" is not executed because it is not in the whitelist.\n"; got != refusal {
				t.Errorf("%s: got %q, want %q", word, got, refusal)
			}
		}
		if got := s.ask("ruok"); got != "imok" {
			t.Errorf("ruok: %q", got)
		}
		if got := s.ask("srvr"); !s.namesMode(got) {
			t.Errorf("srvr, which is always allowed: %q", got)
		}
	})
}

// learnerHandler is a name with the number of a member.
var learnerHandler = regexp.MustCompile(`\d+_learner_handler`)

// summaryPrefix is what mntr puts in front of the name of a summary.
var summaryPrefix = regexp.MustCompile(`^(avg|min|max|cnt|sum|p50|p95|p99|p999)_`)

// answer returns what the server says to a word.
func (k *talk) answer(word string) string {
	k.t.Helper()
	out, err := fourLetter(k.addr, word, patience)
	if err != nil {
		k.t.Fatalf("%s: %v", word, err)
	}
	return out
}

// word logs the masked answer to a word.
func (k *talk) word(word string) {
	k.t.Helper()
	out, err := fourLetter(k.addr, word, patience)
	if err != nil {
		out += " (reset)" // closed with our bytes unread
	}
	k.logf("%q", word)
	k.text(out)
}

// text logs an answer line by line. Those for connections have no order that counts.
func (k *talk) text(out string) {
	var lines, conns []string
	place := 0
	for _, line := range strings.Split(out, "\n") {
		line = "  |" + maskNumbers(strings.ReplaceAll(line, "\t", "<tab>")) + "|"
		if strings.HasPrefix(line, "  | /<ip>") {
			conns = append(conns, line)
			place = len(lines)
			continue
		}
		lines = append(lines, line)
	}
	slices.Sort(conns)
	for _, line := range slices.Insert(lines, place, conns...) {
		k.logf("%s", line)
	}
}

// keys logs the keys of an answer in key=value lines, in their order.
func (k *talk) keys(word, separator string) {
	k.t.Helper()
	for line := range strings.Lines(k.answer(word)) {
		key, _, found := strings.Cut(line, separator)
		if !found {
			key = "line: " + strings.TrimSpace(line)
		}
		k.logf("%s", key)
	}
}

var (
	versionLine = regexp.MustCompile(`^Zookeeper version: \d+\.\d+\.\d+(-[A-Za-z]+)?-[^,\s]+, built on \d{4}-\d\d-\d\d \d\d:\d\d \w+$`)
	numbers     = regexp.MustCompile(`0x[0-9a-f]+|\d+(\.\d+)*`)
)

// maskNumbers replaces what varies by its kind.
func maskNumbers(line string) string {
	if versionLine.MatchString(line) {
		return "Zookeeper version: <version>, built on <date>"
	}
	return numbers.ReplaceAllStringFunc(line, func(n string) string {
		switch {
		case strings.HasPrefix(n, "0x"):
			return "0xH"
		case strings.Count(n, ".") == 3:
			return "<ip>"
		case strings.Contains(n, "."):
			return "F"
		}
		return "N"
	})
}

// listing logs the masked answer to a word that lists connections, once those are its own and one
// other: that of the word before is listed for a moment after its end.
func (k *talk) listing(word string) {
	k.t.Helper()
	var out string
	waitFor(k.t, patience, "two connections in "+word, func() bool {
		out = k.answer(word)
		return strings.Count(out, "](queued=") == 2
	})
	k.logf("%q", word)
	k.text(out)
}

// lastOperation returns lop of this session in cons.
func lastOperation(k *talk, c *talker) string {
	k.t.Helper()
	id := "sid=0x" + hexID(c.info.session)
	for line := range strings.Lines(k.answer("cons")) {
		if strings.Contains(line, id) {
			_, rest, _ := strings.Cut(line, "lop=")
			word, _, _ := strings.Cut(rest, ",")
			return word
		}
	}
	return "no line with " + id
}
