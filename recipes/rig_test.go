package recipes

import (
	"context"
	"flag"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/internal/leak"
	"github.com/zkd-project/zkd/zkdtest"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv("ZKD_PAUSED_HOLDER"); addr != "" { // a child of TestPausedHolder
		pausedHolder(addr)
		return
	}
	os.Exit(leak.Main(m))
}

// testLimit bounds what a test waits for, so that it fails with a reason. It is long: the machine may
// stand still for a while, again and again.
const testLimit = 2 * time.Minute

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*testLimit)
	t.Cleanup(cancel)
	return ctx
}

// eventually polls until cond holds.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(testLimit)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", testLimit, what)
		}
		time.Sleep(time.Millisecond) // between two looks at the condition
	}
}

var (
	nodes = flag.Int("nodes", 1, "how many servers each test has, unless it says so itself")
	long  = flag.Bool("long", false, "the long forms of the tests: T1 for a minute")
)

// A backend is the server of a test, or the cluster.
type backend interface {
	Addr() string // as clients take it
	Each() []string
	ExpireSession(id int64)
	Restart()
}

// single is one server.
type single struct{ *zkdtest.Server }

func (s single) Each() []string { return []string{s.Addr()} }

// several is a cluster. Restart does it to the leader.
type several struct{ *zkdtest.Cluster }

func (s several) Addr() string   { return s.Addrs() }
func (s several) Each() []string { return strings.Split(s.Addrs(), ",") }
func (s several) Restart() {
	if l := s.Leader(); l != 0 {
		s.Kill(l)
		s.Cluster.Restart(l)
	}
}

func newBackend(t testing.TB, nodes int, opts []zkdtest.Option) backend {
	if nodes == 1 {
		return single{zkdtest.Start(t, opts...)}
	}
	return several{zkdtest.StartCluster(t, nodes, opts...)}
}

// A rig is a server with clients, and looks at the end of the test whether anything was left
// behind: a node that is not said to stay, a watch, a deletion in the background, a goroutine.
type rig struct {
	t    testing.TB
	srv  backend
	stay []string        // paths below which nodes may be left
	opts []client.Option // of all clients

	mu      sync.Mutex
	clients []*client.Client
}

func newRig(t testing.TB, opts ...zkdtest.Option) *rig {
	t.Helper()
	return newRigOf(t, *nodes, opts...)
}

// newRigOf makes a rig of so many servers.
func newRigOf(t testing.TB, nodes int, opts ...zkdtest.Option) *rig {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		if !t.Failed() {
			require.NoError(t, leak.Find(before))
		}
	})
	r := &rig{t: t, srv: newBackend(t, nodes, opts)}
	t.Cleanup(r.end)
	return r
}

// stays allows nodes to be left below these paths.
func (r *rig) stays(paths ...string) { r.stay = append(r.stay, paths...) }

// dial returns a client that the rig closes.
func (r *rig) dial(opts ...client.Option) *client.Client {
	r.t.Helper()
	return r.dialTo(r.srv.Addr(), opts...)
}

