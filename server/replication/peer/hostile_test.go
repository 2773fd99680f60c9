package peer

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// helloBytes is what a member 2 says to a member 1, with something changed.
func helloBytes(change func(h *hello)) []byte {
	h := hello{newest: 1, oldest: 1, kind: KindRaft, boot: 5, cluster: "test", from: serverID(2), to: serverID(1)}
	if change != nil {
		change(&h)
	}
	return appendFrame([]byte(magic), frameHello, func(b []byte) []byte { return appendHello(b, &h) })
}

// orders are messages that would do harm, were they believed: all of a term far ahead.
func orders() []byte {
	h := header(3, []byte(serverID(2)))
	var b []byte
	add := func(f frameType, fill func([]byte) []byte) { b = appendFrame(b, f, fill) }
	add(frameVote, func(b []byte) []byte {
		return appendVote(b, 1, &raft.RequestVoteRequest{RPCHeader: h, Term: 1000, LastLogIndex: 1 << 40, LastLogTerm: 999, LeadershipTransfer: true})
	})
	add(frameAppend, func(b []byte) []byte {
		return appendAppend(b, 2, &appendPiece{version: 3, term: 1000, prevIndex: 0, commit: 1, entries: entries(1, 1000)})
	})
	add(frameTimeoutNow, func(b []byte) []byte { return appendTimeoutNow(b, 3, &raft.TimeoutNowRequest{RPCHeader: h}) })
	add(frameInstall, func(b []byte) []byte {
		return appendInstall(b, &raft.InstallSnapshotRequest{
			RPCHeader: h, SnapshotVersion: 1, Term: 1000, LastLogIndex: 1 << 40, LastLogTerm: 1000, Size: 3, Configuration: aConfiguration,
		})
	})
	add(frameChunk, func(b []byte) []byte { return append(b, "abc"...) })
	add(frameEnd, func(b []byte) []byte { return appendEnd(b, snapshotEnd{size: 3}) })
	return b
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

type attack struct {
	name  string
	bytes []byte
	code  RefusalCode // what the answer must be; 0: none
}

func attacks() []attack {
	huge := []byte(magic + "\xff\xff\xff\xff\x01\x00\x00\x00aaaa")
	negative := []byte(magic + "\x80\x00\x00\x00\x01\x00\x00\x00aaaa")
	broken := helloBytes(nil)
	broken[len(broken)-1] ^= 1
	with := func(change func(h *hello)) []byte { return append(helloBytes(change), orders()...) }
	return []attack{
		{name: "random bytes", bytes: randomBytes(1 << 12)},
		{name: "HTTP", bytes: []byte("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")},
		{name: "TLS on the plain port", bytes: append([]byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), randomBytes(500)...)},
		{name: "four letters", bytes: []byte("ruok\nstat\nruok\nstat\nruok\n")},
		{name: "magic and random bytes", bytes: append([]byte(magic), randomBytes(1<<12)...)},
		{name: "a huge length", bytes: append(huge, orders()...)},
		{name: "a negative length", bytes: append(negative, orders()...)},
		{name: "a hello with a wrong checksum", bytes: append(broken, orders()...)},
		{name: "orders without magic", bytes: orders()},
		{name: "orders without hello", bytes: append([]byte(magic), orders()...)},
		{name: "another cluster", bytes: with(func(h *hello) { h.cluster = "other" }), code: RefusedCluster},
		{name: "meant for another member", bytes: with(func(h *hello) { h.to = serverID(3) }), code: RefusedTarget},
		{name: "meant for an older incarnation", bytes: with(func(h *hello) { h.to = "1-old" }), code: RefusedTarget},
		{name: "from this member", bytes: with(func(h *hello) { h.from = serverID(1) }), code: RefusedMember},
		{name: "from a member that was removed", bytes: with(func(h *hello) { h.from = "7-removed" }), code: RefusedMember},
		{name: "of a later version", bytes: with(func(h *hello) { h.newest, h.oldest = 9, 8 }), code: RefusedVersion},
		{name: "of a kind that nobody takes", bytes: with(func(h *hello) { h.kind = 200 }), code: RefusedKind},
		{name: "without a boot nonce", bytes: with(func(h *hello) { h.boot = 0 })},
	}
}

