package interop

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// A talk is one conversation of raw frames with a server, as a text that two servers that
// behave alike write alike:
//
//   - paths: the case's own parent is "~";
//   - zxids: of a reply, the difference to the reply before it ("+1": one write between), 0
//     and -1 as they are; in a stat, the distance from the reply's zxid ("-2"); "?" where a
//     new leader has begun a new epoch between the two;
//   - sessions and passwords: S1, S2 … and P1, P2 … in order of appearance;
//   - times: only whether they are plausible.
type talk struct {
	t     *testing.T
	addr  string
	base  string
	lines []string
	zxid  int64 // the newest seen in this talk
	ids   []int64
	pass  [][]byte
	// cluster is what the server is a member of; nil for a server alone.
	cluster *cluster
	version int64 // of the newest configuration of it that was seen
}

// rawCase is one conversation. Its name is also the parent node of its paths.
type rawCase struct {
	name string
	run  func(k *talk)
}

func (k *talk) logf(format string, args ...any) {
	k.lines = append(k.lines, strings.ReplaceAll(fmt.Sprintf(format, args...), k.base, "~"))
}

// path replaces a leading ~ by the case's parent.
func (k *talk) path(p string) string {
	if rest, ok := strings.CutPrefix(p, "~"); ok {
		return k.base + rest
	}
	return p
}

func (k *talk) sessionName(id int64) string {
	if id == 0 {
		return "0"
	}
	i := slices.Index(k.ids, id)
	if i < 0 {
		i = len(k.ids)
		k.ids = append(k.ids, id)
	}
	return fmt.Sprintf("S%d", i+1)
}

func (k *talk) passwordName(p []byte) string {
	if len(bytes.Trim(p, "\x00")) == 0 {
		return fmt.Sprintf("zeros(%d)", len(p))
	}
	i := slices.IndexFunc(k.pass, func(q []byte) bool { return bytes.Equal(p, q) })
	if i < 0 {
		i = len(k.pass)
		k.pass = append(k.pass, p)
	}
	return fmt.Sprintf("P%d(%d)", i+1, len(p))
}

// talker is one connection of a talk.
type talker struct {
	*rawConn
	k    *talk
	name string // printed in front of its lines; empty for the main connection
}

// open connects with a new session of ten minutes and logs nothing.
func (k *talk) open(name string) *talker {
	k.t.Helper()
	c := &talker{openSession(k.t, k.addr, 600000), k, name}
	k.zxid = c.ping()
	k.sessionName(c.info.session)
	return c
}

// connect makes a connection with that request and logs the answer.
func (k *talk) connect(name, label string, r connectRequest) *talker {
	k.t.Helper()
	c := &talker{dialRaw(k.t, k.addr), k, name}
	err := c.handshake(r)
	c.logf("connect %s", label)
	c.logHandshake(err)
	return c
}

func (c *talker) logHandshake(err error) {
	if err != nil && !errors.Is(err, errRefused) {
		c.logf("  closed without a byte")
		return
	}
	i := c.info
	c.logf("  timeout=%d session=%s password=%s body=%d", i.timeoutMs, c.k.sessionName(i.session), c.k.passwordName(i.password), i.length)
}

func (c *talker) logf(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if c.name != "" {
		line = c.name + ": " + line
	}
	c.k.logf("%s", line)
}

// ask sends a request, waits for its reply, and logs it with the events before it.
func (c *talker) ask(list ...request) {
	c.k.t.Helper()
	for _, r := range list {
		c.xid++
		c.pipeline(numbered{c.xid, r})
	}
}

// numbered is a request with its xid.
type numbered struct {
	xid int32
	request
}

// burst sends requests in one segment, with the next xids, and logs the replies in order.
func (c *talker) burst(list ...request) {
	c.k.t.Helper()
	var n []numbered
	for _, r := range list {
		c.xid++
		n = append(n, numbered{c.xid, r})
	}
	c.pipeline(n...)
}

// pipeline sends requests in one segment and logs every frame until all are answered.
func (c *talker) pipeline(list ...numbered) {
	c.k.t.Helper()
	var out []byte
	for _, r := range list {
		c.logf("%s", r.label)
		out = body(out).buf(append(body{}.i32(r.xid).i32(r.op), r.body...))
	}
	if err := c.sendBytes(out); err != nil {
		c.logf("  closed before it was sent")
		return
	}
	waiting := slices.Clone(list)
	for len(waiting) > 0 {
		r, err := c.readReply()
		if err != nil {
			c.logf("  closed without a reply")
			return
		}
		if r.xid == xidEvent {
			c.logEvent(r, waiting)
			continue
		}
		// Replies to several requests may leave out of order: take the first that fits.
		i := slices.IndexFunc(waiting, func(n numbered) bool { return n.xid == r.xid || n.op == opPing && r.xid == xidPing })
		if i < 0 {
			c.logf("  reply to nothing: xid=%d err=%d", r.xid, r.err)
			return
		}
		c.logReply(r, waiting[i], len(list) > 1)
		waiting = slices.Delete(waiting, i, i+1)
	}
}

