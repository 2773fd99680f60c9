package ensemble

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A change is a reconfig request to an ensemble of three, and what becomes of it. zookeeper is
// the code that Apache ZooKeeper 3.8.0 answered to it; -13 means that the text was accepted
// (the servers were not there). ZooKeeper answers -5 where Java cannot read a number, and
// accepts things that no ensemble can work with: here both are bad arguments.
type change struct {
	name              string
	joining, leaving  string
	zookeeper         int
	want              string // the lines that differ from three: "-N" for one that has left
	refused           string // or a part of the error
	acceptedElsewhere bool   // by ZooKeeper
}

const client = ";127.0.0.1:2184"

func (tt *change) check(t *testing.T, from, got Config, err error) {
	t.Helper()
	if err != nil {
		if tt.refused == "" || !strings.Contains(err.Error(), tt.refused) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.refused)
		}
		if accepted := tt.zookeeper == 0 || tt.zookeeper == -13; accepted != tt.acceptedElsewhere {
			t.Errorf("%s: ZooKeeper answers %d and we refuse", tt.name, tt.zookeeper)
		}
		return
	}
	if tt.zookeeper != 0 && tt.zookeeper != -13 || tt.refused != "" {
		t.Errorf("%s: no error, want %q; ZooKeeper answers %d", tt.name, tt.refused, tt.zookeeper)
	}
	if err := got.Check(); err != nil {
		t.Errorf("%s: %v", tt.name, err)
	}
	if got.Version != 0 {
		t.Errorf("%s: version %d", tt.name, got.Version)
	}
	if diff := difference(from, got); diff != tt.want {
		t.Errorf("%s: the difference is %q, want %q", tt.name, diff, tt.want)
	}
}

func difference(from, to Config) string {
	var diff []string
	for id := range MaxID + 1 {
		switch a, b := from.Member(id), to.Member(id); {
		case b == nil && a != nil:
			diff = append(diff, "-"+strings.Split(Config{Members: []Member{*a}}.String(), "=")[0])
		case b != nil && (a == nil || !a.Equal(*b)):
			diff = append(diff, strings.Split(Config{Members: []Member{*b}}.String(), "\n")[0])
		}
	}
	return strings.Join(diff, " ")
}

