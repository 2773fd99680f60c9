package state

import (
	"encoding/hex"
	"errors"
	"math"
	"reflect"
	"testing"

	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/wire"
	"pgregory.net/rapid"
)

// samples has a command of every kind, with every field that the kind has.
func samples() []Command {
	o := session.Origin{Boot: math.MaxUint64, Conn: 300}
	return []Command{
		{Kind: KindWrite, Session: -5, Epoch: 7, Req: 1 << 40, Op: wire.OpSetData, Body: []byte("body"), IDs: []wire.ID{{Scheme: "ip", ID: "::1"}, bobsID}},
		{Kind: KindWrite, Session: 5, Epoch: math.MaxUint32, Req: math.MaxUint64, Op: -3, Body: []byte{}},
		{Kind: KindCreateSession, Session: alice, Password: password(1), TimeoutMs: 4000, Origin: o},
		{Kind: KindAttach, Session: bob, Epoch: 3, Password: password(2), TimeoutMs: -1, Origin: o},
		{Kind: KindCloseSession, Session: alice, Epoch: 2, Req: 9},
		{Kind: KindExpire, Session: alice, Epoch: 4},
		{Kind: KindReap, Path: "/some/container"},
		{Kind: KindSync, Session: 1, Epoch: 2, Req: 3},
		{Kind: KindLevel, Level: 1},
	}
}

// memberSamples has a command of every step of a membership.
func memberSamples() []Command {
	text := []byte("server.1=h:1:2;3")
	return []Command{
		{Kind: KindMembers, Members: MembersInitial, Body: text},
		{Kind: KindMembers, Members: MembersReached, Target: 1<<32 | 5, Req: 300, Body: text},
		{Kind: KindMembers, Members: MembersDone, Target: math.MaxInt64, Body: []byte{}},
		{Kind: KindMembers, Members: MembersAborted, Target: -1, Code: wire.NewConfigNoQuorum, Body: []byte{}},
	}
}

// restoreSamples has a command of every step of a restore.
func restoreSamples() []Command {
	return []Command{
		{Kind: KindRestore, Restore: RestoreBegin, Target: math.MinInt64, Path: "/app", Body: []byte{}},
		{Kind: KindRestore, Restore: RestoreChunk, Target: -3, Req: 300, Body: []byte("nodes")},
		{Kind: KindRestore, Restore: RestoreCommit, Target: 1 << 40, Req: math.MaxUint64, Body: []byte("12345678")},
		{Kind: KindRestore, Restore: RestoreAbort, Target: 5, Body: []byte{}},
	}
}

func encode(h *BatchHeader, cmds []Command) []byte {
	b := AppendHeader(nil, h, len(cmds))
	for i := range cmds {
		b = AppendCommand(b, &cmds[i])
	}
	return b
}

func decodeAll(d *BatchDecoder, entry []byte) (h BatchHeader, cmds []Command, err error) {
	if err := d.Reset(entry, &h); err != nil {
		return h, nil, err
	}
	for {
		var c Command
		if !d.Next(&c) {
			return h, cmds, d.Err()
		}
		cmds = append(cmds, c)
	}
}

func TestBatchDecodesToWhatWasEncoded(t *testing.T) {
	headers := []BatchHeader{
		{},
		{TimeMs: 1753000000000, Settings: Settings{ExtendedTypes: true, MaxNeverUsedMs: 300000}},
		{TimeMs: -1, Settings: Settings{
			ACL:          acl.Settings{SkipACL: true, LetAnySASLUserDo: "root", DigestDisabled: true, SASLEnabled: true, X509Enabled: true},
			EnforceQuota: true, ExtendedTypes: true, Reconfig: true, MaxNeverUsedMs: -1,
		}},
		{Settings: Settings{SingleVoter: true, MultiAddress: true, ACL: acl.Settings{LetAnySASLUserDo: "root"}}},
	}
	var d BatchDecoder
	all := append(append(samples(), memberSamples()...), restoreSamples()...)
	for _, h := range headers {
		got, cmds, err := decodeAll(&d, encode(&h, all))
		if err != nil || got != h || !reflect.DeepEqual(cmds, all) {
			t.Errorf("header %+v: %+v %+v %v", h, got, cmds, err)
		}
	}
}

