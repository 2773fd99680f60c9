package server

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/zkd-project/zkd/wire"
)

func TestCloseLetsRequestsUnderWayFinish(t *testing.T) {
	var g gate
	srv := startServer(t, withGate(&g), set("zkd.drainTimeoutMs", "120000"))
	c, idle := open(t, srv.addr, 10_000), open(t, srv.addr, 10_000)
	g.block(t, srv)
	c.write(request(1, wire.OpCreate, createBody("/n", nil, persistent)), request(2, wire.OpExists, readBody("/n", false)))
	c.ping()
	var wg sync.WaitGroup
	wg.Go(func() { _ = srv.Close() })
	idle.expectClosed() // not held up by others
	if _, err := net.Dial("tcp", srv.addr); err == nil {
		t.Error("the port is still open")
	}
	c.write(request(3, wire.OpExists, readBody("/", false))) // too late
	g.open()
	c.expect(1, wire.OK)
	c.expect(2, wire.OK)
	c.expectClosed()
	_ = c.nc.Close() // else the server waits a moment for that
	wg.Wait()
}

func TestCloseDoesNotWaitForEver(t *testing.T) {
	for _, ms := range []string{"0", "20"} {
		var g gate
		srv := startServer(t, withGate(&g), set("zkd.drainTimeoutMs", ms))
		c := open(t, srv.addr, 10_000)
		g.block(t, srv)
		c.send(wire.OpCreate, createBody("/n", nil, persistent))
		c.ping()
		var wg sync.WaitGroup
		wg.Go(func() { _ = srv.Close() })
		c.expectClosed()
		g.open() // the log itself is not left in the middle of an entry
		wg.Wait()
	}
}

func TestCloseEndsAHandshakeThatWaitsForTheLog(t *testing.T) {
	var g gate
	srv := startServer(t, withGate(&g), set("zkd.drainTimeoutMs", "20"))
	g.block(t, srv)
	c := dial(t, srv.addr)
	c.write(frame((&wire.ConnectRequest{TimeoutMs: 10_000}).Append(nil)))
	eventually(t, "the request", func() bool { return srv.stats.ConnectionRequests.Value(0) == 1 })
	var wg sync.WaitGroup
	wg.Go(func() { _ = srv.Close() })
	c.expectClosed()
	g.open()
	wg.Wait()
}

// A reader may wait for room in the log's queue while the server closes.
func TestCloseEndsReadersThatWaitForTheLogsQueue(t *testing.T) {
	var g gate
	srv := startServer(t, withGate(&g), set("zkd.drainTimeoutMs", "20"), set("zkd.maxConnBufferBytes", "104857600"))
	clients := make([]*rawClient, 4)
	for i := range clients {
		clients[i] = open(t, srv.addr, 10_000)
	}
	g.block(t, srv)
	f := request(1, wire.OpSetData, setBody("/", string(make([]byte, 1_000_000))))
	var wg sync.WaitGroup
	for _, c := range clients {
		wg.Go(func() {
			for {
				if _, err := c.nc.Write(f); err != nil {
					return
				}
			}
		})
	}
	eventually(t, "the queue is full", func() bool { return srv.pendingBytes.Load() > 32<<20 })
	wg.Go(func() { _ = srv.Close() })
	for _, c := range clients {
		c.expectClosed()
	}
	g.open()
	wg.Wait()
}

func TestWritesWaitWhileTheLogsQueueIsFull(t *testing.T) {
	var g gate
	srv := startServer(t, withGate(&g), set("zkd.maxConnBufferBytes", "104857600"))
	c, other := open(t, srv.addr, 10_000), open(t, srv.addr, 10_000)
	g.block(t, srv)
	const n = 40
	f := request(1, wire.OpSetData, setBody("/", string(make([]byte, 1_000_000))))
	var wg sync.WaitGroup
	wg.Go(func() {
		for range n {
			if _, err := c.nc.Write(f); err != nil {
				t.Error(err)
				return
			}
		}
	})
	eventually(t, "the queue is full", func() bool { return srv.pendingBytes.Load() > 32<<20 })
	other.call(wire.OpExists, readBody("/", false), wire.OK)
	if n := len(srv.boundSessions(nil)); n != 2 {
		t.Errorf("%d sessions", n)
	}
	for _, s := range srv.boundSessions(nil) {
		if waits := s.c.waitsForLog(); waits != (s.session == c.session) {
			t.Errorf("session 0x%x waits for the log: %v", s.session, waits)
		}
	}
	g.open()
	for range n {
		c.expect(1, wire.OK)
	}
	wg.Wait()
}

