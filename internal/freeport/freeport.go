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

const lowest, highest, blockSize = 15000, 32000, 250

// A block is a range of ports that this process alone gives away, as long as it lives: packages
// are tested side by side, and a server that is down for a moment must find its port again.
type block struct {
	next int            // the first port that was not given away
	last int            // of the block
	lock net.PacketConn // on UDP, where none of our servers is
}

// handedOut is what this process gives away. Nothing is given twice.
var handedOut struct {
	sync.Mutex
	blocks []*block
}

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
// machine; n is 250 at most. No port is returned twice in the life of a process, whatever the host,
// and none that another process on this machine has got and lives.
func Find(host string, n int) (int, error) {
	handedOut.Lock()
	defer handedOut.Unlock()
	for _, b := range handedOut.blocks {
		if first, ok := b.take(host, n); ok {
			return first, nil
		}
	}
	why := fmt.Errorf("a row has %d ports at most", blockSize)
	if n <= blockSize {
		why = fmt.Errorf("none of %d is free", blockSize)
		for _, i := range rand.Perm((highest - lowest) / blockSize) {
			b, err := reserve(lowest + i*blockSize)
			if err != nil { // another process has it
				why = err
				continue
			}
			handedOut.blocks = append(handedOut.blocks, b)
			if first, ok := b.take(host, n); ok {
				return first, nil
			}
		}
	}
	return 0, fmt.Errorf("no %d free ports in a row between %d and %d at %s: %w", n, lowest, highest, host, why)
}

func reserve(first int) (*block, error) {
	lock, err := net.ListenPacket("udp", net.JoinHostPort("127.0.0.1", strconv.Itoa(first)))
	if err != nil {
		return nil, err
	}
	return &block{next: first, last: first + blockSize - 1, lock: lock}, nil
}

// take gives n ports in a row away. Those before that are taken are passed over for good.
func (b *block) take(host string, n int) (first int, ok bool) {
	for first = b.next; first+n-1 <= b.last; first++ {
		if free(host, first, n) {
			b.next = first + n
			return first, true
		}
	}
	return 0, false
}

func free(host string, first, n int) bool {
	for port := first; port < first+n; port++ {
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			return false
		}
		_ = l.Close()
	}
	return true
}
