package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/internal/sim/model"
	"github.com/zkd-project/zkd/internal/sim/rng"
	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/wire"
)

// A Generator draws histories from a seed. There are few paths, few sessions and few
// identities, so that commands meet each other.
type Generator struct {
	rng      *rng.Rand
	settings state.Settings
	replicas int
	slots    int
	recent   int // how far back a step may refer to created paths

	// ActEvery: a replica takes a snapshot, restarts or installs one after so many batches
	// on average.
	ActEvery int
}

// NewGenerator returns the generator of a seed, for runs with so many replicas.
func NewGenerator(seed uint64, replicas int) *Generator {
	return &Generator{
		rng: rng.New(seed), replicas: replicas, slots: 5, recent: 48, ActEvery: 12,
		settings: firstSettings,
	}
}

// firstSettings have everything on that lets commands succeed.
var firstSettings = state.Settings{
	ACL: acl.Settings{SASLEnabled: true, X509Enabled: true}, EnforceQuota: true, ExtendedTypes: true,
}

// History draws a history of at least so many commands.
func (g *Generator) History(commands int) *History {
	h := &History{}
	first := Batch{AdvanceMs: 1_700_000_000_000, NewTerm: true, Settings: &firstSettings}
	for slot := range g.slots {
		first.Steps = append(first.Steps, Step{Kind: state.KindCreateSession, Slot: slot, TimeoutMs: 4000})
	}
	h.Batches = append(h.Batches, first)
	for n := len(first.Steps); n < commands; {
		b := g.batch()
		n += len(b.Steps)
		h.Batches = append(h.Batches, b)
	}
	return h
}

func (g *Generator) batch() Batch {
	r := g.rng
	b := Batch{AdvanceMs: g.advance(), NewTerm: r.OneIn(50)}
	if r.OneIn(30) {
		b.Settings = g.changeSettings()
	}
	if r.OneIn(g.ActEvery) {
		b.Actions = append(b.Actions, g.action())
	}
	size := []int{1, 1, 2, 3, 5, 8, 13}[r.Intn(7)]
	for range size {
		b.Steps = append(b.Steps, g.step())
	}
	switch r.Intn(120) {
	case 0:
		b.Steps = append(b.Steps, g.sweep()...)
	case 1, 2, 3:
		b.Steps = append(b.Steps, g.quota()...)
	}
	for range r.Intn(3) {
		b.Reads = append(b.Reads, g.read())
	}
	return b
}

func (g *Generator) advance() int64 {
	switch g.rng.Weighted([]int{40, 40, 15, 5}) {
	case 1:
		return int64(g.rng.Intn(50))
	case 2:
		return int64(g.rng.Intn(3000))
	case 3:
		return -int64(g.rng.Intn(5000))
	}
	return 0
}

func (g *Generator) changeSettings() *state.Settings {
	s := &g.settings
	flip := func(b *bool) { *b = !*b }
	switch g.rng.Intn(10) {
	case 0:
		s.ACL.SkipACL = g.rng.OneIn(4)
	case 1:
		s.ACL.LetAnySASLUserDo = []string{"", "alice"}[g.rng.Intn(2)]
	case 2:
		s.ACL.DigestDisabled = g.rng.OneIn(4)
	case 3:
		s.ACL.SASLEnabled = !g.rng.OneIn(4)
	case 4:
		s.ACL.X509Enabled = !g.rng.OneIn(4)
	case 5, 6:
		s.EnforceQuota = !g.rng.OneIn(4)
	case 7:
		s.ExtendedTypes = !g.rng.OneIn(4)
	case 8:
		flip(&s.Reconfig)
	case 9:
		s.MaxNeverUsedMs = []int64{0, 3000}[g.rng.Intn(2)]
	}
	c := *s
	return &c
}

func (g *Generator) action() Action {
	a := Action{
		Kind:    ActionKind(g.rng.Weighted([]int{3, 3, 3, 3})),
		Replica: g.rng.Intn(g.replicas), From: g.rng.Intn(g.replicas),
	}
	if a.Kind == TakeSlowSnapshot {
		a.Batches = 1 + g.rng.Intn(20)
	}
	return a
}

