package config

import (
	"slices"
	"strings"
	"testing"
)

// 0.0.0.0 is for a server's own line, where ZooKeeper allows it.
func TestEveryAddressIsForTheOwnLine(t *testing.T) {
	for _, test := range []struct {
		name    string
		lines   []string
		problem string
		warning string
	}{
		{"the own line", []string{"server.1=0.0.0.0:1:2", "server.2=b:1:2", "server.3=c:1:2"}, "", ""},
		{"the own line, IPv6", []string{"server.1=[::]:1:2", "server.2=b:1:2", "server.3=c:1:2"}, "", ""},
		{"all on one machine", []string{"server.1=0.0.0.0:1:2", "server.2=0.0.0.0:3:4", "server.3=0.0.0.0:5:6"}, "", ""},
		{"beside loopback", []string{"server.1=localhost:1:2", "server.2=0.0.0.0:3:4", "server.3=127.0.0.1:5:6"}, "", ""},
		{
			"the line of another one",
			[]string{"server.1=a:1:2", "server.2=0.0.0.0:1:2", "server.3=c:1:2"},
			"zoo.cfg:4: server.2: 0.0.0.0 is this machine, and server.2 is another one; allowed: the host at which it is found;" +
				" to have it listen everywhere set quorumListenOnAllIPs=true there", "",
		},
		{
			"one of several addresses",
			[]string{"server.1=a:1:2", "server.2=b:1:2|[::]:3:2", "server.3=c:1:2", "multiAddress.enabled=true"},
			"zoo.cfg:4: server.2: :: is this machine", "",
		},
		{"a single server", []string{"server.1=0.0.0.0:1:2"}, "", ""},
		{
			"an ensemble of one, which can grow",
			[]string{"server.1=0.0.0.0:1:2", "standaloneEnabled=false"},
			"",
			"will not find this server by 0.0.0.0; name its host, and set quorumListenOnAllIPs=true",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			src := node("1")
			text := "dataDir=/d\nclientPort=2181\n" + strings.Join(test.lines, "\n") + "\ninitLimit=5\nzkd.peerTLSDir=/tls\n"
			src.ReadFile = files{"zoo.cfg": text, "/d/myid": "1"}.read
			_, warnings, err := Load(src)
			if got := errorText(err); !strings.Contains(got, test.problem) || test.problem == "" && got != "" {
				t.Errorf("got problem %q, want %q", got, test.problem)
			}
			found := slices.ContainsFunc(warnings, func(w Warning) bool { return strings.Contains(w.Text, "will not find this server") })
			if found != (test.warning != "") || found && !strings.Contains(warnings[0].Text, test.warning) {
				t.Errorf("got warnings %v, want %q", warnings, test.warning)
			}
		})
	}
}