func TestCloseDuringStart(t *testing.T) {
	for range 20 {
		srv := newServer(t)
		started := make(chan error)
		go func() {
			_, err := srv.Start(context.Background())
			started <- err
		}()
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		<-started // with or without success: it is closed afterwards
		if srv.serving() {
			t.Fatal("it serves after Close")
		}
		if _, err := srv.Start(context.Background()); err == nil {
			t.Error("a closed server started")
		}
	}
}

func TestServerThatServesDoesNotStartAgain(t *testing.T) {
	srv := startServer(t)
	if _, err := srv.Start(context.Background()); err == nil {
		t.Error("it started twice")
	}
	open(t, srv.addr, 10_000).ping()
}

func TestStartThatFailsClosesEverything(t *testing.T) {
	first := startServer(t)
	srv := newServer(t)
	srv.cfg.SecureClientPort = -1
	srv.cfg.ClientPort = first.Addrs()[0].(*net.TCPAddr).Port
	_, err := srv.Start(context.Background())
	var busy *BusyError
	if !errors.As(err, &busy) || busy.Key != "clientPort" || busy.Addr != first.addr {
		t.Errorf("error %v", err)
	}

	srv = newServer(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := srv.Start(ctx); err == nil {
		t.Error("it started with a context that had ended")
	}
	for _, a := range srv.Addrs() {
		if _, err := net.Dial("tcp", a.String()); err == nil {
			t.Errorf("%s is still open", a)
		}
	}
}

func TestFatalErrorClosesConnectionsAndIsReportedOnce(t *testing.T) {
	var mu sync.Mutex
	var reported []error
	srv := startServer(t, func(s *setup) {
		s.options.Fatal = func(err error) {
			mu.Lock()
			defer mu.Unlock()
			reported = append(reported, err)
		}
	})
	c := open(t, srv.addr, 10_000)
	broken := errors.New("the disk is gone")
	srv.fatal(broken)
	srv.fatal(errors.New("and again"))
	c.expectClosed()
	late := dial(t, srv.addr)
	late.write(frame((&wire.ConnectRequest{TimeoutMs: 10_000}).Append(nil)))
	late.expectClosed()
	mu.Lock()
	defer mu.Unlock()
	if len(reported) != 1 || !errors.Is(reported[0], broken) {
		t.Errorf("reported %v", reported)
	}
}

// What was answered before the end arrives, although the client goes on sending.
func TestLastReplyIsNotLostToAReset(t *testing.T) {
	srv := startServer(t)
	for range 50 {
		c := open(t, srv.addr, 10_000)
		stop := make(chan struct{})
		var wg sync.WaitGroup
		c.write(request(1, wire.OpExists, readBody("/", false)), request(2, 99, nil))
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if _, err := c.nc.Write(request(3, wire.OpExists, readBody("/", false))); err != nil {
						return
					}
					time.Sleep(time.Microsecond)
				}
			}
		})
		c.expect(1, wire.OK)
		c.expect(2, wire.Unimplemented)
		close(stop)
		wg.Wait()
		_ = c.nc.Close()
	}
}

func TestManyConnectionsComeAndGo(t *testing.T) {
	srv := startServer(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 30 {
				c := open(t, srv.addr, 10_000)
				c.write(
					request(1, wire.OpSetData, setBody("/", "x")),
					request(2, wire.OpGetData, readBody("/", true)),
				)
				switch (i + j) % 3 {
				case 0:
					c.expect(1, wire.OK)
				case 1:
					_ = c.nc.(*net.TCPConn).SetLinger(0) // a reset
				}
				_ = c.nc.Close()
			}
		})
	}
	wg.Wait()
	eventually(t, "all are forgotten", func() bool {
		return srv.connectionCount() == 0 && srv.watches.Counts().Watches == 0 && srv.pendingRequests.Load() == 0
	})
	if n := srv.pendingBytes.Load() + srv.heldBytes.Load() + srv.waitingBytes.Load(); n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
}