func (g *Generator) step() Step {
	r := g.rng
	s := Step{Slot: r.Intn(g.slots), TimeoutMs: int32(1000 * (1 + r.Intn(4)))}
	switch r.Intn(60) {
	case 0:
		s.EpochOff = -1
	case 1:
		s.EpochOff = 1
	case 2, 3:
		s.ReqOff = -1 - r.Intn(3)
	case 4:
		s.ReqOff = 1 + r.Intn(3)
	}
	switch r.Weighted([]int{85, 12, 4, 1, 1, 4, 1, 1, 3}) {
	case 0:
		s.Kind, s.Op = state.KindWrite, g.op()
		s.IDs = rng.Pick(r, identities)
	case 1:
		s.Kind, s.WrongPwd = state.KindCreateSession, r.OneIn(4)
	case 2:
		s.Kind, s.WrongPwd, s.SameConn = state.KindAttach, r.OneIn(8), r.OneIn(6)
	case 3:
		s.Kind = state.KindCloseSession
	case 4:
		s.Kind = state.KindExpire
	case 5:
		s.Kind = state.KindReap
		if s.Op.Path, s.Op.Recent = g.path(); s.Op.Path == "" {
			s.Op.Path = "/" // the other name of the root is for readers alone
		}
	case 6:
		s.Kind = state.KindSync
	case 8:
		s.Kind, s.Members = state.KindMembers, g.membersStep()
	case 7:
		s.Kind, s.Level = state.KindLevel, uint32(r.Intn(int(state.CurrentLevel)+1))
	}
	return s
}

// sweep deletes what has been created lately, deepest first more or less, so that trees do
// not only grow.
func (g *Generator) sweep() []Step {
	var list []Step
	for i := 1; i <= g.recent; i++ {
		list = append(list, Step{
			Kind: state.KindWrite, Slot: g.rng.Intn(g.slots), IDs: superID,
			Op: Op{Code: wire.OpDelete, Path: "/none", Recent: i, Version: -1},
		})
	}
	return list
}

// quota gives a path a quota, as the client tool does it: the nodes above, limits, stats.
func (g *Generator) quota() []Step {
	path := rng.Pick(g.rng, []string{"/a", "/b", "/a/b"})
	quota := "/zookeeper/quota" + path
	var list []Step
	put := func(code wire.OpCode, path string, data []byte) {
		list = append(list, Step{
			Kind: state.KindWrite, Slot: g.rng.Intn(g.slots), IDs: superID,
			Op: Op{Code: code, Path: path, Data: data, ACL: openACL, Version: -1},
		})
	}
	put(wire.OpCreate, "/zookeeper/quota/a", nil)
	put(wire.OpCreate, quota, nil)
	put(wire.OpCreate, quota+"/zookeeper_limits", rng.Pick(g.rng, quotaValues))
	put(wire.OpSetData, quota+"/zookeeper_limits", rng.Pick(g.rng, quotaValues))
	put(wire.OpCreate, quota+"/zookeeper_stats", []byte("count=0,bytes=0"))
	return list
}

// op draws one write.
func (g *Generator) op() Op {
	r := g.rng
	var o Op
	switch r.Weighted([]int{60, 16, 3, 1}) {
	case 0:
		o = g.single(false)
	case 1:
		o = Op{Code: wire.OpMulti}
		careful := r.OneIn(2) // or hardly a multi would succeed
		for range r.Intn(6) {
			sub := g.single(true)
			if careful {
				g.soften(&sub)
			}
			if r.OneIn(60) {
				sub.Code = rng.Pick(r, []wire.OpCode{wire.OpGetData, wire.OpSetACL, wire.OpDeleteContainer})
			}
			o.Multi = append(o.Multi, sub)
		}
	case 2:
		o = Op{Code: wire.OpReconfig, Members: g.reconfig()}
	case 3:
		o = Op{Code: rng.Pick(r, []wire.OpCode{wire.OpCheck, wire.OpDeleteContainer, 77, wire.OpGetData}), Path: "/a"}
	}
	if r.OneIn(25) {
		o.Mangle = Mangle{Kind: MangleKind(1 + r.Intn(int(NoEnd))), At: r.Intn(1 << 16)}
		if o.Mangle.Kind == Flipped && (o.Code == wire.OpReconfig || hasName(o.ACL)) {
			o.Mangle.Kind = Trailing
		}
	}
	return o
}

// serverLine is the line of a server, as a configuration writes it.
func serverLine(r *rng.Rand, n int) string {
	role := "participant"
	if r.OneIn(4) {
		role = "observer"
	}
	return fmt.Sprintf("server.%d=host%d:2888:3888:%s;host%d:%d", n, n, role, n, 2181+r.Intn(2))
}