func TestEachSettingTravels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		flag := func() bool { return rapid.Bool().Draw(t, "on") }
		h := BatchHeader{TimeMs: rapid.Int64().Draw(t, "time"), Settings: Settings{
			ACL: acl.Settings{
				SkipACL: flag(), DigestDisabled: flag(), SASLEnabled: flag(), X509Enabled: flag(),
				LetAnySASLUserDo: rapid.String().Draw(t, "user"),
			},
			EnforceQuota: flag(), ExtendedTypes: flag(), Reconfig: flag(), MaxNeverUsedMs: rapid.Int64().Draw(t, "ms"),
			SingleVoter: flag(), MultiAddress: flag(),
		}}
		var d BatchDecoder
		if got, _, err := decodeAll(&d, encode(&h, nil)); err != nil || got != h {
			t.Fatalf("%+v became %+v (%v)", h, got, err)
		}
	})
}

// Whoever reads the log has one header for all entries.
func TestSwitchesDoNotStayOn(t *testing.T) {
	var d BatchDecoder
	var h BatchHeader
	for _, s := range []Settings{{SingleVoter: true, MultiAddress: true, Reconfig: true}, {}, {MultiAddress: true}, {SingleVoter: true}, {Reconfig: true}} {
		if err := d.Reset(encode(&BatchHeader{Settings: s}, nil), &h); err != nil || h.Settings != s {
			t.Errorf("%+v became %+v (%v)", s, h.Settings, err)
		}
	}
}

// goldenBatch is samples under a header of version 1.
const goldenBatch = "01d00f20ac020901fffffffffffffffb078080808080200a17026970033a3a310664696765737408" +
	"626f623a6861736804626f6479010000000000000005ffffffff0fffffffffffffffffff010500000201000000000000" +
	"01736563726574206f6620310000000000c03effffffffffffffffac0203010000000000000203736563726574206f66" +
	"2032000000000001ffffffffffffffffac02040100000000000001020905010000000000000104060f2f736f6d652f63" +
	"6f6e7461696e657207000000000000000102030801"

// The bytes of version 1: what has once been written to a log must stay readable.
func TestBatchFormatOneIsFrozen(t *testing.T) {
	h := BatchHeader{TimeMs: 1000, Settings: Settings{ExtendedTypes: true, MaxNeverUsedMs: 300}}
	got := hex.EncodeToString(encode(&h, samples()))
	if want := goldenBatch; got != want {
		t.Errorf("encoding is now\n%s\nwas\n%s", got, want)
	}
}

// goldenMembers is memberSamples under a header of version 2.
const goldenMembers = "02d00f00ac0202040900107365727665722e313d683a313a323b3301000009ac02107365727665722e313d68" +
	"3a313a323b33028a808080200009000003feffffffffffffffff0100090000040119"

// Version 2 is version 1 with more switches.
func TestBatchFormatTwoIsFrozen(t *testing.T) {
	h := BatchHeader{TimeMs: 1000, Settings: Settings{MultiAddress: true, MaxNeverUsedMs: 300}}
	got := hex.EncodeToString(encode(&h, memberSamples()))
	if want := goldenMembers; got != want {
		t.Errorf("encoding is now\n%s\nwas\n%s", got, want)
	}
}

