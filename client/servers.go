package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
)

// defaultPort is where ZooKeeper listens.
const defaultPort = "2181"

// parseServers reads "host:port,host:port/chroot". A port may be missing, an IPv6 address with
// a port stands in brackets.
func parseServers(s string) (hosts []string, root string, err error) {
	list, path, hasRoot := strings.Cut(s, "/")
	if hasRoot && path != "" {
		root = "/" + path
		if problem := checkPath(root, false); problem != "" {
			return nil, "", fmt.Errorf("servers %q: chroot %q: %s", s, root, problem)
		}
	}
	for h := range strings.SplitSeq(list, ",") {
		h = strings.TrimSpace(h)
		if h == "" {
			continue
		}
		addr, err := hostPort(h)
		if err != nil {
			return nil, "", fmt.Errorf("servers %q: %w", s, err)
		}
		if !slices.Contains(hosts, addr) {
			hosts = append(hosts, addr)
		}
	}
	if len(hosts) == 0 {
		return nil, "", fmt.Errorf("servers %q: no server is named; write host:port,host:port", s)
	}
	return hosts, root, nil
}

func hostPort(h string) (string, error) {
	bare := strings.Trim(h, "[]")
	if !strings.Contains(h, ":") || net.ParseIP(bare) != nil {
		h = net.JoinHostPort(bare, defaultPort)
	}
	host, port, err := net.SplitHostPort(h)
	if err != nil {
		return "", err
	}
	if host == "" || port == "" {
		return "", fmt.Errorf("%q has no host or no port", h)
	}
	return net.JoinHostPort(host, port), nil
}

// A target is one address to try.
type target struct {
	server string // host:port as listed
	host   string // for TLS
	addr   string // ip:port
}

// A serverList decides whom to try next. Every round goes over all servers in a new random
// order, and over all addresses that a name has, asking the resolver again before each.
type serverList struct {
	mu    sync.Mutex
	hosts []string
	order []string        // what is left of this round; the first is under way
	tried map[string]bool // addresses of order[0] that were tried in this round
}

func newServerList(hosts []string) *serverList {
	l := &serverList{hosts: hosts}
	l.order = shuffled(hosts)
	return l
}

func shuffled(list []string) []string {
	list = slices.Clone(list)
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

func (l *serverList) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.hosts)
}

// all returns the servers in random order.
func (l *serverList) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return shuffled(l.hosts)
}

// avoid starts a round in which server comes last: its connection has just been lost.
func (l *serverList) avoid(server string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	rest := slices.DeleteFunc(slices.Clone(l.hosts), func(h string) bool { return h == server })
	l.order, l.tried = shuffled(rest), nil
	if len(rest) < len(l.hosts) {
		l.order = append(l.order, server)
	}
}

// prefer starts a round with these servers, in random order.
func (l *serverList) prefer(first ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	rest := slices.DeleteFunc(slices.Clone(l.hosts), func(h string) bool { return slices.Contains(first, h) })
	l.order, l.tried = append(shuffled(first), shuffled(rest)...), nil
}

// next resolves the name whose turn it is and returns an address that this round has not seen.
func (l *serverList) next(ctx context.Context, resolve resolver) (target, error) {
	for {
		l.mu.Lock()
		if len(l.order) == 0 {
			l.order = shuffled(l.hosts)
		}
		server := l.order[0]
		l.mu.Unlock()
		t, err := resolveOne(ctx, resolve, server, l.seen)
		if err == nil && t.addr != "" {
			l.mark(server, t.addr)
			return t, nil
		}
		l.mu.Lock()
		again := l.tried != nil // its addresses are exhausted; on to the next server
		if len(l.order) > 0 && l.order[0] == server {
			l.order, l.tried = l.order[1:], nil
		}
		l.mu.Unlock()
		if err != nil {
			return target{server: server}, err
		}
		if !again {
			return target{server: server}, fmt.Errorf("the name %s has no address", server)
		}
	}
}

func (l *serverList) seen(addr string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tried[addr]
}

func (l *serverList) mark(server, addr string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.order) == 0 || l.order[0] != server {
		return // another round has begun
	}
	if l.tried == nil {
		l.tried = map[string]bool{}
	}
	l.tried[addr] = true
}

// A resolver turns a host name into addresses.
type resolver func(ctx context.Context, host string) ([]string, error)

// resolveOne returns an address of server that skip does not know, the zero target if there
// is none.
func resolveOne(ctx context.Context, resolve resolver, server string, skip func(string) bool) (target, error) {
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		return target{}, err
	}
	addrs := []string{host}
	if net.ParseIP(host) == nil {
		addrs, err = resolve(ctx, host)
		if err != nil {
			return target{}, fmt.Errorf("resolve %s: %w", host, err)
		}
	}
	for _, a := range shuffled(addrs) {
		if addr := net.JoinHostPort(a, port); skip == nil || !skip(addr) {
			return target{server: server, host: host, addr: addr}, nil
		}
	}
	return target{server: server}, nil
}

// update replaces the list. It says whether the client at current should move, so that the load
// of all clients together ends up even, and whom to try first then.
//
// With n old servers, m new ones and k in both, each had 1/n of the clients and should have 1/m.
// If m > n, a client on a kept server moves with probability 1-n/m, and whoever moves goes to an
// added one: these get n-k+k(1-n/m) of n, which is (m-k)/m. If m <= n nobody leaves a kept server;
// of the clients of the removed ones, (n-k)/n, the kept servers lack k(n-m)/(nm) in all.
func (l *serverList) update(hosts []string, current string, random float64) (move bool) {
	l.mu.Lock()
	old := l.hosts
	l.hosts = hosts
	l.mu.Unlock()
	var kept, added []string
	for _, h := range hosts {
		if slices.Contains(old, h) {
			kept = append(kept, h)
		} else {
			added = append(added, h)
		}
	}
	n, m, k := float64(len(old)), float64(len(hosts)), float64(len(kept))
	first := added
	stays := slices.Contains(kept, current)
	switch {
	case m > n:
		move = !stays || random < 1-n/m
	case stays:
	default:
		move = true
		if n > k && random < k*(n-m)/(m*(n-k)) || len(added) == 0 {
			first = kept
		}
	}
	l.prefer(first...)
	return move
}