func onlyMembers(m *member, o *Options) {
	o.Admit = func(from raft.ServerID, _ Kind) error {
		for _, id := range m.rig.voters() {
			if id == from {
				return nil
			}
		}
		return fmt.Errorf("%s is no member", from)
	}
}

// Whatever a stranger sends, raft sees nothing of it, and the connection is closed at once.
func TestStrangersHaveNoEffect(t *testing.T) {
	r := newRig(t, setup{cluster: "test", noStart: true, options: onlyMembers}, nil)
	victim := r.members[0]
	for _, a := range attacks() {
		t.Run(a.name, func(t *testing.T) {
			nc, err := net.Dial("tcp", victim.address())
			require.NoError(t, err)
			defer nc.Close()
			require.NoError(t, nc.SetDeadline(time.Now().Add(defaultHandshakeTimeout/2)))
			_, _ = nc.Write(a.bytes)
			answer, err := io.ReadAll(nc)
			require.False(t, errors.Is(err, os.ErrDeadlineExceeded), "it was not closed")
			if a.code != 0 && len(answer) > 0 { // the refusal is lost where the kernel resets
				require.Equal(t, byte(frameRefusal), answer[4])
				require.Equal(t, byte(a.code), answer[headerBytes])
			}
			if a.code == 0 {
				require.Empty(t, answer)
			}
			noRPC(t, victim.t)
		})
	}
	require.NotZero(t, victim.t.Stats().Malformed)
	require.NotZero(t, victim.t.Stats().Refused)
}

func noRPC(t *testing.T, tr *Transport) {
	t.Helper()
	select {
	case rpc := <-tr.Consumer():
		t.Fatalf("raft was given %T", rpc.Command)
	default:
	}
}

// The same against a cluster at work.
func TestAClusterUnderAttackKeepsItsLeader(t *testing.T) {
	r := newRig(t, setup{cluster: "test", options: onlyMembers}, nil)
	leader := r.leader()
	term := leader.r().CurrentTerm()
	for _, a := range attacks() { // on member 1, leader or not
		nc, err := net.Dial("tcp", r.members[0].address())
		require.NoError(t, err)
		require.NoError(t, nc.SetDeadline(time.Now().Add(time.Second)))
		_, _ = nc.Write(a.bytes)
		_, _ = io.Copy(io.Discard, nc)
		nc.Close()
	}
	r.await(leader.apply("x"), r.members...)
	require.Equal(t, term, leader.r().CurrentTerm())
	require.Same(t, leader, r.leader())
}

// Refusals are told, and strangers learn nothing from them.
func TestRefusalsSayWhy(t *testing.T) {
	for _, a := range attacks() {
		if a.code == 0 {
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			inMemory(t, setup{cluster: "test", noStart: true, nodes: 3, options: onlyMembers}, func(t *testing.T, r *rig) {
				nc, err := r.net.Host("2").Dial(t.Context(), "1:1")
				require.NoError(t, err)
				defer nc.Close()
				_, err = nc.Write(a.bytes)
				require.NoError(t, err)
				f, body, err := readPlain(nc, acceptHelloAnswer)
				require.NoError(t, err)
				require.Equal(t, frameRefusal, f)
				refusal, err := decodeRefusal(body)
				require.NoError(t, err)
				require.Equal(t, a.code, refusal.Code)
				require.NotEmpty(t, refusal.Reason)
				known := a.code == RefusedKind || a.name == "from a member that was removed"
				require.Equal(t, known, refusal.Boot != 0, "only members learn which process this is")
				_, err = nc.Read(make([]byte, 1))
				require.ErrorIs(t, err, io.EOF)
				synctest.Wait()
				noRPC(t, r.members[0].t)
			})
		})
	}
}