func TestIncrementalChange(t *testing.T) {
	for _, tt := range []change{
		{name: "nothing at all"},
		{name: "blanks", joining: " , ", leaving: ",, "},
		{name: "a server joins", joining: "server.4=h:5:6" + client, want: "server.4=h:5:6:participant" + client},
		{name: "port alone", joining: "server.4=h:5:6;7", want: "server.4=h:5:6:participant;0.0.0.0:7"},
		{name: "key without server", joining: "4=h:5:6;7", want: "server.4=h:5:6:participant;0.0.0.0:7"},
		{name: "key foo.4", joining: "foo.4=h:5:6;7", want: "server.4=h:5:6:participant;0.0.0.0:7"},
		{name: "number 07", joining: "server.07=h:5:6;7", want: "server.7=h:5:6:participant;0.0.0.0:7"},
		{name: "number +7", joining: "server.+7=h:5:6;7", want: "server.7=h:5:6:participant;0.0.0.0:7"},
		{name: "blanks around", joining: " server.4 = h:5:6;7 ,, ", want: "server.4=h:5:6:participant;0.0.0.0:7"},
		{name: "the same server twice", joining: "server.4=h:5:6;7,server.4=h:5:6;8", want: "server.4=h:5:6:participant;0.0.0.0:8"},
		{name: "two join", joining: "server.16=h:5:6;7,server.5=i:5:6:observer;7", want: "server.5=i:5:6:observer;0.0.0.0:7 server.16=h:5:6:participant;0.0.0.0:7"},
		{name: "another role", joining: "server.3=127.0.0.1:2883:3883:observer;127.0.0.1:2183", want: "server.3=127.0.0.1:2883:3883:observer;127.0.0.1:2183"},
		{name: "the line as it is", joining: "server.3=127.0.0.1:2883:3883;127.0.0.1:2183"},
		{name: "leaves and joins again", joining: "server.3=127.0.0.1:2883:3883;127.0.0.1:2183", leaving: "3"},
		{name: "the same client port everywhere", joining: "server.4=192.0.2.1:5:6;7,server.5=192.0.2.2:5:6;7", zookeeper: -13, want: "server.4=192.0.2.1:5:6:participant;0.0.0.0:7 server.5=192.0.2.2:5:6:participant;0.0.0.0:7"},
		{name: "peer and client address are one", joining: "server.4=192.0.2.1:5:6;192.0.2.1:5", want: "server.4=192.0.2.1:5:6:participant;192.0.2.1:5"},
		{name: "names without case", joining: "server.16=no.such.name:5:6:observer;127.0.0.1:7,server.17=No.Such.Name:15:16:observer;NO.SUCH.name:7", want: "server.16=no.such.name:5:6:observer;127.0.0.1:7 server.17=No.Such.Name:15:16:observer;NO.SUCH.name:7"},

		{name: "localhost is another place everywhere", joining: "server.4=192.0.2.1:5:6:observer;localhost:7,server.5=192.0.2.2:5:6:observer;LocalHost:7", want: "server.4=192.0.2.1:5:6:observer;localhost:7 server.5=192.0.2.2:5:6:observer;LocalHost:7"},
		{name: "at the address of one that leaves", joining: "server.4=127.0.0.1:2883:3883;127.0.0.1:2183", leaving: "3", want: "-server.3 server.4=127.0.0.1:2883:3883:participant;127.0.0.1:2183"},
		{name: "another client address alone", joining: "server.3=127.0.0.1:2883:3883;192.0.2.1:2183", want: "server.3=127.0.0.1:2883:3883:participant;192.0.2.1:2183"},

		{name: "garbage", joining: "x", zookeeper: -8, refused: "server.N=text"},
		{name: "lines instead of commas", joining: "server.4=h:5:6;7\nserver.5=i:5:6;7", zookeeper: -8, refused: "server.N=text"},
		{name: "two equals signs", joining: "server.4=a=b", zookeeper: -8, refused: "server.N=text"},
		{name: "no number", joining: "server.x=h:1:2;3", zookeeper: -5, refused: "not the number"},
		{name: "hexadecimal number", joining: "server.0x7=h:1:2;3", zookeeper: -5, refused: "not the number"},
		{name: "number 0", joining: "server.0=h:5:6;7", zookeeper: 0, acceptedElsewhere: true, refused: "1 to 255"},
		{name: "negative number", joining: "server.-4=h:5:6;7", zookeeper: 0, acceptedElsewhere: true, refused: "1 to 255"},
		{name: "number 256", joining: "server.256=h:5:6;7", zookeeper: -13, acceptedElsewhere: true, refused: "1 to 255"},
		{name: "no election port", joining: "server.4=h:1;2", zookeeper: -8, refused: "electionPort"},
		{name: "a word for a port", joining: "server.4=h:a:2;3", zookeeper: -8, refused: "not a number"},
		{name: "port 70000", joining: "server.4=h:70000:2;3", zookeeper: -5, refused: "out of range"},
		{name: "port -5", joining: "server.4=h:-5:2;3", zookeeper: -5, refused: "not a number"},
		{name: "port 0", joining: "server.4=h:0:2;3", zookeeper: 0, acceptedElsewhere: true, refused: "out of range"},
		{name: "client port 70000", joining: "server.4=h:5:6;70000", zookeeper: -5, refused: "out of range"},
		{name: "a word for a client port", joining: "server.4=h:5:6;x", zookeeper: -8, refused: "not a number"},
		{name: "equal ports", joining: "server.4=h:5:5;6", zookeeper: -8, refused: "must differ"},
		{name: "unknown role", joining: "server.4=h:5:6:foo;6", zookeeper: -8, refused: "not a role"},
		{name: "no client address", joining: "server.4=h:5:6", zookeeper: -8, refused: "no client address"},
		{name: "nothing behind the semicolon", joining: "server.4=h:5:6;", zookeeper: -8, refused: "no client address"},
		{name: "several addresses", joining: "server.4=h:5:6|i:7:8:observer;8", zookeeper: -8, refused: "multiAddress.enabled"},
		{name: "no host", joining: "server.4=:5:6:observer;8", zookeeper: 0, acceptedElsewhere: true, refused: "the host is empty"},
		{name: "odd host", joining: "server.4=a/b c:5:6:observer;8", zookeeper: 0, acceptedElsewhere: true, refused: "is no host"},

		{name: "a peer address twice", joining: "server.4=192.0.2.1:5:6;7,server.5=192.0.2.1:5:8;9", zookeeper: -8, refused: "address of server.4, too"},
		{name: "peer and election address", joining: "server.4=192.0.2.1:5:6;7,server.5=192.0.2.1:4:5;9", zookeeper: -8, refused: "address of server.4, too"},
		{name: "peer and client address", joining: "server.4=192.0.2.1:5:6;192.0.2.1:7,server.5=192.0.2.1:7:8;9", zookeeper: -8, refused: "address of server.4, too"},
		{name: "a client address twice", joining: "server.4=192.0.2.1:5:6;192.0.2.1:7,server.5=192.0.2.1:8:9;192.0.2.1:7", zookeeper: -8, refused: "address of server.4, too"},
		{name: "an IPv6 address written in two ways", joining: "server.4=[2001:db8::1]:5:6;7,server.5=[2001:DB8:0:0::1]:5:16;17", zookeeper: -8, refused: "address of server.4, too"},
		{name: "an IPv4 address written in two ways", joining: "server.4=192.0.2.1:5:6;7,server.5=[::ffff:192.0.2.1]:5:16;17", zookeeper: -8, refused: "address of server.4, too"},
		{name: "a loopback address twice", joining: "server.4=127.0.0.1:2881:6;7", zookeeper: 0, acceptedElsewhere: true, refused: "is the peer address of server.1 and of server.4"},

		{name: "a word leaves", leaving: "x", zookeeper: -5, refused: "not the number"},
		{name: "server.2 leaves", leaving: "server.2", zookeeper: -5, refused: "not the number"},
		{name: "a fraction leaves", leaving: "1.5", zookeeper: -5, refused: "not the number"},
		{name: "a stranger leaves", leaving: "9"},
		{name: "numbers as Java reads them", leaving: " +9 ,-9,, 007"},
		{name: "one leaves", leaving: "2", want: "-server.2"},
		{name: "two leave", leaving: "2,3", zookeeper: -8, refused: "one participant would be left"},
		{name: "all leave", leaving: "1,2,3", zookeeper: -8, refused: "no participant would be left"},
		{name: "an observer is no help", joining: "server.4=h:5:6:observer;7", leaving: "2,3", zookeeper: -8, refused: "one participant would be left"},
	} {
		from := parsed(t, three)
		got, err := from.Change(tt.joining, tt.leaving, Rules{})
		tt.check(t, from, got, err)
		if from.String() != three {
			t.Fatalf("%s: the configuration itself has changed", tt.name)
		}
	}
}

