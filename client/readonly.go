package client

import (
	"context"
	"io"
	"math/rand/v2"
	"sync"
	"time"
)

// isReadOnly asks a server whether it is in read-only mode.
func (k *core) isReadOnly(t target) bool { return k.isro(k.ctx, t) == "ro" }

// isro sends the four-letter word and returns what the server says: "rw", "ro", or something
// else, empty where it is not willing or not there.
func (k *core) isro(ctx context.Context, t target) string {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	nc, sock, err := k.dialServer(ctx, t)
	if err != nil {
		return ""
	}
	defer sock.Close()
	stop := context.AfterFunc(ctx, func() { _ = sock.Close() })
	defer stop()
	if _, err := io.WriteString(nc, "isro"); err != nil {
		return ""
	}
	answer, _ := io.ReadAll(io.LimitReader(nc, 16)) // what came before an error counts
	return string(answer)
}

// seekReadWrite looks for a read-write server while the connection is a read-only one, and asks
// run to move there. The function that it returns ends the search and waits for its end.
func (k *core) seekReadWrite() (stop func()) {
	ctx, cancel := context.WithCancel(k.ctx)
	var running sync.WaitGroup
	running.Go(func() {
		for wait := probeFirst; ; wait = min(2*wait, probeMost) {
			t := time.NewTimer(wait/2 + rand.N(wait/2+1))
			select {
			case <-t.C:
			case <-ctx.Done():
				t.Stop()
				return
			}
			if server := k.findReadWrite(ctx); server != "" {
				k.servers.prefer(server)
				k.move()
				return
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// findReadWrite asks all servers once.
func (k *core) findReadWrite(ctx context.Context) string {
	for _, server := range k.servers.all() {
		t, err := resolveOne(ctx, k.cfg.resolve, server, nil)
		if err == nil && t.addr != "" && k.isro(ctx, t) == "rw" {
			return server
		}
	}
	return ""
}

// move has run give the connection up for the one that the list names first.
func (k *core) move() {
	select {
	case k.moves <- struct{}{}:
	default:
	}
}

func (k *core) updateServers(hosts []string) {
	k.mu.Lock()
	current := ""
	if k.conn != nil {
		current = k.conn.server
	}
	k.mu.Unlock()
	if k.servers.update(hosts, current, rand.Float64()) && current != "" {
		k.move()
	}
}
