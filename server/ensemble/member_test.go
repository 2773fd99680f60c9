package ensemble

import (
	"reflect"
	"strings"
	"testing"
)

// The column "want" is what Apache ZooKeeper 3.8.0 shows in /zookeeper/config of what it
// accepts, but for a TLS address (3.10) and several addresses (multiAddress.enabled).
func TestServerLineForms(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"h:1:2", "h:1:2:participant"},
		{"h:1:2:Observer", "h:1:2:observer"},
		{"h:1:2: OBSERVER ;3", "h:1:2:observer;0.0.0.0:3"},
		{"h:1:2;3", "h:1:2:participant;0.0.0.0:3"},
		{"h:1:2;", "h:1:2:participant"},
		{"h:1:2;c:3", "h:1:2:participant;c:3"},
		{"LOCALHOST:15:16;17", "LOCALHOST:15:16:participant;0.0.0.0:17"},
		{"h:1:2:participant;c:3;s:4", "h:1:2:participant;c:3;s:4"},
		{"h:1:2;;4", "h:1:2:participant;;0.0.0.0:4"},
		{"[::1]:5:6:observer;[::]:7", "[0:0:0:0:0:0:0:1]:5:6:observer;[0:0:0:0:0:0:0:0]:7"},
		{"[0:0:0:0:0:0:0:1]:5:6;[2001:DB8::0:1]:7", "[0:0:0:0:0:0:0:1]:5:6:participant;[2001:db8:0:0:0:0:0:1]:7"},
		{"[::ffff:192.0.2.1]:5:16:observer;17", "192.0.2.1:5:16:observer;0.0.0.0:17"},
		{"[fe80::1%eth0]:1:2", "[fe80:0:0:0:0:0:0:1%eth0]:1:2:participant"},
		{"10.0.0.1:1:2|h2:3:4:observer", "10.0.0.1:1:2|h2:3:4:observer"},
		{" h:1:2 ; 3", "h:1:2:participant;0.0.0.0:3"},
		{"zk_1.x-y.svc:1:2", "zk_1.x-y.svc:1:2:participant"},
		{"h:+1:2", "h:1:2:participant"},

		{"", "error"},
		{"h", "error"},
		{"h:1", "error"},
		{"h:1:1", "error"},
		{"h:1:2:3:4", "error"},
		{"h:1:2:leader", "error"},
		{":1:2", "error"},
		{"h:0:2", "error"},
		{"h:01:2", "error"},
		{"h:-1:2", "error"},
		{"h:0x1:2", "error"},
		{"h:1:65536", "error"},
		{"h:a:2", "error"},
		{"::1:1:2", "error"},
		{"[::1:1:2", "error"},
		{"[h]:1:2", "error"},
		{"[::1]1:2", "error"},
		{"[fe80::1%a b]:1:2", "error"},
		{"1.2.3:1:2", "error"},
		{"h/x:1:2", "error"},
		{"h x:1:2", "error"},
		{"h:1:2;3;4;5", "error"},
		{"h:1:2;c:3:4", "error"},
		{"h:1:2;x", "error"},
		{"h:1:2;70000", "error"},
		{"h:1:2;0", "error"},
		{"h:1:2:observer|i:3:4:participant", "error"},
		{"h:1:2|", "error"},
		{strings.Repeat("h", 300) + ":1:2", "error"},
		{strings.Repeat("h:1:2|", 16) + "h:1:2", "error"},
	} {
		m, err := ParseMember(1, test.text)
		got := "error"
		if err == nil {
			got = m.text()
		}
		if got != test.want {
			t.Errorf("%q: got %s (%v), want %s", test.text, got, err, test.want)
		}
	}
}

func TestPeopleReadShortAddresses(t *testing.T) {
	m, err := ParseMember(1, "[2001:DB8:0:0::3]:1:2;[::]:3;[0:0:0:0:0:0:0:1]:4")
	if want := "[2001:db8::3]:1:2:participant;[::]:3;[::1]:4"; err != nil || m.String() != want {
		t.Errorf("got %s (%v), want %s", m, err, want)
	}
}

// FuzzMember: what can be read is the same after it was written.
func FuzzMember(f *testing.F) {
	f.Add("h:1:2:observer;c:3;s:4")
	f.Add("[::1]:1:2|a:3:4;;[::]:5")
	f.Add("[fe80::1%a.b]:1:2;[::ffff:1.2.3.4]:5")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseMember(7, text)
		if err != nil {
			return
		}
		for _, text := range []string{m.String(), m.text()} {
			again, err := ParseMember(7, text)
			if err != nil || !reflect.DeepEqual(m, again) || !m.Equal(again) {
				t.Fatalf("%q: %+v, and %+v (%v) after a round trip", text, m, again, err)
			}
		}
	})
}
