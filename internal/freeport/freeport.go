// Package freeport finds ports for servers that tests start as processes, whose ports must be
// known before they start.
//
// The ports lie below the range that the kernel gives to outgoing connections: otherwise any
// client of any test could take one between the search and the start, or while a server restarts.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

const lowest, highest = 15000, 32000

// handedOut keeps a port from being given to two servers that start later.
var handedOut = struct {
	sync.Mutex
	ports map[int]bool
}{ports: map[int]bool{}}

// Addr returns an address of 127.0.0.1 where nobody listens.
func Addr(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", Row(t, 1))
}

// Row returns the first of n ports in a row that nobody listens on at 127.0.0.1.
func Row(t testing.TB, n int) int {
	t.Helper()
	handedOut.Lock()
	defer handedOut.Unlock()
	for range 1000 {
		if first := lowest + rand.IntN(highest-lowest-n); free(first, n) {
			for i := range n {
				handedOut.ports[first+i] = true
			}
			return first
		}
	}
	t.Fatalf("no %d free ports in a row between %d and %d", n, lowest, highest)
	return 0
}

func free(first, n int) bool {
	for port := first; port < first+n; port++ {
		if handedOut.ports[port] {
			return false
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return false
		}
		_ = l.Close()
	}
	return true
}