// dialTo is dial to another address than that of the servers.
func (r *rig) dialTo(addr string, opts ...client.Option) *client.Client {
	r.t.Helper()
	c, err := client.Dial(testContext(r.t), addr, append(slices.Clone(r.opts), opts...)...)
	require.NoError(r.t, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clients = append(r.clients, c)
	return c
}

// close ends a client before the end of the test.
func (r *rig) close(c *client.Client) {
	r.t.Helper()
	r.mu.Lock()
	r.clients = slices.DeleteFunc(r.clients, func(o *client.Client) bool { return o == c })
	r.mu.Unlock()
	closeClient(r.t, c)
}

func closeClient(t testing.TB, c *client.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testLimit)
	defer cancel()
	if err := c.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

func (r *rig) end() {
	if !r.t.Failed() {
		r.checkClean()
	}
	for _, c := range r.clients {
		closeClient(r.t, c)
	}
}

// checkClean waits until nothing is left behind, with the clients still there: what goes only
// with its session was left.
func (r *rig) checkClean() {
	r.t.Helper()
	c, err := client.Dial(testContext(r.t), r.srv.Addr())
	require.NoError(r.t, err)
	defer closeClient(r.t, c)
	var left []string
	limit := time.Now().Add(testLimit)
	for ; ; time.Sleep(5 * time.Millisecond) { // between two looks at the condition
		left = r.left(c)
		switch n, ok := r.watches(); {
		case !ok:
			left = append(left, "watches of which a server does not tell: "+r.ask("wchs"))
		case n != 0:
			left = append(left, strconv.Itoa(n)+" watches: "+r.ask("wchp"))
		}
		for _, c := range r.clients {
			if s := c.Stats(); s.Watches+s.Subscriptions+s.Background > 0 {
				left = append(left, "in the client: "+strconv.Itoa(s.Watches)+" watches, "+
					strconv.Itoa(s.Subscriptions)+" subscriptions, "+strconv.Itoa(s.Background)+" deletions")
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(limit) {
			break
		}
	}
	r.t.Errorf("left behind: %q", left)
}

// left lists the nodes that should not be there. Empty directories may: they are containers, which
// the server removes, but does not tell from other nodes.
func (r *rig) left(c *client.Client) []string {
	var out []string
	var walk func(path string)
	walk = func(path string) {
		names, stat, err := c.Children(testContext(r.t), path, client.Fresh())
		if err != nil {
			return
		}
		_, numbered := trailingNumber(path)
		stays := path == "/" || stat.EphemeralOwner == 0 && stat.DataLength == 0 && !numbered && base(path) != readyName ||
			slices.ContainsFunc(r.stay, func(s string) bool { return path == s || strings.HasPrefix(path, s+"/") })
		if !stays {
			out = append(out, path)
		}
		for _, name := range names {
			if p := join(path, name); p != "/zookeeper" {
				walk(p)
			}
		}
	}
	walk("/")
	return out
}

// watches is how many watches the servers say they have; ok is false if one does not serve at the moment.
func (r *rig) watches() (n int, ok bool) {
	all := regexp.MustCompile(`Total watches:(\d+)`).FindAllStringSubmatch(r.ask("wchs"), -1)
	for _, m := range all {
		k, err := strconv.Atoi(m[1])
		require.NoError(r.t, err)
		n += k
	}
	return n, len(all) == len(r.srv.Each())
}

// ask sends a four-letter word to every server.
func (r *rig) ask(word string) (out string) {
	for _, addr := range r.srv.Each() {
		out += ask(addr, word)
	}
	return out
}

// children lists a node's children, nil if it is not there.
func (r *rig) children(c *client.Client, path string) []string {
	names, _, _ := c.Children(testContext(r.t), path, client.Fresh())
	slices.Sort(names)
	return names
}

// queued waits until there are n children.
func (r *rig) queued(c *client.Client, path string, n int) {
	r.t.Helper()
	eventually(r.t, strconv.Itoa(n)+" nodes in "+path, func() bool { return len(r.children(c, path)) == n })
}

// ask sends a four-letter word; the answer is empty if there is none.
func ask(addr, word string) string {
	c, err := net.DialTimeout("tcp", addr, testLimit)
	if err != nil {
		return ""
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(testLimit))
	_, _ = io.WriteString(c, word)
	b, _ := io.ReadAll(c)
	return string(b)
}

// mustLock is a Lock that has to work at once.
func mustLock(t testing.TB, lock func(context.Context) (Lease, error)) Lease {
	t.Helper()
	l, err := lock(testContext(t))
	require.NoError(t, err)
	return l
}

func release(t testing.TB, leases ...Lease) {
	t.Helper()
	for _, l := range leases {
		require.NoError(t, l.Release(testContext(t)))
	}
}

// A pending is a call that runs beside the test.
type pending struct {
	t     testing.TB
	lease chan Lease
	err   chan error
}

// start calls lock in a goroutine.
func start(t testing.TB, ctx context.Context, lock func(context.Context) (Lease, error)) *pending {
	p := &pending{t: t, lease: make(chan Lease, 1), err: make(chan error, 1)}
	go func() {
		l, err := lock(ctx)
		if err != nil {
			p.err <- err
			return
		}
		p.lease <- l
	}()
	return p
}

// got waits for the lease.
func (p *pending) got() Lease {
	p.t.Helper()
	select {
	case l := <-p.lease:
		return l
	case err := <-p.err:
		require.NoError(p.t, err)
	case <-time.After(testLimit):
		require.FailNow(p.t, "the call did not return")
	}
	return nil
}

// failed waits for the error.
func (p *pending) failed() error {
	p.t.Helper()
	select {
	case <-p.lease:
		require.FailNow(p.t, "the call returned a lease")
	case err := <-p.err:
		return err
	case <-time.After(testLimit):
		require.FailNow(p.t, "the call did not return")
	}
	return nil
}

// waits says that the call has not returned.
func (p *pending) waits() {
	p.t.Helper()
	select {
	case <-p.lease:
		require.FailNow(p.t, "the call returned a lease, and should wait")
	case err := <-p.err:
		require.FailNow(p.t, "the call failed, and should wait", "%v", err)
	default:
	}
}

// await waits for a channel to be closed or to yield.
func await[T any](t testing.TB, what string, ch <-chan T) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(testLimit):
		require.FailNow(t, "not in time: "+what)
	}
}
