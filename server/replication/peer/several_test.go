package peer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/server/replication/peer/memnet"
)

// A waysNetwork notes what was dialed, and lets some addresses lead nowhere.
type waysNetwork struct {
	Network
	dead   atomic.Pointer[map[string]error]
	dialed chan string
}

func (w *waysNetwork) Dial(ctx context.Context, address string) (net.Conn, error) {
	w.dialed <- address
	if dead := w.dead.Load(); dead != nil && (*dead)[address] != nil {
		return nil, (*dead)[address]
	}
	return w.Network.Dial(ctx, address)
}

// A member with several addresses listens at all, and is dialed at each until one answers; the
// one that did goes first from then on.
func TestSeveralAddressesAreDialedInTurn(t *testing.T) {
	mem := memnet.New()
	ways := &waysNetwork{Network: mem.Host("a"), dialed: make(chan string, 100)}
	addresses := []string{"b:1", "b:2", "b:3"}
	resolve := func(raft.ServerID) ([]string, error) { return addresses, nil }
	one, err := New(Options{ID: "1-x", Cluster: "c", Listen: "a:1", Network: ways, Resolve: resolve})
	require.NoError(t, err)
	t.Cleanup(func() { one.Close() })
	two, err := New(Options{ID: "2-y", Cluster: "c", Listen: "b:1", AlsoListen: addresses[1:], Network: mem.Host("b"), Resolve: resolve})
	require.NoError(t, err)
	t.Cleanup(func() { two.Close() })
	meet := func(want ...string) error {
		t.Helper()
		_, err := one.Meet(within(t, patience), 2)
		for _, address := range want {
			select {
			case got := <-ways.dialed:
				require.Equal(t, address, got)
			default:
				t.Fatalf("%s was not dialed", address)
			}
		}
		require.Empty(t, ways.dialed)
		return err
	}
	refused, cut := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, errors.New("no route")
	require.NoError(t, meet("b:1"))
	ways.dead.Store(&map[string]error{"b:1": cut})
	require.NoError(t, meet("b:1", "b:2"))
	require.NoError(t, meet("b:2"), "that way was good")
	ways.dead.Store(&map[string]error{"b:1": cut, "b:2": refused})
	require.NoError(t, meet("b:2", "b:3"))

	// Only if all refuse is nobody there.
	ways.dead.Store(&map[string]error{"b:1": refused, "b:2": cut, "b:3": refused})
	err = meet("b:3", "b:1", "b:2")
	require.ErrorIs(t, err, cut)
	require.False(t, isRefused(err))
	ways.dead.Store(&map[string]error{"b:1": refused, "b:2": refused, "b:3": refused})
	require.True(t, isRefused(meet("b:3", "b:1", "b:2")))
}

func TestAnAddressThatCannotBeOpenedIsSaid(t *testing.T) {
	mem := memnet.New()
	_, err := New(Options{
		ID: "1-x", Cluster: "c", Listen: "a:1", AlsoListen: []string{"a:1"}, Network: mem.Host("a"),
		Resolve: func(raft.ServerID) ([]string, error) { return nil, nil },
	})
	require.ErrorContains(t, err, "cannot open the peer port")
	l, err := mem.Host("a").Listen("a:1")
	require.NoError(t, err, "the first one was left open")
	l.Close()
}

// The authorities change while connections are open: who is trusted no more has to go, and
// cannot come back; nobody else is disturbed.
func TestAuthoritiesAreChangedWhileMembersAreConnected(t *testing.T) {
	old, next := newAuthority(t), newAuthority(t)
	both := x509.NewCertPool()
	both.AddCert(old.cert)
	both.AddCert(next.cert)
	mem := memnet.New()
	type member struct {
		*Transport
		roots atomic.Pointer[x509.CertPool]
		own   atomic.Pointer[tls.Certificate]
	}
	var all [2]*member
	for i := range all {
		m := &member{}
		all[i] = m
		m.roots.Store(old.pool())
		show := func(a *authority) {
			c := a.sign(t, memberName(serverID(i+1)), nil)
			m.own.Store(&c)
		}
		show(old)
		host := []string{"a", "b"}[i]
		var err error
		m.Transport, err = New(Options{
			ID: serverID(i + 1), Cluster: "c", Listen: host + ":1", Network: mem.Host(host),
			Resolve: func(id raft.ServerID) ([]string, error) { return []string{[]string{"", "a:1", "b:1"}[Number(id)]}, nil },
			Roots:   m.roots.Load,
			TLS: &tls.Config{
				GetCertificate:       func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return m.own.Load(), nil },
				GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return m.own.Load(), nil },
			},
		})
		require.NoError(t, err)
		t.Cleanup(func() { m.Close() })
		m.Handle(kindEcho, echo)
	}
	talk := func(s *Stream) error {
		err := s.Send([]byte("x"))
		if err == nil {
			_, err = s.Receive()
		}
		return err
	}
	open := func(from, to int) (*Stream, error) {
		s, err := all[from].Open(within(t, patience), serverID(to+1), kindEcho)
		if err == nil {
			err = talk(s)
			t.Cleanup(func() { s.Close() })
		}
		return s, err
	}
	first, err := open(0, 1)
	require.NoError(t, err)
	trust := func(i int, roots *x509.CertPool) {
		all[i].roots.Store(roots)
		all[i].recheck(roots)
	}
	trust(0, both)
	trust(1, both)
	require.NoError(t, talk(first), "nothing has changed for it")
	fresh := next.sign(t, memberName(serverID(1)), nil)
	all[0].own.Store(&fresh)
	second, err := open(0, 1)
	require.NoError(t, err, "both are trusted")
	back, err := open(1, 0)
	require.NoError(t, err)

	trust(1, next.pool())
	require.Error(t, talk(first), "it was made with a certificate of the old authority")
	require.NoError(t, talk(second))
	require.NoError(t, talk(back), "it dialed a member of the new one")
	_, err = open(0, 1)
	require.NoError(t, err)
	trust(0, next.pool())
	require.Error(t, talk(back), "member 2 still shows a certificate of the old one")
	_, err = open(1, 0)
	require.Error(t, err)
	fresh2 := next.sign(t, memberName(serverID(2)), nil)
	all[1].own.Store(&fresh2)
	for from := range all {
		_, err = open(from, 1-from)
		require.NoError(t, err)
	}
}

// Nobody needs to connect for the change to be seen.
func TestAChangeOfAuthoritiesIsSeenByItself(t *testing.T) {
	t.Parallel() // it waits for the end of a lease
	ca, other := newAuthority(t), newAuthority(t)
	var roots atomic.Pointer[x509.CertPool]
	roots.Store(ca.pool())
	closed := make(chan struct{})
	s := setup{options: func(m *member, o *Options) {
		o.TLS, o.Roots = ca.config(ca.sign(t, memberName(m.id), nil)), roots.Load
	}}
	r := newRig(t, s, nil)
	leader := r.leader()
	r.await(leader.apply("x"), r.members...)
	roots.Store(other.pool())
	go func() {
		defer close(closed)
		for leader.r().State() == raft.Leader { // it loses everybody
			time.Sleep(time.Millisecond)
		}
	}()
	select {
	case <-closed:
	case <-time.After(patience):
		t.Fatal("open connections live on without anybody who vouches for them")
	}
}