var eventNames = map[int32]string{1: "created", 2: "deleted", 3: "changed", 4: "children"}

// logEvent logs a notification. Those that setWatches fires itself are told apart: they
// carry no transaction.
func (c *talker) logEvent(r reply, waiting []numbered) {
	in := cursor{b: r.rest}
	kind, state, path := in.i32(), in.i32(), in.str()
	zxid := fmt.Sprint(r.zxid)
	if r.zxid > 0 {
		zxid = "txn"
	}
	word := "event"
	if len(waiting) > 0 && (waiting[0].op == opSetWatches || waiting[0].op == opSetWatches2) {
		word = "event at once"
	}
	c.logf("  %s %s %s zxid=%s", word, eventNames[kind], quoted(path), zxid)
	if state != 3 || r.err != 0 || in.err != nil || len(in.b) > 0 {
		c.logf("  odd event: state=%d err=%d left=%d", state, r.err, len(in.b))
	}
}

// logReply logs the header, relative to what was seen before, and the decoded body.
func (c *talker) logReply(r reply, n numbered, withXid bool) {
	var b strings.Builder
	b.WriteString("  ")
	if withXid || r.xid != n.xid {
		fmt.Fprintf(&b, "xid=%d ", r.xid)
	}
	fmt.Fprintf(&b, "zxid=%s err=%d", c.k.relative(r.zxid), r.err)
	switch {
	case r.err != 0 && len(r.rest) > 0:
		fmt.Fprintf(&b, " and %d bytes behind the error", len(r.rest))
	case r.err == 0:
		in := cursor{b: r.rest}
		text := c.k.decode(n.op, &in, r.zxid)
		if in.err != nil || len(in.b) > 0 {
			text = fmt.Sprintf("odd body %x", r.rest)
		}
		if text != "" {
			b.WriteString(" " + text)
		}
	}
	c.logf("%s", b.String())
}

// relative prints a reply's zxid as the distance from the one before.
func (k *talk) relative(zxid int64) string {
	if zxid <= 0 {
		return fmt.Sprint(zxid)
	}
	before := k.zxid
	k.zxid = zxid
	switch {
	case before == 0:
		return "+0"
	case before>>32 != zxid>>32:
		return "?"
	}
	return fmt.Sprintf("%+d", zxid-before)
}

// codes sends requests one after another and logs their error codes in one line.
func (c *talker) codes(label string, list ...request) {
	c.k.t.Helper()
	line := label + ":"
	for _, r := range list {
		a := c.call(r.op, r.body)
		c.k.zxid = max(c.k.zxid, a.zxid)
		line += fmt.Sprintf(" %d", a.err)
	}
	c.logf("%s", line)
}

// drained sends a ping and logs the events that come before its reply: none is left.
func (c *talker) drained() {
	c.k.t.Helper()
	c.pipeline(numbered{xidPing, request{"ping", opPing, nil}})
}

// closed logs whether the server has closed the connection or does so before long.
func (c *talker) closed() {
	c.k.t.Helper()
	if c.closedWithin(patience) {
		c.logf("  closed")
	} else {
		c.logf("  still open")
	}
}

// end closes the session without a word in the log, so that it leaves no zxid behind.
func (c *talker) end() {
	c.k.t.Helper()
	c.closeSession()
}

// endAtOnce is end for a session with a timeout so short that it may have ended by itself.
func (c *talker) endAtOnce() {
	_, _ = c.try(opClose, nil)
	_ = c.conn.Close()
}

// decode prints the body of a successful reply.
func (k *talk) decode(op int32, in *cursor, zxid int64) string {
	switch op {
	case opCreate, opSync:
		return "path=" + quoted(in.str())
	case opCreate2, opContainer, opCreateTTL:
		return fmt.Sprintf("path=%s %s", quoted(in.str()), k.statText(in.stat(), zxid))
	case opExists, opSetData, opSetACL:
		return k.statText(in.stat(), zxid)
	case opGetData, opReconfig:
		return fmt.Sprintf("data=%s %s", dataText(in.buf()), k.statText(in.stat(), zxid))
	case opGetACL:
		return fmt.Sprintf("acl=%v %s", in.acl(), k.statText(in.stat(), zxid))
	case opGetChildren, opEphemerals:
		return fmt.Sprintf("names=%q", sorted(in.strs()))
	case opGetChildren2:
		return fmt.Sprintf("names=%q %s", sorted(in.strs()), k.statText(in.stat(), zxid))
	case opAllChildrenNum, opAddWatch:
		return fmt.Sprintf("number=%d", in.i32())
	case opSASL:
		return fmt.Sprintf("token=%s", dataText(in.buf()))
	case opWhoAmI:
		var ids []string
		for n := in.i32(); n > 0 && in.err == nil; n-- {
			ids = append(ids, in.str()+":"+in.str())
		}
		return fmt.Sprintf("ids=%q", sorted(ids))
	case opMulti, opMultiRead:
		return k.multiText(in, zxid)
	}
	return ""
}