// configuration is a list of some servers. Now and then one is garbage.
func (g *Generator) configuration(most int, separator string) string {
	r := g.rng
	var list []string
	for n := 1; n <= 5; n++ {
		if r.Intn(5) < most {
			list = append(list, serverLine(r, n))
		}
	}
	if r.OneIn(12) {
		list = append(list, model.Garbage)
	}
	return strings.Join(list, separator)
}

func (g *Generator) reconfig() Reconfig {
	r := g.rng
	c := Reconfig{Version: -1, Whole: r.OneIn(4)}
	if r.OneIn(10) {
		c.Version = int64(r.Intn(1000))
	}
	if c.Whole {
		c.Joining = g.configuration(3, "\n")
		return c
	}
	if !r.OneIn(3) {
		c.Joining = g.configuration(1, ",")
	}
	if !r.OneIn(3) {
		c.Leaving = rng.Pick(r, []string{"1", "2", "3,4", "5", "9", "x"})
	}
	return c
}

// membersStep is what a leader says of the members: for the most part something that fits.
func (g *Generator) membersStep() MembersStep {
	r := g.rng
	s := MembersStep{Step: rng.Pick(r, []state.MembersStep{
		state.MembersInitial, state.MembersReached, state.MembersReached, state.MembersDone, state.MembersDone, state.MembersAborted,
	})}
	if s.Step == state.MembersInitial || s.Step == state.MembersReached {
		s.Lines = g.configuration(4, "\n")
	}
	if s.Step == state.MembersAborted && !r.OneIn(5) {
		s.Code = wire.NewConfigNoQuorum
	}
	switch r.Intn(12) {
	case 0:
		s.TargetOff = 1
	case 1:
		s.StepOff = 1
	case 2:
		s.StepOff = -1
	}
	return s
}

// hasName says whether a list has an X.500 name, whose grammar the model knows too little
// of to judge a damaged one.
func hasName(list []wire.ACL) bool {
	return slices.ContainsFunc(list, func(a wire.ACL) bool { return a.ID.Scheme == "x509" })
}

// soften makes it likely that an operation succeeds.
func (g *Generator) soften(o *Op) {
	o.Version = -1
	switch o.Code {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		o.ACL = openACL
		o.Path, o.Recent = rng.Pick(g.rng, []string{"/s-", "/a/s-", "/b/s-"}), 0
		o.Flags = wire.FlagPersistentSequential
		if o.Code == wire.OpCreateTTL {
			o.Flags = wire.FlagPersistentSequentialTTL
		}
	case wire.OpDelete:
		o.Recent = 1 + g.rng.Intn(4)
	default:
		o.Path = "/" + rng.Pick(g.rng, []string{"a", "b"})
	}
}

func (g *Generator) single(inMulti bool) Op {
	r := g.rng
	o := Op{Version: g.version()}
	o.Path, o.Recent = g.path()
	codes := []wire.OpCode{
		wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL,
		wire.OpDelete, wire.OpSetData, wire.OpSetACL, wire.OpCheck,
	}
	weights := []int{22, 10, 4, 5, 14, 18, 8, 0}
	if inMulti {
		weights = []int{22, 10, 3, 4, 10, 16, 0, 12}
	}
	o.Code = codes[r.Weighted(weights)]
	switch o.Code {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		o.Data, o.ACL = g.data(o.Path), g.acl()
		o.Flags, o.TTLMs = g.mode(o.Code)
		if sequential(o.Flags) && !r.OneIn(5) {
			o.Path, o.Recent = rng.Pick(r, sequencePrefixes), 0
		}
	case wire.OpSetData:
		o.Data = g.data(o.Path)
	case wire.OpSetACL:
		o.ACL = g.acl()
		if (o.Path == "/" || o.Path == "/a") && !r.OneIn(4) {
			o.ACL = openACL // or nobody could do anything for long
		}
	}
	return o
}

func sequential(flags int32) bool {
	switch flags {
	case wire.FlagPersistentSequential, wire.FlagEphemeralSequential, wire.FlagPersistentSequentialTTL:
		return true
	}
	return false
}