func TestChangeOfAllMembers(t *testing.T) {
	lines := strings.TrimSuffix(three, "version=100000000")
	for _, tt := range []change{
		{name: "as it is", joining: three},
		{name: "with another version", joining: lines + "version=77"},
		{name: "commas", joining: strings.ReplaceAll(lines, "\n", ",")},
		{name: "no client address", joining: strings.Replace(lines, ";127.0.0.1:2182", "", 1), want: "server.2=127.0.0.1:2882:3882:participant"},
		{name: "others", joining: "server.5=h:5:6,server.6=h:7:8", zookeeper: -13, want: "-server.1 -server.2 -server.3 server.5=h:5:6:participant server.6=h:7:8:participant"},
		{name: "client addresses may be one", joining: lines + "server.4=192.0.2.1:5:6;192.0.2.1:7\nserver.5=192.0.2.1:8:9;192.0.2.1:7", want: "server.4=192.0.2.1:5:6:participant;192.0.2.1:7 server.5=192.0.2.1:8:9:participant;192.0.2.1:7"},

		{name: "nothing", joining: "", zookeeper: -8, refused: "no participant would be left"},
		{name: "blank", joining: " \n", zookeeper: -8, refused: "no participant would be left"},
		{name: "one", joining: "server.1=h:5:6;7", zookeeper: -8, refused: "one participant would be left"},
		{name: "an observer", joining: "server.1=h:5:6:observer;7", zookeeper: -5, refused: "no participant would be left"},
		{name: "one and an observer", joining: "server.1=h:5:6,server.2=i:5:6:observer", zookeeper: -5, refused: "one participant would be left"},
		{name: "garbage", joining: "hello", zookeeper: -8, refused: "is unknown"},
		{name: "a foreign key", joining: lines + "clientPort=3", zookeeper: -8, refused: "is unknown"},
		{name: "a word for a number", joining: "server.x=h:5:6", zookeeper: -5, refused: "not the number"},
		{name: "a word for a version", joining: lines + "version=xyz", zookeeper: -5, refused: "not a version"},
		{name: "number 0", joining: lines + "server.0=h:5:6", acceptedElsewhere: true, refused: "1 to 255"},
		{name: "a number twice", joining: lines + "server.1=h:5:6", acceptedElsewhere: true, refused: "comes twice"},
		{name: "a peer address twice", joining: lines + "server.4=192.0.2.1:5:6;7\nserver.5=192.0.2.1:5:6;8", acceptedElsewhere: true, refused: "peer address of server.4 and of server.5"},
		{name: "groups", joining: lines + "group.1=1:2:3", acceptedElsewhere: true, refused: "every participant has one vote"},
		{name: "several addresses", joining: "server.1=h:5:6|i:5:6,server.2=j:5:6", zookeeper: -8, refused: "multiAddress.enabled"},
	} {
		from := parsed(t, three)
		got, err := from.Replace(tt.joining, Rules{})
		tt.check(t, from, got, err)
	}
}

