package config

import (
	"reflect"
	"testing"
)

func TestServerLineForms(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"h:1:2", "h:1:2:participant"},
		{"h:1:2:Observer", "h:1:2:observer"},
		{"h:1:2;3", "h:1:2:participant;0.0.0.0:3"},
		{"h:1:2;", "h:1:2:participant"},
		{"h:1:2;c:3", "h:1:2:participant;c:3"},
		{"h:1:2:participant;c:3;s:4", "h:1:2:participant;c:3;s:4"},
		{"h:1:2;;4", "h:1:2:participant;;0.0.0.0:4"},
		{"[::1]:1:2;[::]:3;[2001:db8::1]:4", "[::1]:1:2:participant;[::]:3;[2001:db8::1]:4"},
		{"[fe80::1%eth0]:1:2", "[fe80::1%eth0]:1:2:participant"},
		{"10.0.0.1:1:2|h2:3:4:observer", "10.0.0.1:1:2|h2:3:4:observer"},
		{" h:1:2 ; 3", "h:1:2:participant;0.0.0.0:3"},
		{"zk_1.x-y.svc:1:2", "zk_1.x-y.svc:1:2:participant"},

		{"", "error"},
		{"h", "error"},
		{"h:1", "error"},
		{"h:1:1", "error"},
		{"h:1:2:3:4", "error"},
		{"h:1:2:leader", "error"},
		{":1:2", "error"},
		{"h:0:2", "error"},
		{"h:1:65536", "error"},
		{"h:a:2", "error"},
		{"::1:1:2", "error"},
		{"[::1:1:2", "error"},
		{"[h]:1:2", "error"},
		{"[::1]1:2", "error"},
		{"1.2.3:1:2", "error"},
		{"h/x:1:2", "error"},
		{"h:1:2;3;4;5", "error"},
		{"h:1:2;c:3:4", "error"},
		{"h:1:2;x", "error"},
		{"h:1:2:observer|i:3:4:participant", "error"},
		{"h:1:2|", "error"},
	} {
		m, err := ParseMember(1, test.text)
		got := "error"
		if err == nil {
			got = m.String()
		}
		if got != test.want {
			t.Errorf("%q: got %s (%v), want %s", test.text, got, err, test.want)
		}
	}
}

// FuzzMember: what can be read is the same after it was written.
func FuzzMember(f *testing.F) {
	f.Add("h:1:2:observer;c:3;s:4")
	f.Add("[::1]:1:2|a:3:4;;[::]:5")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseMember(7, text)
		if err != nil {
			return
		}
		again, err := ParseMember(7, m.String())
		if err != nil || !reflect.DeepEqual(m, again) {
			t.Fatalf("%q: %+v, and %+v (%v) after a round trip", text, m, again, err)
		}
	})
}
