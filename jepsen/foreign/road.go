package foreign

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"

	"github.com/zkd-project/zkd/jepsen/workload"
)

// A road leads the connections of one child to the servers: a listener for each.
type road struct {
	e      *workload.Env
	ctx    context.Context // ends with the road
	cancel context.CancelFunc
	hosts  string // as clients write them
	all    []net.Listener
	wg     sync.WaitGroup

	mu   sync.Mutex
	open map[net.Conn]bool // guarded by mu: the child's ends
}

func newRoad(e *workload.Env) (*road, error) {
	r := &road{e: e, open: map[net.Conn]bool{}}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	var hosts []string
	for node := 1; node <= e.Servers; node++ {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			r.close()
			return nil, fmt.Errorf("a road to server %d: %w", node, err)
		}
		r.all = append(r.all, l)
		hosts = append(hosts, l.Addr().String())
		r.wg.Go(func() { r.accept(l, node) })
	}
	r.hosts = strings.Join(hosts, ",")
	return r, nil
}

func (r *road) accept(l net.Listener, node int) {
	for {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		r.wg.Go(func() { r.carry(nc, node) })
	}
}

// carry joins one connection with a server, until either end is gone.
func (r *road) carry(near net.Conn, node int) {
	defer near.Close()
	far, err := r.e.Dial(r.ctx, node)
	if err != nil {
		return
	}
	defer far.Close()
	r.mu.Lock()
	r.open[near] = true
	r.mu.Unlock()
	stop := context.AfterFunc(r.ctx, func() { near.Close() })
	defer stop()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			near.Close()
			far.Close()
		})
	}
	both.Wait()
	r.mu.Lock()
	delete(r.open, near)
	r.mu.Unlock()
}

// cut ends the connections that there are.
func (r *road) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for nc := range r.open {
		nc.Close()
	}
}

func (r *road) close() {
	r.cancel()
	for _, l := range r.all {
		l.Close()
	}
	r.wg.Wait()
}
