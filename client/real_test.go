package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/zkd-project/zkd/internal/freeport"
	"github.com/zkd-project/zkd/internal/needs"
	"github.com/zkd-project/zkd/zkdtest"
)

// A realServer is zkd, or Apache ZooKeeper as Debian packs it.
type realServer struct {
	kind, addr string
}

// jaas gives the user bob to both servers.
const jaas = `Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required user_bob="bobsecret";
};
`

// javaDir is where Debian keeps the jars.
const javaDir = "/usr/share/java/"

// forEachServer runs the test against zkd, and against ZooKeeper where ZKD_INTEROP asks for it.
func forEachServer(t *testing.T, test func(t *testing.T, s realServer)) {
	t.Run("zkd", func(t *testing.T) {
		srv := zkdtest.Start(t, zkdSettings(t)...)
		test(t, realServer{"zkd", srv.Addr()})
	})
	t.Run("zookeeper", func(t *testing.T) {
		test(t, realServer{"zookeeper", startZooKeeper(t)})
	})
}

func zkdSettings(t testing.TB) []zkdtest.Option {
	file := filepath.Join(t.TempDir(), "jaas.conf")
	require.NoError(t, os.WriteFile(file, []byte(jaas), 0o600))
	return []zkdtest.Option{
		zkdtest.Set("authProvider.1", "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"),
		zkdtest.Set("java.security.auth.login.config", file),
	}
}

// startZooKeeper runs a ZooKeeper server until the test ends and returns its address. Whoever looks for a
// free port, too, may take the one that was found before Java has started: then it takes another.
func startZooKeeper(t testing.TB) (addr string) {
	t.Helper()
	if !needs.Required() {
		t.Skip("needs Apache ZooKeeper: set ZKD_INTEROP=require (Debian: apt-get install zookeeper)")
	}
	if _, err := os.Stat(javaDir + "zookeeper.jar"); err != nil {
		t.Fatal("ZKD_INTEROP=require, and Apache ZooKeeper is not installed (Debian: apt-get install zookeeper)")
	}
	for addr == "" {
		addr = tryZooKeeper(t, freeport.Addr(t))
	}
	return addr
}

// tryZooKeeper returns the address, or nothing if the server ended before it served.
func tryZooKeeper(t testing.TB, addr string) string {
	t.Helper()
	dir := t.TempDir()
	_, port, _ := net.SplitHostPort(addr)
	cfg := fmt.Sprintf("tickTime=200\nminSessionTimeout=400\nmaxSessionTimeout=60000\ndataDir=%s/data\nclientPort=%s\n"+
		"clientPortAddress=127.0.0.1\nmaxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=*\n"+
		"authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n", dir, port)
	log := "log4j.rootLogger=ERROR, OUT\nlog4j.appender.OUT=org.apache.log4j.ConsoleAppender\n" +
		"log4j.appender.OUT.layout=org.apache.log4j.PatternLayout\nlog4j.appender.OUT.layout.ConversionPattern=%d %p %c %m%n\n"
	for name, content := range map[string]string{"zoo.cfg": cfg, "jaas.conf": jaas, "log4j.properties": log} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	cmd := exec.Command("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m", "-Dzookeeper.jmx.log4j.disable=true",
		"-Dzookeeper.extendedTypesEnabled=true", "-Dzookeeper.forceSync=no", // no crash of the machine is survived here
		"-Djava.security.auth.login.config="+filepath.Join(dir, "jaas.conf"),
		"-cp", dir+":"+javaDir+"zookeeper.jar:"+javaDir+"slf4j-log4j12.jar:"+javaDir+"log4j-1.2.jar",
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", filepath.Join(dir, "zoo.cfg"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("ZooKeeper said:\n%s", &out)
		}
	})
	eventually(t, "ZooKeeper serves", func() bool {
		select {
		case <-ended:
			require.Contains(t, out.String(), "Address already in use")
			addr = ""
			return true
		default: // and not somebody else, at its address
			return strings.Contains(ask(addr, "srvr"), "Mode: ") && strings.Contains(ask(addr, "conf"), "dataDir="+dir)
		}
	})
	return addr
}