// mode draws flags and ttl, mostly those that the opcode allows.
func (g *Generator) mode(code wire.OpCode) (flags int32, ttlMs int64) {
	r := g.rng
	ttlMs = []int64{1, 50, 1000, 3000, 3000, 3000, 0xffffffffff}[r.Intn(7)]
	if r.OneIn(30) {
		return int32(r.Intn(10) - 1), []int64{-1, 0, -5, 1000, 1 << 40}[r.Intn(5)]
	}
	switch code {
	case wire.OpCreateContainer:
		flags = []int32{wire.FlagContainer, wire.FlagContainer, wire.FlagPersistent, wire.FlagEphemeral, wire.FlagPersistentSequential}[r.Intn(5)]
	case wire.OpCreateTTL:
		flags = []int32{wire.FlagPersistentTTL, wire.FlagPersistentSequentialTTL}[r.Intn(2)]
	default:
		flags = []int32{
			wire.FlagPersistent, wire.FlagPersistent, wire.FlagPersistent, wire.FlagEphemeral, wire.FlagEphemeral,
			wire.FlagPersistentSequential, wire.FlagEphemeralSequential, wire.FlagContainer,
		}[r.Intn(8)]
	}
	return flags, ttlMs
}

func (g *Generator) version() int32 {
	switch g.rng.Weighted([]int{70, 15, 8, 4, 2, 1}) {
	case 1:
		return 0
	case 2:
		return 1
	case 3:
		return 2
	case 4:
		return int32(g.rng.Intn(6))
	case 5:
		return []int32{-2, 1 << 30, -1 << 31}[g.rng.Intn(3)]
	}
	return -1
}

func (g *Generator) data(path string) []byte {
	r := g.rng
	if r.OneIn(8) {
		return nil
	}
	if len(path) > 10 && path[:10] == "/zookeeper" && !r.OneIn(10) {
		return rng.Pick(r, quotaValues)
	}
	b := make([]byte, []int{0, 1, 3, 10, 40}[r.Intn(5)])
	r.Fill(b)
	return b
}

func (g *Generator) acl() []wire.ACL {
	r := g.rng
	switch r.Weighted([]int{70, 25, 5}) {
	case 0:
		return openACL
	case 1:
		return rng.Pick(r, goodACLs)
	}
	return rng.Pick(r, badACLs)
}

// path draws a path, or refers to one that was created lately.
func (g *Generator) path() (path string, recent int) {
	r := g.rng
	switch r.Weighted([]int{60, 26, 6, 5, 3}) {
	case 0:
		for range 1 + r.Weighted([]int{60, 30, 10}) {
			path += "/" + rng.Pick(r, []string{"a", "b", "c"})
		}
		return path, 0
	case 1:
		return "/a", 1 + r.Intn(1+r.Intn(g.recent))
	case 2:
		return rng.Pick(r, quotaPaths), 0
	case 3:
		return rng.Pick(r, []string{"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"}), 0
	}
	return rng.Pick(r, oddPaths), 0
}

func (g *Generator) read() Read {
	r := g.rng
	rd := Read{Slot: r.Intn(g.slots), IDs: rng.Pick(r, identities)}
	rd.Path, rd.Recent = g.path()
	rd.Op = rng.Pick(r, []wire.OpCode{
		wire.OpGetData, wire.OpExists, wire.OpGetACL, wire.OpGetChildren, wire.OpGetChildren2,
		wire.OpGetAllChildrenNumber, wire.OpGetEphemerals, wire.OpMultiRead, wire.OpSetWatches2,
	})
	if rd.Op == wire.OpSetWatches2 {
		paths := func() (list []string) {
			for range r.Intn(4) {
				p, _ := g.path()
				list = append(list, p)
			}
			return list
		}
		rd.Watch = &wire.SetWatches2{
			RelativeZxid: int64(r.Intn(4))<<32 + int64(r.Intn(3000)),
			DataWatches:  paths(), ExistWatches: paths(), ChildWatches: paths(),
			PersistentWatches: paths(), PersistentRecursiveWatches: paths(),
		}
	}
	return rd
}

var sequencePrefixes = []string{
	"/s-", "/spent/s-", "/spent/", "/a/s-", "/a/t-", "/b/s-", "/c/", "/a/b/s-", "/", "/a//s-", "/zookeeper/s-", "/none/s-", "/a/.",
}

var quotaPaths = func() []string {
	var list []string
	for _, p := range []string{"/a", "/a/b", "/b", "/c/c", "/a/a"} {
		list = append(list, "/zookeeper/quota"+p, "/zookeeper/quota"+p+"/zookeeper_limits",
			"/zookeeper/quota"+p+"/zookeeper_stats")
	}
	return append(list, "/zookeeper/quota/zookeeper_limits", "/zookeeper/quota/zookeeper_stats")
}()

