package ensemble

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// three is /zookeeper/config of an ensemble of Apache ZooKeeper 3.8.0 that was just started,
// but for the ports.
const three = `server.1=127.0.0.1:2881:3881:participant;127.0.0.1:2181
server.2=127.0.0.1:2882:3882:participant;127.0.0.1:2182
server.3=127.0.0.1:2883:3883:participant;127.0.0.1:2183
version=100000000`

func parsed(t interface{ Fatal(...any) }, text string) Config {
	c, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestConfigurationIsWrittenAsZooKeeperWritesIt(t *testing.T) {
	c := parsed(t, three)
	if c.String() != three || c.Version != 1<<32 {
		t.Errorf("got version %#x and\n%s", c.Version, c)
	}
	if got := (Config{}).String(); got != "version=0" {
		t.Errorf("an empty one is %q", got)
	}
}

// What Java's Properties take for the same, ZooKeeper 3.8.0 took for the same.
func TestConfigurationsThatMeanTheSame(t *testing.T) {
	want := parsed(t, three)
	lines := strings.Split(three, "\n")
	for name, text := range map[string]string{
		"commas":           strings.Join(lines, ","),
		"another order":    strings.Join([]string{lines[3], lines[2], lines[0], lines[1]}, "\n"),
		"newline at end":   three + "\n",
		"CRLF":             strings.Join(lines, "\r\n"),
		"comments, blanks": "# c\n\n" + strings.ReplaceAll(three, "=", " = ") + "\n! x\n",
		"blank for equals": strings.Replace(three, "=", "\t", 1),
		"colon for equals": strings.Replace(three, "=", ":", 2),
		"indented":         "\t" + three,
		"blank at end":     strings.ReplaceAll(three, "\n", "  \n"), // ZooKeeper finds the port malformed
		"leading zero":     strings.Replace(three, "server.1", "server.01", 1),
	} {
		if c, err := Parse(text); err != nil || !c.Equal(want) {
			t.Errorf("%s: %v\n%s", name, err, c)
		}
	}
}

func TestUnreadableConfigurationsAreRefused(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"garbage", "hello", "hello: is unknown"},
		{"foreign key", three + "\nclientPort=3", "clientPort: is unknown"},
		{"no number", "server.=h:1:2", "not the number"},
		{"a word for a number", "server.x=h:1:2", "not the number"},
		{"hexadecimal number", "server.0x7=h:1:2", "not the number"},
		{"number 0", "server.0=h:1:2", "1 to 255"},
		{"negative number", "server.-4=h:1:2", "1 to 255"},
		{"number too high", "server.256=h:1:2", "1 to 255"},
		{"nothing behind the number", "server.1\nserver.2", "the host is empty"},
		{"malformed member", "server.1=h:1", "host:port:electionPort"},
		{"the same number twice", "server.1=h:1:2\nserver.01=i:1:2", "server.1 comes twice"},
		{"the same peer address twice", "server.1=Host:1:2\nserver.2=hosT:1:3", "host:1 is the peer address of server.1 and of server.2"},
		{"the same loopback address twice", "server.1=127.0.0.1:1:2\nserver.2=127.0.0.1:1:3", "is the peer address"},
		{"groups", three + "\ngroup.1=1:2:3", "every participant has one vote"},
		{"weights", three + "\nweight.1=1", "every participant has one vote"},
		{"a word for a version", "version=xyz", "not a version"},
		{"negative version", "version=-1", "not a version"},
		{"version too high", "version=8000000000000000", "not a version"},
		{"too long", strings.Repeat("#", MaxBytes+1), "bytes"},
	} {
		if c, err := Parse(tt.text); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v and %v, want %s", tt.name, c, err, tt.want)
		}
	}
}

// What can be made can be written and read back.
func TestConfigurationsHaveALimit(t *testing.T) {
	var members []Member
	host := strings.Repeat("h", maxHostBytes-8)
	for id := 1; id <= MaxID; id++ {
		m := Member{ID: id, Role: Observer, Client: HostPort{host, 65535}}
		for port := range 3 {
			m.Peers = append(m.Peers, PeerAddress{fmt.Sprint(host, id), 10000 + port, 65535})
		}
		members = append(members, m)
	}
	if _, err := New(members); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("%d bytes: %v", len(Config{Members: members}.String()), err)
	}
	for i := range members {
		members[i].Peers = members[i].Peers[:1]
	}
	c, err := New(members)
	if err != nil {
		t.Fatal(err)
	}
	c.Version = 1<<63 - 1
	if again, err := Parse(c.String()); err != nil || !again.Equal(c) {
		t.Error("what is just short enough cannot be read back:", err)
	}
}