func TestNewerFormatsAreToldFromDamage(t *testing.T) {
	level := samples()[8]
	level.Level = CurrentLevel + 1
	good := encode(&BatchHeader{}, samples()[7:8])
	step := memberSamples()[0]
	step.Members = MembersAborted + 1
	more := encode(&BatchHeader{Settings: Settings{SingleVoter: true}}, nil)
	more[len(more)-2] |= knownMore + 1
	var d BatchDecoder
	for name, entry := range map[string][]byte{
		"format": append([]byte{batchVersionMore + 1}, good[1:]...),
		"kind":   append(AppendHeader(nil, &BatchHeader{}, 1), 200, 0),
		"level":  encode(&BatchHeader{}, []Command{level}),
		"step":   encode(&BatchHeader{}, []Command{step}),
		"switch": more,
	} {
		_, _, err := decodeAll(&d, entry)
		var unsupported *UnsupportedError
		if !errors.As(err, &unsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	step.Members = 0
	for name, entry := range map[string][]byte{
		"nothing":        {},
		"no step":        encode(&BatchHeader{}, []Command{step}),
		"trailing bytes": append(good, 0),
		"too few":        encodeCount(5),
		"a huge count":   encodeCount(math.MaxInt),
	} {
		_, _, err := decodeAll(&d, entry)
		var damaged *DamagedError
		if !errors.As(err, &damaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// encodeCount is a batch that announces count commands and has one.
func encodeCount(count int) []byte {
	return AppendCommand(AppendHeader(nil, &BatchHeader{}, count), &Command{Kind: KindSync})
}

func TestEveryTruncatedBatchIsDamaged(t *testing.T) {
	var d BatchDecoder
	for _, h := range []BatchHeader{{TimeMs: 5}, {TimeMs: 5, Settings: Settings{SingleVoter: true}}} {
		entry := encode(&h, append(append(samples(), memberSamples()...), restoreSamples()...))
		for n := range entry {
			_, _, err := decodeAll(&d, entry[:n])
			var damaged *DamagedError
			if !errors.As(err, &damaged) {
				t.Errorf("%d of %d bytes: %v", n, len(entry), err)
			}
		}
	}
}

func TestRepeatedIdentitiesAreOneList(t *testing.T) {
	c := samples()[0]
	var d BatchDecoder
	_, cmds, err := decodeAll(&d, encode(&BatchHeader{}, []Command{c, c}))
	if err != nil || &cmds[0].IDs[0] != &cmds[1].IDs[0] {
		t.Errorf("two lists (%v)", err)
	}
}

func TestDecoderForgetsIdentitiesInTime(t *testing.T) {
	var d BatchDecoder
	long := make([]byte, maxIDBytes/4)
	for i := range 20 {
		long[0] = byte(i)
		c := Command{Kind: KindWrite, IDs: []wire.ID{{Scheme: "digest", ID: string(long)}}}
		if _, cmds, err := decodeAll(&d, encode(&BatchHeader{}, []Command{c})); err != nil || cmds[0].IDs[0] != c.IDs[0] {
			t.Fatal(err)
		}
		if d.size > maxIDBytes {
			t.Fatalf("%d bytes are remembered", d.size)
		}
	}
}

func TestDecodingDoesNotAllocatePerCommand(t *testing.T) {
	cmds := make([]Command, 100)
	for i := range cmds {
		cmds[i] = samples()[0]
	}
	entry := encode(&BatchHeader{Settings: Settings{ACL: acl.Settings{LetAnySASLUserDo: "root"}}}, cmds)
	var d BatchDecoder
	var h BatchHeader
	var c Command
	run := func() {
		if err := d.Reset(entry, &h); err != nil {
			t.Fatal(err)
		}
		for d.Next(&c) {
		}
	}
	run()
	if n := testing.AllocsPerRun(10, run); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzBatch(f *testing.F) {
	f.Add(encode(&BatchHeader{TimeMs: 5, Settings: Settings{ACL: acl.Settings{LetAnySASLUserDo: "u"}}}, samples()))
	f.Add(encode(&BatchHeader{TimeMs: 5, Settings: Settings{SingleVoter: true}}, memberSamples()))
	f.Add(encode(&BatchHeader{TimeMs: 5}, restoreSamples()))
	f.Fuzz(func(t *testing.T, entry []byte) {
		var d BatchDecoder
		h, cmds, err := decodeAll(&d, entry)
		if err != nil {
			return
		}
		h2, again, err := decodeAll(&d, encode(&h, cmds))
		if err != nil || h2 != h || !reflect.DeepEqual(again, cmds) {
			t.Errorf("%+v became %+v (%v)", cmds, again, err)
		}
	})
}

func BenchmarkDecodeBatch(b *testing.B) {
	cmds := make([]Command, 100)
	for i := range cmds {
		cmds[i] = samples()[0]
	}
	entry := encode(&BatchHeader{}, cmds)
	var d BatchDecoder
	var h BatchHeader
	var c Command
	b.ReportAllocs()
	for b.Loop() {
		_ = d.Reset(entry, &h)
		for d.Next(&c) {
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/command")
}

func BenchmarkAppendCommand(b *testing.B) {
	c := samples()[0]
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendCommand(buf[:0], &c)
	}
}