func TestRulesDecideWhatIsEnough(t *testing.T) {
	const one, two = "server.1=h:1:2;3", "server.1=h:1:2;3,server.2=i:1:2;3"
	for _, tt := range []struct {
		name, from, joining, leaving string
		rules                        Rules
		ok                           bool
	}{
		{"two to one", two, "", "2", Rules{}, false},
		{"two to one, standaloneEnabled=false", two, "", "2", Rules{SingleVoter: true}, true},
		{"one to none, standaloneEnabled=false", one, "", "1", Rules{SingleVoter: true}, false},
		{"one grows", one, "server.2=i:1:2;3", "", Rules{}, true},
		{"one stays as it is", one, "", "", Rules{}, true},
		{"one gets another port", one, "server.1=h:1:2;4", "", Rules{}, true},
		{"one gives way to another", one, "server.2=i:1:2;3", "1", Rules{}, false},
		{"one gets an observer", one, "server.2=i:1:2:observer;3", "", Rules{}, false},
		{"one gets an observer, standaloneEnabled=false", one, "server.2=i:1:2:observer;3", "", Rules{SingleVoter: true}, true},
		{"the last participant becomes an observer", one, "server.1=h:1:2:observer;3", "", Rules{SingleVoter: true}, false},
		{"number 255", one, "server.255=i:1:2;3", "", Rules{}, true},
		{"number 255 beside TTL nodes", one, "server.255=i:1:2;3", "", Rules{ExtendedTypes: true}, false},
		{"number 254 beside TTL nodes", one, "server.254=i:1:2;3", "", Rules{ExtendedTypes: true}, true},
		{"several addresses", one, "server.2=i:1:2|j:1:2;3", "", Rules{MultiAddress: true}, true},
		{"TLS address alone", one, "server.2=i:1:2;;3", "", Rules{}, true},
	} {
		from := parsed(t, tt.from)
		next, err := from.Change(tt.joining, tt.leaving, tt.rules)
		if (err == nil) != tt.ok {
			t.Errorf("%s, one by one: %v", tt.name, err)
		}
		if err != nil {
			continue
		}
		if whole, err := from.Replace(next.String(), tt.rules); err != nil || !whole.SameMembers(next) {
			t.Errorf("%s, as a whole: %v", tt.name, err)
		}
	}
}