// ask sends a four-letter word; the answer is empty if there is none. Ask again then: a ZooKeeper that is
// about to start fails over some words, and leaves their connections open for ever.
func ask(addr, word string) string {
	c, err := net.DialTimeout("tcp", addr, testLimit)
	if err != nil {
		return ""
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	_, _ = io.WriteString(c, word)
	b, _ := io.ReadAll(c)
	return string(b)
}

// unwatched says whether the server says that it has no watch.
func (s realServer) unwatched() bool { return strings.Contains(ask(s.addr, "wchs"), "Total watches:0") }

func (s realServer) dial(t testing.TB, opts ...Option) *Client {
	t.Helper()
	c, err := Dial(testContext(t), s.addr, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { abandonClient(c) })
	return c
}

func TestRealNodes(t *testing.T) {
	forEachServer(t, func(t *testing.T, s realServer) {
		c, ctx := s.dial(t), testContext(t)
		path, stat, err := c.Create(ctx, "/a", nil, ModePersistent, nil)
		require.NoError(t, err)
		require.Equal(t, "/a", path)
		require.Equal(t, stat.Czxid, c.LastZxid())
		data, _, err := c.Get(ctx, "/a")
		require.NoError(t, err)
		require.Nil(t, data, "null stays null")
		set, err := c.Set(ctx, "/a", []byte{}, 0)
		require.NoError(t, err)
		require.Equal(t, int32(1), set.Version)
		data, got, err := c.Get(ctx, "/a", Fresh())
		require.NoError(t, err)
		require.NotNil(t, data, "empty is not null")
		require.Equal(t, set, got)
		_, err = c.Set(ctx, "/a", nil, 0)
		require.ErrorIs(t, err, ErrBadVersion)
		_, _, err = c.Create(ctx, "/a", nil, ModePersistent, nil)
		require.ErrorIs(t, err, ErrNodeExists)

		n1, _, err := c.Create(ctx, "/a/n-", nil, ModePersistentSequential, nil)
		require.NoError(t, err)
		require.Equal(t, "/a/n-0000000000", n1)
		e, stat, err := c.Create(ctx, "/a/e-", []byte("x"), ModeEphemeralSequential, nil)
		require.NoError(t, err)
		require.Equal(t, c.SessionID(), stat.EphemeralOwner)
		_, _, err = c.Create(ctx, e+"/child", nil, ModePersistent, nil)
		require.ErrorIs(t, err, ErrNoChildrenForEphemerals)
		names, stat, err := c.Children(ctx, "/a")
		require.NoError(t, err)
		slices.Sort(names)
		require.Equal(t, []string{"e-0000000001", "n-0000000000"}, names)
		require.Equal(t, int32(2), stat.NumChildren)
		require.ErrorIs(t, c.Delete(ctx, "/a", AnyVersion), ErrNotEmpty)
		all, err := c.AllChildrenNumber(ctx, "/a")
		require.NoError(t, err)
		require.Equal(t, 2, all)
		mine, err := c.Ephemerals(ctx, "/a")
		require.NoError(t, err)
		require.Equal(t, []string{e}, mine)
		mine, err = c.Chroot("/a").Ephemerals(ctx, "")
		require.NoError(t, err)
		require.Equal(t, []string{"/e-0000000001"}, mine)

		_, stat, err = c.CreateContainer(ctx, "/box", nil, nil)
		require.NoError(t, err)
		require.Positive(t, stat.Czxid)
		p, stat, err := c.CreateTTL(ctx, "/ttl-", nil, ModePersistentSequential, time.Hour, nil)
		require.NoError(t, err)
		require.Regexp(t, `^/ttl-\d{10}$`, p)
		require.Positive(t, stat.Czxid)
		_, _, err = c.CreateTTL(ctx, "/e", nil, ModeEphemeral, time.Hour, nil)
		require.ErrorIs(t, err, ErrBadArguments)
		path, _, err = c.Create(ctx, "/deep/er/est", nil, ModePersistent, nil, MakeParents())
		require.NoError(t, err)
		require.Equal(t, "/deep/er/est", path)
		require.NoError(t, c.Sync(ctx, "/"))
		_, ok, err := c.Exists(ctx, "/nope")
		require.NoError(t, err)
		require.False(t, ok)
		_, _, err = c.Reconfig(ctx, ReconfigRequest{Leaving: "9", FromConfig: -1})
		require.ErrorIs(t, err, ErrReconfigDisabled)
	})
}

func TestRealMulti(t *testing.T) {
	forEachServer(t, func(t *testing.T, s realServer) {
		base, ctx := s.dial(t), testContext(t)
		_, _, err := base.Create(ctx, "/app", nil, ModePersistent, nil)
		require.NoError(t, err)
		c := base.Chroot("/app")
		results, err := c.Multi().
			Create("/m", []byte("1"), ModePersistent, nil).
			Create("/m/s-", nil, ModeEphemeralSequential, nil).
			Set("/m", []byte("2"), 0).
			Check("/m", 1).
			Delete("/m/s-0000000000", AnyVersion).
			Add(c.OpCreateContainer("/c", nil, nil), c.OpCreateTTL("/t", nil, ModePersistent, time.Hour, nil), base.OpCheck("/app", 0)).
			Commit(ctx)
		require.NoError(t, err)
		require.Len(t, results, 8)
		require.Equal(t, []string{"/m", "/m/s-0000000000", "/c", "/t"}, []string{results[0].Path, results[1].Path, results[5].Path, results[6].Path})
		require.Equal(t, int32(1), results[2].Stat.Version)

		_, err = c.Multi().Set("/m", []byte("3"), AnyVersion).Check("/m", 7).Delete("/m", AnyVersion).Commit(ctx)
		var m *MultiError
		require.ErrorAs(t, err, &m)
		require.Equal(t, 1, m.Index)
		require.ErrorIs(t, err, ErrBadVersion)

		reads, err := c.MultiRead().Get("/m").Children("/").Get("/nope").Do(ctx)
		require.NoError(t, err)
		require.Equal(t, "2", string(reads[0].Data), "nothing of the failed one was done")
		slices.Sort(reads[1].Children)
		require.Equal(t, []string{"c", "m", "t"}, reads[1].Children)
		require.ErrorIs(t, reads[2].Err, ErrNoNode)
		require.ErrorContains(t, reads[2].Err, "getData /nope")
	})
}

func TestRealAccessControl(t *testing.T) {
	forEachServer(t, func(t *testing.T, s realServer) {
		ctx := testContext(t)
		owner := s.dial(t, WithAuth("digest", []byte("bob:pw")))
		_, _, err := owner.Create(ctx, "/secret", []byte("x"), ModePersistent, AuthACL(PermAll))
		require.NoError(t, err)
		acl, stat, err := owner.GetACL(ctx, "/secret")
		require.NoError(t, err)
		require.Equal(t, []ACL{{Perms: PermAll, ID: ID{Scheme: "digest", ID: "bob:ikIaKsbtGweaHnb/jKn7OHqbunM="}}}, acl)

		other := s.dial(t)
		_, _, err = other.Get(ctx, "/secret")
		require.ErrorIs(t, err, ErrNoAuth)
		require.NoError(t, other.AddAuth(ctx, "digest", []byte("bob:pw")))
		_, _, err = other.Get(ctx, "/secret")
		require.NoError(t, err)
		_, err = owner.SetACL(ctx, "/secret", WorldACL(PermRead), stat.Aversion)
		require.NoError(t, err)
		_, err = owner.Set(ctx, "/secret", nil, AnyVersion)
		require.ErrorIs(t, err, ErrNoAuth)
		_, _, err = other.Create(ctx, "/bad", nil, ModePersistent, []ACL{{Perms: 1, ID: ID{Scheme: "nonsense"}}})
		require.ErrorIs(t, err, ErrInvalidACL)
		who, err := other.WhoAmI(ctx)
		require.NoError(t, err)
		require.Contains(t, who, ClientInfo{Scheme: "digest", User: "bob"})
		require.ErrorIs(t, other.AddAuth(ctx, "nonsense", []byte("x")), ErrAuthFailed)
		require.NoError(t, other.Sync(ctx, "/"), "connected again")
	})
}

func TestRealSASL(t *testing.T) {
	forEachServer(t, func(t *testing.T, s realServer) {
		ctx := testContext(t)
		bob := s.dial(t, WithSASL(DigestMD5("bob", "bobsecret")))
		_, _, err := bob.Create(ctx, "/mine", nil, ModePersistent, []ACL{{Perms: PermAll, ID: ID{Scheme: "sasl", ID: "bob"}}})
		require.NoError(t, err)
		_, err = bob.Set(ctx, "/mine", nil, 0)
		require.NoError(t, err)
		_, _, err = s.dial(t).Get(ctx, "/mine")
		require.ErrorIs(t, err, ErrNoAuth)
		_, err = Dial(ctx, s.addr, WithSASL(DigestMD5("bob", "wrong")))
		require.ErrorIs(t, err, ErrAuthFailed)
	})
}

// Watches of all kinds on one path, which old servers confuse.
func TestRealWatchesOnOnePath(t *testing.T) {
	forEachServer(t, func(t *testing.T, s realServer) {
		c, w, ctx := s.dial(t), s.dial(t), testContext(t)
		_, _, err := c.Create(ctx, "/p", nil, ModePersistent, nil)
		require.NoError(t, err)
		_, _, early, err := c.ChildrenW(ctx, "/p")
		require.NoError(t, err)
		persistent, err := c.Subscribe(ctx, "/p", Persistent)
		require.NoError(t, err)
		_, _, data, err := c.GetW(ctx, "/p")
		require.NoError(t, err)
		recursive, err := c.Subscribe(ctx, "/p", Recursive)
		require.NoError(t, err)
		_, _, late, err := c.ChildrenW(ctx, "/p")
		require.NoError(t, err)
		for range 2 {
			_, err = w.Set(ctx, "/p", nil, AnyVersion)
			require.NoError(t, err)
			_, _, err = w.Create(ctx, "/p/c", nil, ModePersistent, nil)
			require.NoError(t, err)
			require.NoError(t, w.Delete(ctx, "/p/c", AnyVersion))
		}
		require.NoError(t, c.Sync(ctx, "/"))
		for _, one := range []*Watch{early, data, late} {
			require.Len(t, one.C(), 1)
		}
		requireEvents(t, persistent, "Reset /p",
			"NodeDataChanged /p", "NodeChildrenChanged /p", "NodeChildrenChanged /p",
			"NodeDataChanged /p", "NodeChildrenChanged /p", "NodeChildrenChanged /p")
		requireEvents(t, recursive, "Reset /p",
			"NodeDataChanged /p", "NodeCreated /p/c", "NodeDeleted /p/c",
			"NodeDataChanged /p", "NodeCreated /p/c", "NodeDeleted /p/c")
		recursive.Close()
		_, _, err = w.Create(ctx, "/p/c", nil, ModePersistent, nil)
		require.NoError(t, err)
		require.NoError(t, c.Sync(ctx, "/"))
		requireEvents(t, persistent, "NodeChildrenChanged /p")
		persistent.Close()
		eventually(t, "no watch is left on the server", s.unwatched)
	})
}

func TestRealImitatedSubscription(t *testing.T) {
	forEachServer(t, func(t *testing.T, s realServer) {
		c, w, ctx := s.dial(t, WithLegacyServer()), s.dial(t), testContext(t)
		for _, mode := range []WatchMode{Persistent, Recursive} {
			sub, err := c.Subscribe(ctx, "/i", mode)
			require.NoError(t, err)
			next := func() string {
				ev, err := sub.Next(ctx)
				require.NoError(t, err)
				return ev.String()
			}
			require.Equal(t, "Reset /i", next())
			_, _, err = w.Create(ctx, "/i", nil, ModePersistent, nil)
			require.NoError(t, err)
			require.Equal(t, "NodeCreated /i", next())
			_, err = w.Set(ctx, "/i", nil, AnyVersion)
			require.NoError(t, err)
			require.Equal(t, "NodeDataChanged /i", next())
			_, _, err = w.Create(ctx, "/i/c", nil, ModePersistent, nil)
			require.NoError(t, err)
			want := map[WatchMode]string{Persistent: "NodeChildrenChanged /i", Recursive: "NodeCreated /i/c"}[mode]
			require.Equal(t, want, next())
			require.NoError(t, w.Delete(ctx, "/i/c", AnyVersion))
			want = map[WatchMode]string{Persistent: "NodeChildrenChanged /i", Recursive: "NodeDeleted /i/c"}[mode]
			require.Equal(t, want, next())
			require.NoError(t, w.Delete(ctx, "/i", AnyVersion))
			require.Equal(t, "NodeDeleted /i", next())
			sub.Close()
			_, err = sub.Next(ctx)
			require.ErrorIs(t, err, ErrWatchRemoved)
			require.Empty(t, c.Stats().Watches)
		}
	})
}

// The session is ended elsewhere: by a second client that resumes and closes it.
func TestRealSessionResumedAndEnded(t *testing.T) {
	forEachServer(t, func(t *testing.T, s realServer) {
		ctx := testContext(t)
		first := s.dial(t)
		old := first.Session()
		next := collectStates(t, first)
		_, _, err := first.Create(ctx, "/e", nil, ModeEphemeral, nil)
		require.NoError(t, err)
		_, _, w, err := first.ChildrenW(ctx, "/")
		require.NoError(t, err)
		second, err := Dial(ctx, s.addr, WithSession(first.SessionID(), first.Password()))
		require.NoError(t, err)
		require.Equal(t, old.ID(), second.SessionID())
		require.NoError(t, second.Close(ctx))
		<-old.Done()
		require.ErrorIs(t, old.Err(), ErrSessionExpired)
		for next().State != StateExpired {
		}
		_, err = w.Wait(ctx)
		require.True(t, err == nil || errors.Is(err, ErrSessionExpired))
		_, ok, err := first.Exists(ctx, "/e")
		require.NoError(t, err)
		require.False(t, ok)
		require.NotEqual(t, old.ID(), first.SessionID())
	})
}

// Another process takes the session, and ends it. The first one is told, and goes on with a new
// one; until then no write of either is done twice or taken for done when it is not.
func TestRealSessionTakenByAnother(t *testing.T) {
	forEachServer(t, func(t *testing.T, s realServer) {
		ctx := testContext(t)
		polite := WithReconnect(BackoffFunc(func(int) (time.Duration, bool) { // each gets its turn
			return 5*time.Millisecond + rand.N(60*time.Millisecond), true
		}))
		first := s.dial(t, polite)
		session := first.Session()
		_, _, err := first.Create(ctx, "/mine", nil, ModeEphemeral, nil)
		require.NoError(t, err)
		_, _, err = first.Create(ctx, "/count", []byte{0}, ModePersistent, nil)
		require.NoError(t, err)
		second, err := Dial(ctx, s.addr, WithSession(session.ID(), first.Password()), polite)
		require.NoError(t, err)
		t.Cleanup(func() { abandonClient(second) })
		require.Equal(t, session.ID(), second.SessionID())
		writes := int32(0)
		for i := range 20 { // each takes the session from the other
			c := []*Client{first, second}[i%2]
			stat, err := c.Set(ctx, "/count", []byte{1}, writes)
			for errors.Is(err, ErrSessionMoved) {
				stat, err = c.Set(ctx, "/count", []byte{1}, writes)
			}
			if errors.Is(err, ErrUncertain) {
				_, stat, err = c.Get(ctx, "/count", Fresh())
			}
			require.NoError(t, err)
			require.LessOrEqual(t, stat.Version, writes+1)
			writes = stat.Version
		}
		stat, exists, err := second.Exists(ctx, "/mine", Fresh())
		require.NoError(t, err)
		require.True(t, exists, "the session has never ended")
		require.Equal(t, session.ID(), stat.EphemeralOwner)
		require.NoError(t, second.Close(ctx))
		select {
		case <-session.Done():
		case <-ctx.Done():
			t.Fatal("the session was ended by another, and its handle does not say so")
		}
		require.ErrorIs(t, session.Err(), ErrSessionExpired)
		now, err := first.AwaitSession(ctx)
		require.NoError(t, err)
		require.NotEqual(t, session.ID(), now.ID())
		_, exists, err = first.Exists(ctx, "/mine", Fresh())
		require.NoError(t, err)
		require.False(t, exists)
	})
}

// T6: contexts end at random; in the end the server holds no watch and no node of ours.
func TestRealCancellationsLeaveNothing(t *testing.T) {
	forEachServer(t, func(t *testing.T, s realServer) {
		c := s.dial(t)
		_, _, err := c.Create(testContext(t), "/x", nil, ModePersistent, nil)
		require.NoError(t, err)
		var callers sync.WaitGroup
		for i := range 8 {
			callers.Go(func() {
				for n := range 150 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration((n*37+i*11)%700)*time.Microsecond)
					switch n % 4 {
					case 0:
						if _, _, w, err := c.GetW(ctx, "/x"); err == nil {
							require.NoError(t, w.Remove(testContext(t)))
						}
					case 1:
						if _, _, w, err := c.ExistsW(ctx, fmt.Sprintf("/none-%d", n)); err == nil {
							require.NoError(t, w.Remove(testContext(t)))
						}
					case 2:
						if sub, err := c.Subscribe(ctx, fmt.Sprintf("/x/%d", n%3), Recursive); err == nil {
							sub.Close()
						}
					case 3:
						if p, _, err := c.ProtectedCreate(ctx, "/x/n-", nil, ModeEphemeralSequential, nil); err == nil {
							require.NoError(t, c.SureDelete(testContext(t), p, AnyVersion))
						}
					}
					cancel()
				}
			})
		}
		callers.Wait()
		eventually(t, "all is clean", func() bool {
			names, _, err := c.Children(testContext(t), "/x")
			return err == nil && len(names) == 0 && c.Stats().Background == 0 && s.unwatched()
		})
		require.Zero(t, entries(c))
		require.NoError(t, c.Close(testContext(t)))
	})
}