// multiText prints the results of a multi or multiRead.
func (k *talk) multiText(in *cursor, zxid int64) string {
	var list []string
	for in.err == nil {
		op, done, code := in.i32(), in.boolean(), in.i32()
		if done {
			return fmt.Sprintf("[%s] end=%d,%d", strings.Join(list, ", "), op, code)
		}
		if op == -1 {
			list = append(list, fmt.Sprintf("error %d/%d", code, in.i32()))
			continue
		}
		inner := op
		if op == opGetData || op == opGetChildren || op == opCreate || op == opCreate2 || op == opSetData {
			list = append(list, strings.TrimSpace(fmt.Sprintf("type=%d err=%d %s", op, code, k.decode(inner, in, zxid))))
			continue
		}
		list = append(list, fmt.Sprintf("type=%d err=%d", op, code))
	}
	return ""
}

func (k *talk) statText(s stat, zxid int64) string {
	distance := func(z int64) string {
		if z <= 0 {
			return fmt.Sprint(z)
		}
		switch {
		case z == zxid:
			return "-0"
		case z>>32 != zxid>>32:
			return "?"
		}
		return fmt.Sprintf("%+d", z-zxid)
	}
	return fmt.Sprintf("stat{cz%s mz%s pz%s %s v%d cv%d av%d owner=%s len=%d kids=%d}", distance(s.czxid), distance(s.mzxid),
		distance(s.pzxid), timesText(s), s.version, s.cversion, s.aversion, k.sessionName(s.owner), s.dataLength, s.numChildren)
}

// timesText says whether the times of a stat can be true.
func timesText(s stat) string {
	now := time.Now().UnixMilli()
	switch {
	case s.ctime == 0 && s.mtime == 0:
		return "times=0"
	case s.ctime == 0 && s.mtime > now-3600_000 && s.mtime < now+1000:
		return "times=0,ok" // a reserved node with new data
	case s.ctime < now-3600_000 || s.mtime > now+1000 || s.mtime < s.ctime:
		return fmt.Sprintf("times=wrong(%d,%d)", s.ctime, s.mtime)
	case s.version == 0 && s.mtime != s.ctime:
		return "times=changed"
	}
	return "times=ok"
}

// quoted shows a path, cut where nobody reads on.
func quoted(path string) string {
	if len(path) > 80 {
		return fmt.Sprintf("%q and %d bytes more", path[:60], len(path)-60)
	}
	return fmt.Sprintf("%q", path)
}

func dataText(p []byte) string {
	switch {
	case p == nil:
		return "null"
	case len(p) > 55:
		return fmt.Sprintf("<%d bytes>", len(p))
	}
	return fmt.Sprintf("%q", p)
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	for i, s := range list {
		if len(s) > 80 {
			list[i] = quoted(s)
		}
	}
	slices.Sort(list)
	return list
}

// playTalks runs the cases of one group against one server and compares the text with
// testdata/raw/<group>.txt, which was recorded from Apache ZooKeeper.
func playTalks(t *testing.T, s *server, group string, cases []rawCase) {
	t.Helper()
	playTalksOf(t, func() *server { return s }, func(*server) bool { return true }, group, cases)
}

// playTalksOf is playTalks with a server that is chosen for every case, which is played again
// where stays says at its end that this server is not any more what it was chosen for.
func playTalksOf(t *testing.T, choose func() *server, stays func(*server) bool, group string, cases []rawCase) {
	t.Helper()
	golden := filepath.Join("testdata", "raw", group+".txt")
	recorded := readSections(t, golden)
	got := map[string][]string{}
	recording := false
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s, k := playTalk(t, choose, group, c)
			for !stays(s) {
				s, k = playTalk(t, choose, group, c)
			}
			got[c.name] = k.lines
			if recording = *update && s.kind == zookeeper; recording {
				return
			}
			want, ok := recorded[c.name]
			if !ok {
				t.Fatalf("no recording of this case in %s: run with -update and ZooKeeper", golden)
			}
			if s.kind == zkd {
				want = expectedOfZkd(t, s, group, c.name, want)
			}
			diffLines(t, overEpochs(want, k.lines), k.lines)
		})
	}
	if recording && !t.Failed() {
		writeSections(t, golden, cases, got)
	}
}