// A member may not say everything either: what does not belong to its connection ends it.
func TestFramesOfAMemberAreChecked(t *testing.T) {
	frame := func(f frameType, body string) []byte {
		return appendFrame(nil, f, func(b []byte) []byte { return append(b, body...) })
	}
	long := frame(frameVote, "")
	binary.BigEndian.PutUint32(long, voteBytes+1)
	huge := frame(frameAppend, "")
	binary.BigEndian.PutUint32(huge, 0xfffffff0)
	broken := orders()
	broken[headerBytes] ^= 1
	badEntry := appendFrame(nil, frameAppend, func(b []byte) []byte {
		return appendAppend(b, 1, &appendPiece{version: 3, term: 1, entries: []*raft.Log{{Term: 1, Type: 99}}})
	})
	for _, test := range []struct {
		name  string
		kind  Kind
		bytes []byte
	}{
		{"a frame of another kind", KindRaft, frame(frameChunk, "x")},
		{"an answer where requests are taken", KindRaft, frame(frameReply, "x")},
		{"a hello again", KindRaft, helloBytes(nil)[len(magic):]},
		{"a request that is too long", KindRaft, long},
		{"a huge request", KindRaft, huge},
		{"a broken checksum", KindRaft, broken},
		{"a request that cannot be decoded", KindRaft, frame(frameVote, "x")},
		{"an entry that raft cannot bear", KindRaft, badEntry},
		{"requests on a snapshot connection", KindSnapshot, orders()},
		{"requests on a control connection", KindControl, orders()},
		{"anything on a probe", KindProbe, orders()},
		{"a question that cannot be decoded", KindControl, frame(frameAsk, "x")},
	} {
		t.Run(test.name, func(t *testing.T) {
			inMemory(t, setup{cluster: "test", noStart: true, nodes: 3}, func(t *testing.T, r *rig) {
				nc, err := r.net.Host("2").Dial(t.Context(), "1:1")
				require.NoError(t, err)
				defer nc.Close()
				_, err = nc.Write(helloBytes(func(h *hello) { h.kind = test.kind }))
				require.NoError(t, err)
				f, _, err := readPlain(nc, acceptHelloAnswer)
				require.NoError(t, err)
				require.Equal(t, frameWelcome, f)
				_, err = nc.Write(test.bytes)
				require.NoError(t, err)
				_, err = nc.Read(make([]byte, 1))
				require.Error(t, err)
				synctest.Wait()
				noRPC(t, r.members[0].t)
			})
		})
	}
}

func TestAHandshakeHasAnAbsoluteDeadline(t *testing.T) {
	good := helloBytes(nil)
	for name, bytes := range map[string][]byte{"silent": nil, "slow": good} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, setup{cluster: "test", noStart: true, nodes: 1}, func(t *testing.T, r *rig) {
				nc, err := r.net.Host("9").Dial(t.Context(), "1:1")
				require.NoError(t, err)
				defer nc.Close()
				began := time.Now()
				var writer sync.WaitGroup
				defer writer.Wait()
				writer.Go(func() {
					for i := range bytes { // a byte every 0.8 s
						time.Sleep(800 * time.Millisecond)
						if _, err := nc.Write(bytes[i : i+1]); err != nil {
							return
						}
					}
				})
				_, err = nc.Read(make([]byte, 1))
				require.ErrorIs(t, err, io.EOF)
				require.Equal(t, defaultHandshakeTimeout, time.Since(began))
				synctest.Wait()
				require.EqualValues(t, 1, r.members[0].t.Stats().Slow)
			})
		})
	}
}

// A flood of connections drives out itself: members at other addresses are not even
// delayed, and memory and goroutines stay bounded.
func TestAFloodDrivesOutItself(t *testing.T) {
	inMemory(t, setup{cluster: "test"}, func(t *testing.T, r *rig) {
		leader := r.leader()
		before := runtime.NumGoroutine()
		var flood []net.Conn
		for i := range 3000 {
			nc, err := r.net.Host("9").Dial(t.Context(), leader.address())
			require.NoError(t, err)
			flood = append(flood, nc)
			if i%100 == 0 {
				synctest.Wait()
				require.LessOrEqual(t, leader.t.Stats().InLobby, maxLobby)
			}
		}
		synctest.Wait()
		require.LessOrEqual(t, runtime.NumGoroutine()-before, 2*maxLobby)
		require.GreaterOrEqual(t, leader.t.Stats().Evicted, uint64(3000-maxLobby))

		for _, m := range r.followers(leader) { // which have to shake hands anew
			r.net.Cut(leader.host(), m.host())
		}
		began := time.Now()
		r.await(leader.apply("x"), r.members...)
		require.Less(t, time.Since(began), 200*time.Millisecond)
		require.Equal(t, raft.Leader, leader.r().State())
		for _, nc := range flood {
			nc.Close()
		}
	})
}