// What joins and leaves again has left no trace, in whatever order.
func TestChangesCanBeTakenBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all, err := New(drawMembers(t, 12))
		if err != nil {
			t.Fatal(err)
		}
		from := parsed(t, three)
		var joining, leaving []string
		for _, m := range all.Members {
			m.Client = HostPort{"0.0.0.0", 2181}
			text := strings.Split(Config{Members: []Member{m}}.String(), "\n")[0]
			if id, _, _ := strings.Cut(strings.TrimPrefix(text, "server."), "="); m.ID > 3 {
				joining, leaving = append(joining, text), append(leaving, id)
			}
		}
		r := Rules{MultiAddress: true}
		grown, err := from.Change(strings.Join(rapid.Permutation(joining).Draw(t, "joining"), ","), "", r)
		if err != nil {
			t.Skip(err) // two TLS addresses are one
		}
		if len(grown.Members) != len(from.Members)+len(joining) || grown.Check() != nil {
			t.Fatalf("grown to\n%s\n%v", grown, grown.Check())
		}
		slices.Reverse(leaving)
		back, err := grown.Change("", strings.Join(leaving, ","), r)
		if err != nil || !back.SameMembers(from) {
			t.Fatalf("back to\n%s\n%v", back, err)
		}
		if from.String() != three {
			t.Fatal("the configuration itself has changed")
		}
	})
}

// Anybody may send a request as long as a frame, and all servers judge it one after another. A
// comparison of all addresses with each other would take minutes.
func TestLongRequestsAreJudgedInTime(t *testing.T) {
	var joiners strings.Builder
	for joiners.Len() < 1<<20 {
		joiners.WriteString("server.9=h:1:2;3,")
	}
	several := strings.TrimSuffix(strings.Repeat("h:1:2|", maxPeers), "|")
	from := parsed(t, three)
	start := time.Now()
	for name, ask := range map[string]func() error{
		"many joining": func() error { _, err := from.Change(joiners.String(), "", Rules{}); return err },
		"many leaving": func() error { _, err := from.Change("", strings.Repeat("3,", 1<<19), Rules{}); return err },
		"many with many addresses": func() error {
			_, err := from.Change(strings.Repeat("server.8="+several+";3,", 1<<13), "", Rules{MultiAddress: true})
			return err
		},
	} {
		if err := ask(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if took := time.Since(start); took > time.Minute { // a fraction of a second, or many minutes
		t.Errorf("took %v", took)
	}
}

func FuzzChange(f *testing.F) {
	f.Add("server.4=h:5:6;7", "2", "")
	f.Add("", "", "server.1=a:1:2,server.2=b:1:2")
	from, err := Parse(three)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, joining, leaving, whole string) {
		for _, r := range []Rules{{}, {SingleVoter: true, MultiAddress: true, ExtendedTypes: true}} {
			a, errA := from.Change(joining, leaving, r)
			b, errB := from.Replace(whole, r)
			if errA == nil && (a.Check() != nil || len(a.Voters()) == 0) || errB == nil && (b.Check() != nil || len(b.Voters()) == 0) {
				t.Fatalf("%v %v", a, b)
			}
		}
	})
}
