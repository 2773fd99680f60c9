package acl

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/wire"
)

var all = &Settings{SASLEnabled: true, X509Enabled: true}

func entry1(perms int32, scheme, id string) []wire.ACL {
	return []wire.ACL{{Perms: perms, ID: wire.ID{Scheme: scheme, ID: id}}}
}

func ids(pairs ...string) []wire.ID {
	var out []wire.ID
	for _, p := range pairs {
		scheme, id, _ := strings.Cut(p, "|")
		out = append(out, wire.ID{Scheme: scheme, ID: id})
	}
	return out
}

func TestCheckPermits(t *testing.T) {
	skip := &Settings{SkipACL: true}
	noDigest := &Settings{DigestDisabled: true}
	letRoot := &Settings{SASLEnabled: true, LetAnySASLUserDo: "root"}
	bob := ids("digest|bob:hash")
	tests := []struct {
		name string
		s    *Settings
		list []wire.ACL
		perm int32
		ids  []wire.ID
		want bool
	}{
		{"world to a stranger", all, Open(), wire.PermRead, nil, true},
		{"world only for its bits", all, entry1(wire.PermRead, "world", "anyone"), wire.PermWrite, bob, false},
		{"world with another name", all, entry1(31, "world", "someone"), wire.PermRead, nil, false},
		{"empty list", all, nil, wire.PermAdmin, nil, true},
		{"owner", all, entry1(31, "digest", "bob:hash"), wire.PermRead, bob, true},
		{"other hash", all, entry1(31, "digest", "bob:hush"), wire.PermRead, bob, false},
		{"no identity", all, entry1(31, "digest", "bob:hash"), wire.PermRead, nil, false},
		{"other scheme, same name", all, entry1(31, "sasl", "bob:hash"), wire.PermRead, bob, false},
		{"one of two bits", all, entry1(wire.PermRead, "digest", "bob:hash"), wire.PermRead | wire.PermAdmin, bob, true},
		{"neither of two bits", all, entry1(wire.PermWrite, "digest", "bob:hash"), wire.PermRead | wire.PermAdmin, bob, false},
		{"no bits", all, entry1(0, "world", "anyone"), wire.PermRead, nil, false},
		{"unknown bit", all, entry1(64, "world", "anyone"), wire.PermAll, nil, false},
		{"super", all, entry1(0, "digest", "bob:hash"), wire.PermAdmin, []wire.ID{Super}, true},
		{"checks switched off", skip, entry1(0, "digest", "bob:hash"), wire.PermAdmin, nil, true},
		{"digest switched off", noDigest, entry1(31, "digest", "bob:hash"), wire.PermRead, bob, false},
		{"address", all, entry1(31, "ip", "10.0.0.1"), wire.PermRead, ids("ip|10.0.0.1"), true},
		{"network", all, entry1(31, "ip", "10.0.0.0/8"), wire.PermRead, ids("ip|10.200.3.1"), true},
		{"network, host bits set", all, entry1(31, "ip", "10.0.0.77/8"), wire.PermRead, ids("ip|10.200.3.1"), true},
		{"outside the network", all, entry1(31, "ip", "10.0.0.0/8"), wire.PermRead, ids("ip|11.0.0.1"), false},
		{"everywhere", all, entry1(31, "ip", "0.0.0.0/0"), wire.PermRead, ids("ip|11.0.0.1"), true},
		{"other family", all, entry1(31, "ip", "0.0.0.0/0"), wire.PermRead, ids("ip|::1"), false},
		{"IPv6", all, entry1(31, "ip", "2001:db8::/32"), wire.PermRead, ids("ip|2001:db8:0:1::7"), true},
		{"IPv6, another way to write it", all, entry1(31, "ip", "0:0:0:0:0:0:0:1"), wire.PermRead, ids("ip|::1"), true},
		{"IPv6, zone of the caller", all, entry1(31, "ip", "fe80::/10"), wire.PermRead, ids("ip|fe80::1%eth0"), true},
		{"IPv4 through an IPv6 socket", all, entry1(31, "ip", "10.0.0.0/8"), wire.PermRead, ids("ip|::ffff:10.0.0.1"), true},
		{"sasl user", all, entry1(31, "sasl", "kafka/h@R"), wire.PermRead, ids("sasl|kafka/h@R"), true},
		{"sasl user super, sasl entry", all, entry1(31, "sasl", "kafka"), wire.PermRead, ids("sasl|super"), true},
		{"sasl user super, digest entry", all, entry1(31, "digest", "bob:hash"), wire.PermRead, ids("sasl|super"), false},
		{"any sasl user", letRoot, entry1(31, "sasl", "root"), wire.PermRead, ids("sasl|kafka"), true},
		{"any sasl user, other entry", letRoot, entry1(31, "sasl", "kafka"), wire.PermRead, ids("sasl|hbase"), false},
		{"sasl without the provider", &Settings{}, entry1(31, "sasl", "kafka"), wire.PermRead, ids("sasl|kafka"), false},
		{"certificate", all, entry1(31, "x509", "CN=a"), wire.PermRead, ids("x509|CN=a"), true},
		{"other certificate", all, entry1(31, "x509", "CN=a"), wire.PermRead, ids("x509|CN=b"), false},
	}
	for _, tt := range tests {
		if got := Allowed(tt.s, tt.list, tt.perm, tt.ids); got != tt.want {
			t.Errorf("%s: allowed is %v", tt.name, got)
		}
		if len(tt.list) == 0 {
			continue
		}
		// Among many entries and identities that have nothing to do with each other it is the same.
		list, caller := slices.Clone(tt.list), slices.Clone(tt.ids)
		for i := range fewEntries {
			list = append(list, entry1(31, "digest", fmt.Sprintf("other%d:hash", i))...)
			caller = append(caller, wire.ID{Scheme: "digest", ID: fmt.Sprintf("caller%d:hash", i)}, wire.ID{Scheme: "x509", ID: fmt.Sprintf("CN=%d", i)})
		}
		if got := Allowed(tt.s, list, tt.perm, caller); got != tt.want {
			t.Errorf("%s, among many: allowed is %v", tt.name, got)
		}
	}
}