// fakeConn is a connection from an address.
type fakeConn struct {
	net.Conn
	from   string
	closed bool
}

func (c *fakeConn) RemoteAddr() net.Addr {
	a, _ := net.ResolveTCPAddr("tcp", c.from)
	return a
}
func (c *fakeConn) Close() error { c.closed = true; return nil }

func TestTheLobbyDrivesOutTheOldestOfTheMostNumerous(t *testing.T) {
	var l lobby
	early := &fakeConn{from: "10.0.0.1:1"} // older than all of the flood
	l.enter(early)
	var flood []*fakeConn
	for i := range 2 * maxLobby {
		nc := &fakeConn{from: fmt.Sprintf("10.0.0.2:%d", 1+i)}
		flood = append(flood, nc)
		l.enter(nc)
	}
	late := &fakeConn{from: "10.0.0.3:1"}
	g := l.enter(late)
	require.False(t, early.closed)
	require.False(t, late.closed)
	require.Len(t, l.guests, maxLobby)
	for i, nc := range flood {
		require.Equal(t, i < len(flood)-(maxLobby-2), nc.closed, "connection %d", i)
	}
	require.False(t, l.leave(g))
	l.closeAll()
	require.True(t, early.closed)
	require.False(t, late.closed)
}

func TestAFloodFromTheSameAddressLeavesRoom(t *testing.T) {
	r := newRig(t, setup{cluster: "test", noStart: true}, nil)
	a, b := r.members[0], r.members[1]
	b.t.Handle(kindEcho, echo)
	var flood []net.Conn
	defer func() {
		for _, nc := range flood {
			nc.Close()
		}
	}()
	for i := range 4 * maxLobby {
		nc, err := net.Dial("tcp", b.address())
		require.NoError(t, err)
		flood = append(flood, nc)
		if i%50 == 0 {
			s, err := a.t.Open(within(t, patience), b.id, kindEcho)
			require.NoError(t, err)
			s.Close()
		}
	}
	require.LessOrEqual(t, b.t.Stats().InLobby, maxLobby)
}

// Who knows the cluster's name may claim any id, without TLS and Admit. It does not pile up.
func TestClaimedIDsDoNotPileUp(t *testing.T) {
	inMemory(t, setup{cluster: "test", noStart: true, nodes: 1}, func(t *testing.T, r *rig) {
		victim := r.members[0].t
		for i := range 5 * maxPeers {
			nc, err := r.net.Host("9").Dial(t.Context(), "1:1")
			require.NoError(t, err)
			_, err = nc.Write(helloBytes(func(h *hello) { h.from = raft.ServerID(fmt.Sprint("x-", i)) }))
			require.NoError(t, err)
			f, _, err := readPlain(nc, acceptHelloAnswer)
			require.NoError(t, err)
			require.Equal(t, frameWelcome, f)
			nc.Close()
			synctest.Wait()
		}
		require.LessOrEqual(t, len(victim.Peers()), maxPeers)
		var open []net.Conn
		refused := 0
		for i := range 2 * maxPeers {
			nc, err := r.net.Host("9").Dial(t.Context(), "1:1")
			require.NoError(t, err)
			open = append(open, nc)
			_, err = nc.Write(helloBytes(func(h *hello) { h.from = raft.ServerID(fmt.Sprint("y-", i)) }))
			require.NoError(t, err)
			if f, _, err := readPlain(nc, acceptHelloAnswer); err == nil && f == frameRefusal {
				refused++
			}
		}
		require.GreaterOrEqual(t, refused, maxPeers)
		for _, nc := range open {
			nc.Close()
		}
	})
}

// Promises of strangers cost nothing: memory after a thousand of them is what it was.
func TestStrangersDoNotMakeMemoryGrow(t *testing.T) {
	r := newRig(t, setup{cluster: "test", noStart: true, nodes: 1}, nil)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for range 1000 {
		nc, err := net.Dial("tcp", r.members[0].address())
		require.NoError(t, err)
		_, _ = nc.Write([]byte(magic + "\x7f\xff\xff\xff\x01\x00\x00\x00aaaa"))
		_, _ = nc.Read(make([]byte, 1)) // until it is closed
		nc.Close()
	}
	require.Less(t, heap(), before+2<<20)
}