// playTalk plays one case.
func playTalk(t *testing.T, choose func() *server, group string, c rawCase) (*server, *talk) {
	t.Helper()
	s := choose()
	if s.disturbed() {
		if why := notOnCluster[group+"/"+c.name]; why != "" {
			t.Skip(why)
		}
		s.cluster.disturber.kick()
	}
	k := &talk{t: t, addr: s.addr, base: "/" + c.name, cluster: s.cluster}
	if !strings.HasPrefix(group, "enforced") && !strings.HasPrefix(group, "ensemble") { // nobody may write there, or need
		prepare(t, s.addr, k.base)
	}
	c.run(k)
	return s, k
}

// overEpochs takes from the wanted lines the zxids that a new epoch hides in what was got.
func overEpochs(want, got []string) []string {
	want = slices.Clone(want)
	for i := range min(len(want), len(got)) {
		tokens := zxidTokens.FindAllString(got[i], -1)
		want[i] = zxidTokens.ReplaceAllStringFunc(want[i], func(token string) string {
			if len(tokens) > 0 {
				if strings.HasSuffix(tokens[0], "?") {
					token = tokens[0]
				}
				tokens = tokens[1:]
			}
			return token
		})
	}
	return want
}

// zxidTokens are the zxids in a line of a talk.
var zxidTokens = regexp.MustCompile(`zxid=([+-]?\d+|\?)|\b[cmp]z([+-]?\d+|\?)`)

// prepare makes the case's parent node.
func prepare(t *testing.T, addr, base string) {
	t.Helper()
	c := openSession(t, addr, 600000)
	c.must(opCreate, createBody(base, nil, 0))
	c.closeSession()
}

// readSections reads a file of "== name" headings, each with its lines.
func readSections(t *testing.T, file string) map[string][]string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	sections := map[string][]string{}
	name := ""
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSuffix(line, "\n")
		if n, ok := strings.CutPrefix(line, "== "); ok {
			name = n
		} else if name != "" && line != "" {
			sections[name] = append(sections[name], line)
		}
	}
	return sections
}

func writeSections(t *testing.T, file string, cases []rawCase, got map[string][]string) {
	t.Helper()
	var b strings.Builder
	b.WriteString("Conversations with Apache ZooKeeper 3.8.0, recorded by go test ./interop -update; see talk_test.go.\n")
	for _, c := range cases {
		fmt.Fprintf(&b, "\n== %s\n%s\n", c.name, strings.Join(got[c.name], "\n"))
	}
	err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(b.String()), 0o644))
	if err != nil {
		t.Fatal(err)
	}
}

// diffLines fails at every line that differs, with its neighbours.
func diffLines(t *testing.T, want, got []string) {
	t.Helper()
	if slices.Equal(want, got) {
		return
	}
	var b strings.Builder
	for i := range max(len(want), len(got)) {
		var w, g string
		if i < len(want) {
			w = want[i]
		}
		if i < len(got) {
			g = got[i]
		}
		if w == g {
			fmt.Fprintf(&b, "  %s\n", w)
		} else {
			fmt.Fprintf(&b, "- %s\n+ %s\n", w, g)
		}
	}
	t.Errorf("the conversation differs (- recorded from ZooKeeper, + this server):\n%s", b.String())
}

// compareRecording compares lines with one section of testdata/raw/<group>.txt.
func compareRecording(t *testing.T, s *server, group, name string, lines []string) {
	t.Helper()
	golden := filepath.Join("testdata", "raw", group+".txt")
	if *update && s.kind == zookeeper {
		writeSections(t, golden, []rawCase{{name: name}}, map[string][]string{name: lines})
		return
	}
	want := readSections(t, golden)[name]
	if s.kind == zkd {
		want = expectedOfZkd(t, s, group, name, want)
	}
	diffLines(t, want, lines)
}

// maskBytes prints a frame in hex with session ids and recent times replaced.
func maskBytes(f []byte, session int64) string {
	var b strings.Builder
	now := time.Now().UnixMilli()
	for i := 0; i < len(f); {
		if i+8 <= len(f) {
			v := (&cursor{b: f[i:]}).i64()
			mask := ""
			switch {
			case v == session:
				mask = "<session>"
			case v > now-3600_000 && v < now+1000:
				mask = "<time>"
			}
			if mask != "" {
				b.WriteString(mask)
				i += 8
				continue
			}
		}
		fmt.Fprintf(&b, "%02x", f[i])
		i++
	}
	return b.String()
}

// hexID prints a session id as ZooKeeper does.
func hexID(id int64) string { return fmt.Sprintf("%x", uint64(id)) }
