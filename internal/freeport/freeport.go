// Package freeport finds ports for servers whose ports must be known before they start: processes
// of tests, and clusters in one process whose members are named by their ports.
//
// The ports lie below the range that the kernel gives to outgoing connections: otherwise any
// client could take one between the search and the start, or while a server restarts.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

const lowest, highest = 15000, 32000

// handedOut keeps a port from being given to two servers that start later.
var handedOut = struct {
	sync.Mutex
	ports map[int]bool
}{ports: map[int]bool{}}

// TB is what is needed of a test.
type TB interface {
	Helper()
	Fatal(args ...any)
}

// Addr returns an address of 127.0.0.1 where nobody listens.
func Addr(t TB) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", Row(t, 1))
}

// Row returns the first of n ports in a row that nobody listens on at 127.0.0.1.
func Row(t TB, n int) int {
	t.Helper()
	first, err := Find("127.0.0.1", n)
	if err != nil {
		t.Fatal(err)
	}
	return first
}

// Find returns the first of n ports in a row that nobody listens on at host, an address of this
// machine. No port is returned twice in the life of a process, whatever the host.
func Find(host string, n int) (int, error) {
	handedOut.Lock()
	defer handedOut.Unlock()
	var why error
	for range 1000 {
		first := lowest + rand.IntN(highest-lowest-n)
		if why = free(host, first, n); why == nil {
			for i := range n {
				handedOut.ports[first+i] = true
			}
			return first, nil
		}
	}
	return 0, fmt.Errorf("no %d free ports in a row between %d and %d at %s: %w", n, lowest, highest, host, why)
}

func free(host string, first, n int) error {
	for port := first; port < first+n; port++ {
		if handedOut.ports[port] {
			return fmt.Errorf("port %d was given away", port)
		}
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			return err
		}
		_ = l.Close()
	}
	return nil
}