var quotaValues = [][]byte{
	[]byte("count=1000,bytes=-1"), []byte("count=0,bytes=0"), []byte("count=3,bytes=5"),
	[]byte("count=-1,bytes=-1=;countHardLimit=2"), []byte("count=-1,bytes=-1=;byteHardLimit=30"),
	[]byte("count=2,bytes=-1=;byteHardLimit=10;countHardLimit=3"), []byte("count=7,bytes=7=;countHardLimit=6"),
	[]byte("garbage"), []byte(""), []byte("count=,bytes=x"), []byte("bytes=3;count=2"),
}

var oddPaths = []string{
	"", "a", "a/b", "//", "//a", "/a/", "/a//b", "/a/.", "/a/..", "/./a", "/a/...", "/.a", "/a.",
	"/a/b\x00", "/a\x01", "/a\u007f", "/a\u0090", "/a\ue000", "/a\uf8ff", "/a\uf900", "/a\uffef", "/a\ufff0",
	"/a\ufffd", "/a\U0001f600", "/a\u00a0b", "/a b", "/ä", "/a\xff", "/zookeeper/x", "/zookeeper/quota/x",
}

const (
	bobHash   = "bob:ikIaKsbtGweaHnb/jKn7OHqbunM="
	aliceHash = "alice:AaAaAaAaAaAaAaAaAaAaAaAaAaA="
)

var superID = []wire.ID{{Scheme: "super"}}

var identities = [][]wire.ID{
	nil,
	{{Scheme: "ip", ID: "127.0.0.1"}},
	{{Scheme: "ip", ID: "127.0.0.1"}},
	{{Scheme: "ip", ID: "10.1.2.3"}, {Scheme: "digest", ID: bobHash}},
	{{Scheme: "ip", ID: "127.0.0.1"}, {Scheme: "digest", ID: bobHash}, {Scheme: "digest", ID: aliceHash}},
	{{Scheme: "ip", ID: "127.0.0.1"}, {Scheme: "digest", ID: aliceHash}, {Scheme: "sasl", ID: "alice"}},
	{{Scheme: "ip", ID: "::1"}, {Scheme: "x509", ID: "CN=alice"}},
	{{Scheme: "ip", ID: "fe80::1"}, {Scheme: "sasl", ID: "super"}},
	{{Scheme: "sasl", ID: "carol@REALM"}},
	superID, superID,
}

var openACL = []wire.ACL{{Perms: 31, ID: wire.ID{Scheme: "world", ID: "anyone"}}}

func entry(perms int32, scheme, id string) wire.ACL {
	return wire.ACL{Perms: perms, ID: wire.ID{Scheme: scheme, ID: id}}
}

var goodACLs = [][]wire.ACL{
	{entry(1, "world", "anyone")},
	{entry(31, "auth", "")},
	{entry(31, "auth", "ignored"), entry(1, "world", "anyone")},
	{entry(31, "digest", bobHash)},
	{entry(31, "digest", aliceHash), entry(4, "digest", bobHash), entry(8, "world", "anyone")},
	{entry(31, "ip", "10.0.0.0/8"), entry(1, "ip", "127.0.0.1")},
	{entry(31, "ip", "fe80::/10"), entry(31, "ip", "::1")},
	{entry(31, "ip", "0.0.0.0/0")},
	{entry(31, "sasl", "alice"), entry(16, "digest", bobHash)},
	{entry(31, "sasl", "alice/host@REALM"), entry(1, "sasl", "")},
	{entry(31, "x509", "CN=alice"), entry(1, "world", "anyone")},
	{entry(0, "world", "anyone")},
	{entry(64, "world", "anyone"), entry(31, "digest", bobHash)},
	{entry(16, "world", "anyone")},
	{entry(31, "world", "anyone"), entry(31, "world", "anyone"), entry(1, "world", "anyone")},
	{entry(2, "digest", bobHash), entry(2, "auth", ""), entry(2, "auth", "")},
	{entry(-1, "world", "anyone")},
}

var badACLs = [][]wire.ACL{
	nil,
	{},
	{entry(31, "world", "foo")},
	{entry(31, "", "")},
	{entry(31, "nosuch", "x")},
	{entry(31, "super", "")},
	{entry(31, "digest", "bob")},
	{entry(31, "digest", "a:b:c")},
	{entry(31, "ip", "300.1.1.1")},
	{entry(31, "ip", "10.0.0.0/33")},
	{entry(31, "ip", "host.example")},
	{entry(31, "sasl", "a@b@c")},
	{entry(31, "sasl", "a/b/c@d")},
	{entry(31, "x509", "not a name")},
	{entry(31, "world", "anyone"), entry(31, "world", "nobody")},
}