// A client has as many identities as it likes, up to a limit, and makes lists as long as a frame. A
// check is made while everybody waits: comparing all with all took half a second.
func TestLongListIsCheckedInTimeForManyIdentities(t *testing.T) {
	var list []wire.ACL
	for i := range 24_000 {
		list = append(list, entry1(31, "digest", fmt.Sprintf("u:%027d=", i))...)
	}
	var caller []wire.ID
	for i := range 450 {
		caller = append(caller, wire.ID{Scheme: "digest", ID: fmt.Sprintf("u:%027d=", len(list)+i)})
	}
	const checks = 100 // a fraction of a second, or a minute
	deadline := time.Now().Add(40 * time.Second)
	for i := range checks {
		if Allowed(all, list, wire.PermRead, caller) {
			t.Fatal("a stranger is allowed")
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d checks took 40 s", i+1, checks)
		}
	}
}

func TestExpandJudgesEntries(t *testing.T) {
	tests := []struct {
		scheme, id string
		valid      bool
	}{
		{"world", "anyone", true},
		{"world", "someone", false},
		{"world", "", false},
		{"", "", false},
		{"nosuch", "x", false},
		{"super", "", false},
		{"digest", "bob:hash", true},
		{"digest", ":hash", true},
		{"digest", "a:b:", true},
		{"digest", "bob", false},
		{"digest", "bob:", false},
		{"digest", ":", false},
		{"digest", "", false},
		{"digest", "a:b:c", false},
		{"ip", "10.0.0.1", true},
		{"ip", "10.0.0.1/0", true},
		{"ip", "10.0.0.1/32", true},
		{"ip", "::1", true},
		{"ip", "2001:db8::/128", true},
		{"ip", "::ffff:1.2.3.4/96", true},
		{"ip", "10.0.0.1/33", false},
		{"ip", "10.0.0.1/-1", false},
		{"ip", "10.0.0.1/", false},
		{"ip", "10.0.0", false},
		{"ip", "::1/129", false},
		{"ip", "fe80::1%eth0", false},
		{"ip", "", false},
		{"ip", "10.0.0.1/8/8", false},
		{"ip", "::ffff:1.2.3.4/8", false},
		{"sasl", "kafka", true},
		{"sasl", "kafka/host@REALM", true},
		{"sasl", "kafka@REALM", true},
		{"sasl", "a/b/c", true},
		{"sasl", "a/b/c@R", false},
		{"sasl", "a@b@c", false},
		{"sasl", "a@b/c", false},
		{"x509", "CN=client,OU=dev,O=acme", true},
		{"x509", "", true},
		{"x509", "cn = a , ou = b", true},
		{"x509", `CN=a\,b,O="x, y" `, true},
		{"x509", "1.2.840.113549.1.9.1=#160361", true},
		{"x509", "OID.2.5.4.3=a", true},
		{"x509", "CN=a+OU=b;O=c", true},
		{"x509", `CN="a\"b\2c"`, true},
		{"x509", `CN="a\q"`, false},
		{"x509", `CN="a\`, false},
		{"x509", `CN=\e4x`, true},
		{"x509", "CN=", true},
		{"x509", "client", false},
		{"x509", "CN=a,", false},
		{"x509", "XX=a", false},
		{"x509", `CN="a`, false},
		{"x509", `CN="a"b`, false},
		{"x509", "CN=#1", false},
		{"x509", "CN=#", false},
		{"x509", `CN=a\`, false},
		{"x509", `CN=a\q`, false},
		{"x509", "CN=a<b", false},
		{"x509", "3.4=a", false},
		{"x509", "1.=a", false},
		{"x509", "1=a", false},
	}
	for _, tt := range tests {
		_, code := Expand(all, entry1(1, tt.scheme, tt.id), nil)
		if (code == wire.OK) != tt.valid {
			t.Errorf("%s:%s gives %v", tt.scheme, tt.id, code)
		}
	}
}

func TestExpandRefusesSchemesThatAreOff(t *testing.T) {
	off := &Settings{DigestDisabled: true}
	for _, scheme := range []string{"digest", "sasl", "x509"} {
		if _, code := Expand(off, entry1(1, scheme, "CN=a:b"), nil); code != wire.InvalidACL {
			t.Errorf("%s gives %v", scheme, code)
		}
	}
}

func TestExpandDropsDuplicatesAndKeepsOrder(t *testing.T) {
	many := []wire.ACL{}
	for range 3 {
		for i := range 40 {
			many = append(many, wire.ACL{Perms: int32(i), ID: wire.ID{Scheme: "world", ID: "anyone"}})
		}
	}
	for _, list := range [][]wire.ACL{many, append(append([]wire.ACL(nil), many[5:9]...), many[3:7]...)} {
		var want []wire.ACL
		for _, e := range list {
			if !contains(want, &e) {
				want = append(want, e)
			}
		}
		before := append([]wire.ACL(nil), list...)
		got, code := Expand(all, list, nil)
		if code != wire.OK || !reflect.DeepEqual(got, want) {
			t.Errorf("got %v %v, want %v", code, got, want)
		}
		if !reflect.DeepEqual(list, before) {
			t.Error("the request was changed")
		}
	}
}

func TestExpandRefusesNothing(t *testing.T) {
	if _, code := Expand(all, nil, nil); code != wire.InvalidACL {
		t.Errorf("null list gives %v", code)
	}
}

func TestAuthEntryBecomesTheProvedIdentities(t *testing.T) {
	caller := ids("ip|10.0.0.1", "digest|bob:h", "sasl|kafka", "super|", "x509|CN=a", "world|anyone")
	list := append(entry1(3, "world", "anyone"), entry1(31, "auth", "ignored")...)
	got, code := Expand(all, list, caller)
	want := append(entry1(3, "world", "anyone"), entry1(31, "digest", "bob:h")...)
	want = append(want, entry1(31, "sasl", "kafka")...)
	want = append(want, entry1(31, "x509", "CN=a")...)
	if code != wire.OK || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v %v", code, got)
	}
	for _, nobody := range [][]wire.ID{nil, ids("ip|10.0.0.1"), {Super}} {
		if _, code := Expand(all, list, nobody); code != wire.InvalidACL {
			t.Errorf("identities %v give %v", nobody, code)
		}
	}
}

func TestExpansionIsBounded(t *testing.T) {
	var list []wire.ACL
	for i := range 5000 {
		list = append(list, entry1(int32(i), "auth", "")...)
	}
	var caller []wire.ID
	for i := range 100 {
		caller = append(caller, wire.ID{Scheme: "digest", ID: fmt.Sprintf("u%d:h", i)})
	}
	if _, code := Expand(all, list, caller); code != wire.InvalidACL {
		t.Errorf("half a million entries give %v", code)
	}
}

func TestRedactHidesHashesOnly(t *testing.T) {
	list := append(entry1(31, "digest", "bob:hash"), entry1(1, "sasl", "a:b")...)
	got := Redact(list)
	if got[0].ID.ID != "bob:x" || got[1].ID.ID != "a:b" {
		t.Errorf("got %v", got)
	}
	if list[0].ID.ID != "bob:hash" {
		t.Error("the stored list was changed")
	}
}

// The hash under SHA1 was seen on a ZooKeeper server; the others are openssl's.
func TestDigestIDIsTheDeployedOne(t *testing.T) {
	for alg, want := range map[string]string{
		"":            "ikIaKsbtGweaHnb/jKn7OHqbunM=",
		"SHA1":        "ikIaKsbtGweaHnb/jKn7OHqbunM=",
		"sha-1":       "ikIaKsbtGweaHnb/jKn7OHqbunM=",
		"MD5":         "mFIN705h49CRioANaL/new==",
		"SHA-224":     "V2mvd2ffOcs02HpVY83ycSg9kqz4jTlMn1ET9Q==",
		"SHA-256":     "lXdkgIa9O1CDDWAryQ0pe9wUYi2LkG6M7Uocn/Vyn2g=",
		"SHA-384":     "Pd/l06QeLk9MqD36VccOX0Fw1tgKhSdAl0mKINCHnwpI9R17BoWbdxukNC3K47Q1",
		"SHA-512":     "jQFpfQMlS0Fkelz3cdxBlcfmOOApGvKAjybCSpc/oHQD7ouOUKaAFXPlHr/2XpjmwJ0yssqB0Mh7gRRVqmyALQ==",
		"SHA-512/224": "cqvSV2UbZ2q5COXLGv28T5tsr77x6AK7tzbGZg==",
		"SHA-512/256": "A9N1joy8pAxXpZyuKoYHmry5YD7X6ES6VJn8WVyn8xY=",
		"SHA3-224":    "fqMLUfmRZ/TdX0+Lt0clG29f8TwR0BK3i2sI4Q==",
		"SHA3-256":    "W/mjsw4pvF0wVTGZI9EiUQDRnUt7BAezTWEy2LgNGUU=",
		"SHA3-384":    "neI1l8NU58TsHuf2cowDs76KxkaB8h1w2ynsbAWtkX74bewzshqLfF6LxMupPWoT",
		"SHA3-512":    "9JiU1QoRHYjkQxinb/Pky+SyJQD3SLv3LWNYy7TX/W5j+QuI+VpFa9SjJxvJcHoP9V3Nqf0j+v3SigN2Lchj6Q==",
	} {
		if !KnownDigest(alg) {
			t.Errorf("%s is unknown", alg)
		} else if got := DigestID(alg, "bob:pw"); got != "bob:"+want {
			t.Errorf("%s gives %s, want bob:%s", alg, got, want)
		}
	}
	if KnownDigest("CRC32") {
		t.Error("CRC32 is known")
	}
}

func TestDigestIDHashesTheWholeText(t *testing.T) {
	if a, b := DigestID("", "bob:a:b"), DigestID("", "bob:a"); !strings.HasPrefix(a, "bob:") || a == b {
		t.Errorf("%s and %s", a, b)
	}
	if got := DigestID("", "text"); !strings.HasPrefix(got, "text:") || len(got) != len("text:")+28 {
		t.Errorf("text without a colon gives %s", got)
	}
}

func TestDigestOfAnUnknownAlgorithmPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	DigestID("CRC32", "bob:pw")
}

func TestWhoAmIShowsNoSecrets(t *testing.T) {
	for id, want := range map[wire.ID]string{
		{Scheme: "digest", ID: "bob:hash"}: "bob",
		{Scheme: "ip", ID: "10.0.0.1"}:     "10.0.0.1",
		{Scheme: "sasl", ID: "kafka@R"}:    "kafka@R",
		{Scheme: "x509", ID: "CN=a"}:       "CN=a",
		{Scheme: "super", ID: ""}:          "",
	} {
		if got := UserName(id); got != want {
			t.Errorf("%v shows %q", id, got)
		}
	}
}

func TestChecksDoNotAllocate(t *testing.T) {
	caller := ids("ip|10.0.0.1", "digest|bob:h")
	list := append(entry1(31, "ip", "192.168.0.0/16"), entry1(31, "digest", "bob:h")...)
	if n := testing.AllocsPerRun(100, func() {
		if !Allowed(all, list, wire.PermRead, caller) || !Allowed(all, Open(), wire.PermRead, caller) {
			t.Fatal("refused")
		}
		if _, code := Expand(all, list, caller); code != wire.OK {
			t.Fatal(code)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAllowed(b *testing.B) {
	caller := ids("ip|10.0.0.1", "digest|bob:h")
	for name, list := range map[string][]wire.ACL{
		"open": Open(), "digest": entry1(31, "digest", "bob:h"), "ip": entry1(31, "ip", "10.0.0.0/8"),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Allowed(all, list, wire.PermRead, caller)
			}
		})
	}
}

func FuzzNames(f *testing.F) {
	for _, s := range []string{"10.0.0.0/8", "::ffff:1.2.3.4/100", "fe80::1%e/3", "bob:x:", "a/b@R", `CN=a\,b+OU="q"`, "1.2=#00"} {
		f.Add(s, "10.1.2.3")
	}
	f.Fuzz(func(t *testing.T, name, caller string) {
		for _, scheme := range []string{"ip", "digest", "sasl", "x509", "world", "nosuch"} {
			list, code := Expand(all, entry1(31, scheme, name), nil)
			if code != wire.OK {
				continue
			}
			if !Allowed(all, list, wire.PermRead, ids(scheme+"|"+name)) && scheme != "ip" {
				t.Errorf("%s:%q does not match itself", scheme, name)
			}
			Allowed(all, list, wire.PermRead, ids(scheme+"|"+caller))
			Redact(list)
		}
	})
}
