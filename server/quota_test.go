package server

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkd-project/zkd/wire"
)

// syncedBuffer is a log sink that a test may look into.
type syncedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncedBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncedBuffer) count(text string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.b.String(), text)
}

func TestSoftQuotaIsLoggedOnceAMinute(t *testing.T) {
	var log syncedBuffer
	srv := startServer(t, func(st *setup) { st.options.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	c := open(t, srv.addr, 10_000)
	for _, path := range []string{"/q", "/zookeeper/quota/q"} {
		c.call(wire.OpCreate, createBody(path, nil, persistent), wire.OK)
	}
	c.call(wire.OpCreate, createBody("/zookeeper/quota/q/zookeeper_limits", []byte("count=1,bytes=-1"), persistent), wire.OK)
	c.call(wire.OpCreate, createBody("/zookeeper/quota/q/zookeeper_stats", []byte("count=0,bytes=0"), persistent), wire.OK)
	for _, path := range []string{"/q/a", "/q/b"} {
		c.call(wire.OpCreate, createBody(path, nil, persistent), wire.OK)
	}
	eventually(t, "the quota is logged", func() bool { return log.count("quota exceeded") > 0 && len(srv.overQuota) == 0 })
	if n := log.count("quota exceeded"); n != 1 {
		t.Errorf("%d lines for one quota", n)
	}
}

func TestLoggedQuotasAreBounded(t *testing.T) {
	logged, now := quotasLogged{}, time.Unix(1, 0)
	lines := 0
	for i := range 3 * maxQuotasLogged {
		if _, due := logged.due(fmt.Sprintf("/q%d", i), now); due {
			lines++
		}
	}
	if lines != maxQuotasLogged || len(logged) != maxQuotasLogged {
		t.Errorf("%d lines, %d are remembered, want %d", lines, len(logged), maxQuotasLogged)
	}
	now = now.Add(quotaLogInterval)
	if _, due := logged.due("/other", now); !due || len(logged) != 1 {
		t.Errorf("a minute later: due %v, %d are remembered", due, len(logged))
	}
	text, due := logged.due("/"+strings.Repeat("n", 1_000_000), now)
	if !due || len(text) != maxLoggedPath {
		t.Errorf("a long path: due %v, logged with %d bytes", due, len(text))
	}
}
