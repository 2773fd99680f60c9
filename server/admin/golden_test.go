package admin

import (
	"encoding/json"
	"iter"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/server"
	"github.com/zkd-project/zkd/server/fourletter"
)

// A member is a server alone that says that it belongs to an ensemble.
type member struct {
	server.Face
	mode, state string
	serving     bool
}

func (m member) Serving() bool { return m.serving }

func (m member) Status() fourletter.Status {
	s := m.Face.Status()
	s.Mode, s.PeerState = m.mode, m.state
	return s
}

func (m member) Config() fourletter.Config {
	c := m.Face.Config()
	c.Ensemble = &fourletter.Ensemble{Observer: m.mode == fourletter.ModeObserver, Membership: "server.1=127.0.0.1:2888:3888:participant;127.0.0.1:2181\n" +
		"server.2=127.0.0.1:2889:3889:participant\nserver.3=127.0.0.1:2890:3890:observer\nversion=100000000"}
	c.ServerID = map[string]int64{fourletter.ModeFollower: 1, fourletter.ModeLeader: 2, fourletter.ModeObserver: 3, "": 1}[m.mode]
	return c
}

func (m member) Sessions() fourletter.Sessions {
	s := m.Face.Sessions()
	s.Learner = m.mode != fourletter.ModeLeader
	return s
}

func (m member) Leader() (int64, bool) { return 2, m.serving }

func (m member) Observers() iter.Seq[fourletter.Observer] {
	if m.mode != fourletter.ModeLeader {
		return m.Face.Observers()
	}
	return slices.Values([]fourletter.Observer{{ID: 3, Remote: netip.MustParseAddrPort("127.0.0.1:57584"), LastZxid: -1}})
}

// Every command answers with the fields of Apache ZooKeeper 3.8.0 in the same situation, and
// where chance has no say with the same values.
func TestAnswersHaveTheFieldsOfZooKeepers(t *testing.T) {
	cfg := load(t)
	srv := startServer(t, cfg)
	defer occupy(t, srv.Addrs()[0].String()).Close()
	awaitIdle(t, startAdmin(t, Options{Config: cfg, Source: srv.Face(), Stats: srv.Stats()}))
	for situation, source := range map[string]Source{
		"alone":    srv.Face(),
		"leader":   member{srv.Face(), fourletter.ModeLeader, "leading - broadcast", true},
		"follower": member{srv.Face(), fourletter.ModeFollower, "following - broadcast", true},
		"observer": member{srv.Face(), fourletter.ModeObserver, "observing - broadcast", true},
		"electing": member{srv.Face(), "", "looking", false},
	} {
		t.Run(situation, func(t *testing.T) {
			url := startAdmin(t, Options{Config: cfg, Source: source, Stats: srv.Stats()})
			compared := 0
			for _, name := range recordedCommands {
				want, err := os.ReadFile(filepath.Join(recorded, situation, name+".json"))
				if os.IsNotExist(err) || situation == "electing" && name == "zabstate" {
					continue // ours says more: which server it is, and that it elects
				}
				require.NoError(t, err)
				compared++
				if name == "monitor" {
					status, answer := fetch(t, url+"/commands/"+name)
					require.Equal(t, 200, status)
					compareMonitor(t, string(want), answer)
					continue
				}
				if answer, ok := answers(t, url, name, string(want), never); !ok {
					require.Equal(t, string(want), shape(t, answer), "%s: %s", name, answer)
				}
			}
			require.GreaterOrEqual(t, compared, 23, "recorded answers are missing")
		})
	}
}

// answers waits until a command has an answer of this shape, or stop says that it cannot come
// any more: a ping of the client that is looked at, or an answer on its way, shows for a moment.
func answers(t *testing.T, url, name, want string, stop func() bool) (answer string, ok bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) { // between two looks
		if name == "connections" { // it is recorded as it is behind this one
			fetch(t, url+"/commands/connection_stat_reset")
		}
		var status int
		status, answer = fetch(t, url+"/commands/"+name)
		require.Equal(t, http.StatusOK, status)
		if shape(t, answer) == want {
			return answer, true
		}
		if stop() || time.Now().After(deadline) {
			return answer, false
		}
	}
}

func never() bool { return false }

// awaitIdle waits until the last answer to the only client has left, also in the server's books.
func awaitIdle(t *testing.T, url string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, answer := fetch(t, url+"/commands/connections")
		return strings.Contains(answer, `"interest_ops" : 1`)
	}, patience, time.Millisecond)
}

// Every metric of ZooKeeper is there with the same kind of number, or in the list of those
// without a counterpart, which belongs to mntr.
func compareMonitor(t *testing.T, want, answer string) {
	t.Helper()
	var theirs, ours map[string]any
	require.NoError(t, json.Unmarshal([]byte(want), &theirs))
	require.NoError(t, json.Unmarshal([]byte(shape(t, answer)), &ours))
	b, err := os.ReadFile("../fourletter/testdata/mntr-without-counterpart.txt")
	require.NoError(t, err)
	absent := strings.Fields(string(b))
	found := 0
	for _, key := range sortedKeys(theirs) {
		name := key
		for _, p := range []string{"avg_", "min_", "max_", "cnt_", "sum_", "p50_", "p95_", "p99_", "p999_"} {
			name = strings.TrimPrefix(name, p)
		}
		got, here := ours[key]
		switch {
		case here:
			found++
			require.Equal(t, theirs[key], got, "%s", key)
		case !slices.Contains(absent, name) && !strings.HasSuffix(name, "_per_namespace"):
			t.Errorf("%s is missing", key)
		}
	}
	require.Greater(t, found, 100)
}

// The page of links is ZooKeeper's to the byte.
func TestIndexIsZooKeepers(t *testing.T) {
	cfg := load(t)
	srv := startServer(t, cfg)
	url := startAdmin(t, Options{Config: cfg, Source: srv.Face(), Stats: srv.Stats()})
	want, err := os.ReadFile(recorded + "/index.html")
	require.NoError(t, err)
	for _, path := range []string{"/commands", "/commands/"} {
		_, got := fetch(t, url+path)
		require.Equal(t, string(want), got)
	}
}