func TestMembersAreFoundAndSorted(t *testing.T) {
	c := parsed(t, "server.17=c:1:2:observer\nserver.2=b:1:2\nserver.16=d:1:2:participant\nserver.1=a:1:2:observer")
	ids := func(list []Member) (ids []int) {
		for _, m := range list {
			ids = append(ids, m.ID)
		}
		return ids
	}
	if got := ids(c.Members); !slices.Equal(got, []int{1, 2, 16, 17}) {
		t.Errorf("members %v", got)
	}
	if got := ids(c.Voters()); !slices.Equal(got, []int{2, 16}) {
		t.Errorf("voters %v", got)
	}
	if got := ids(c.Observers()); !slices.Equal(got, []int{1, 17}) {
		t.Errorf("observers %v", got)
	}
	if m := c.Member(16); m == nil || m.Peers[0].Host != "d" {
		t.Errorf("server.16 is %v", m)
	}
	if m := c.Member(3); m != nil {
		t.Errorf("server.3 is %v", m)
	}
}

func TestCheckFindsEveryBrokenRule(t *testing.T) {
	good := parsed(t, three)
	for name, spoil := range map[string]func(c *Config){
		"C1 order":    func(c *Config) { slices.Reverse(c.Members) },
		"C1 twice":    func(c *Config) { c.Members[1].ID = 1 },
		"C2 number":   func(c *Config) { c.Members[2].ID = 256 },
		"C2 role":     func(c *Config) { c.Members[2].Role = "" },
		"C2 peer":     func(c *Config) { c.Members[2].Peers = nil },
		"C3":          func(c *Config) { c.Members[2].Peers = c.Members[1].Peers },
		"C4 negative": func(c *Config) { c.Version = -1 },
	} {
		c := Config{slices.Clone(good.Members), good.Version}
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		if spoil(&c); c.Check() == nil {
			t.Errorf("%s: nothing found", name)
		}
	}
}

func TestEqualLooksAtEverything(t *testing.T) {
	a := parsed(t, three)
	if b := parsed(t, three); !a.Equal(b) || !a.SameMembers(b) {
		t.Error("equal ones differ")
	}
	for _, change := range [][2]string{
		{"server.3", "server.4"},
		{"2883", "2884"},
		{"3883", "3884"},
		{"participant", "observer"},
		{":2183", ":2184"},
		{"127.0.0.1:2183", "127.0.0.2:2183"},
		{":2183", ":2183;1"},
		{"127.0.0.1:2883", "127.0.0.9:2883"},
	} {
		if b := parsed(t, strings.Replace(three, change[0], change[1], 1)); a.Equal(b) || a.SameMembers(b) {
			t.Errorf("%s to %s makes no difference", change[0], change[1])
		}
	}
	b := a
	if b.Version++; a.Equal(b) || !a.SameMembers(b) {
		t.Error("the version makes no difference, or all of it")
	}
}

// drawMembers draws members with peer addresses of their own.
func drawMembers(t *rapid.T, most int) []Member {
	host := rapid.SampledFrom([]string{"localhost", "zk-1.example.com", "10.0.0.7", "::1", "2001:db8::1", "fe80::1%eth0", "ZK", "0.0.0.0"})
	port := rapid.IntRange(1, 65535)
	var members []Member
	for _, id := range rapid.SliceOfNDistinct(rapid.IntRange(1, MaxID), 0, most, rapid.ID[int]).Draw(t, "numbers") {
		m := Member{ID: id, Role: rapid.SampledFrom([]Role{Participant, Observer}).Draw(t, "role")}
		for p := range rapid.IntRange(1, 3).Draw(t, "addresses") {
			m.Peers = append(m.Peers, PeerAddress{host.Draw(t, "host"), 10*id + p + 1, 60000})
		}
		if rapid.Bool().Draw(t, "client") {
			m.Client = HostPort{host.Draw(t, "host"), port.Draw(t, "port")}
		}
		if rapid.Bool().Draw(t, "secure") {
			m.SecureClient = HostPort{host.Draw(t, "host"), port.Draw(t, "port")}
		}
		members = append(members, m)
	}
	return members
}

func TestWhatIsWrittenReadsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, err := New(drawMembers(t, 20))
		if err != nil {
			t.Fatal(err)
		}
		c.Version = rapid.Int64Min(0).Draw(t, "version")
		if again := parsed(t, c.String()); !again.Equal(c) {
			t.Fatalf("wrote\n%s\nread\n%s", c, again)
		}
	})
}

// FuzzParse: what can be read keeps the rules, and is the same after it was written.
func FuzzParse(f *testing.F) {
	f.Add(three)
	f.Add("server.1 = [::1]:1:2|a:3:4:observer;;[::]:5,version=ff")
	f.Add("#c\r\nserver.07:h:1:2;3\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(text)
		if err != nil {
			return
		}
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		again, err := Parse(c.String())
		if err != nil || !reflect.DeepEqual(c, again) {
			t.Fatalf("%q: %+v, and %+v (%v) after a round trip", text, c, again, err)
		}
	})
}
