package client

import (
	"context"
	"errors"
	"time"
)

// run keeps the client connected until it is closed. It owns every connection.
func (k *core) run() {
	defer close(k.done)
	defer k.helpers.Wait()
	failures := 0 // attempts and short-lived connections in a row
	for {
		c := k.connect(&failures)
		if c == nil {
			return
		}
		since := time.Now()
		k.serve(c)
		c.stop(ErrClosed)
		k.lost(c)
		k.trace(ConnEvent{Kind: ConnLost, Server: c.server, Err: c.err})
		if errors.Is(c.err, errMoving) {
			continue // the list says where to
		}
		k.servers.avoid(c.server)
		if failures++; time.Since(since) > steadyAfter {
			failures = 0
		}
	}
}

// connect tries servers until one is connected; nil when the client has come to its end.
func (k *core) connect(failures *int) *conn {
	for {
		if !k.pause(*failures) {
			return nil
		}
		select {
		case <-k.moves: // meant for a connection that is gone
		default:
		}
		t, err := k.nextTarget()
		var c *conn
		if err == nil {
			c, err = k.attempt(t)
		}
		if err == nil {
			return c
		}
		if k.ctx.Err() != nil {
			return nil
		}
		k.mu.Lock()
		k.lastLoss, k.server = err, t.server
		k.mu.Unlock()
		k.trace(ConnEvent{Kind: ConnFailed, Server: t.server, Err: err})
		switch {
		case errors.Is(err, errSessionRefused):
			if !k.expired() {
				return nil
			}
			continue // this server is well: ask for a new session without delay
		case errors.Is(err, errCredentialsRefused):
			k.mu.Lock()
			k.terminate(StateAuthFailed, ErrAuthFailed)
			k.mu.Unlock()
			return nil
		}
		*failures++
	}
}

// nextTarget chooses an address. The resolver must not take longer than an attempt may.
func (k *core) nextTarget() (target, error) {
	ctx, cancel := context.WithTimeout(k.ctx, k.connectTimeout())
	defer cancel()
	return k.servers.next(ctx, k.cfg.resolve)
}

// pause waits before an attempt: not at all while there are servers that have not been tried.
func (k *core) pause(failures int) bool {
	n := failures - k.servers.count() + 1
	if n <= 0 || failures == 0 {
		return k.ctx.Err() == nil
	}
	wait, _ := k.cfg.reconnect.Delay(n)
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-k.ctx.Done():
		return false
	}
}

// serve keeps a connection alive until it ends.
func (k *core) serve(c *conn) {
	if c.readOnly {
		stop := k.seekReadWrite()
		defer stop()
	}
	timer := time.NewTimer(c.expect(k.now().mono, c.pingInterval()))
	defer timer.Stop()
	var drained <-chan time.Time
	for {
		select {
		case <-c.dead:
			return
		case <-k.ctx.Done():
			c.fail(ErrClosed)
			return
		case <-drained:
			c.fail(errMoving)
		case <-k.moves:
			drained = time.After(c.pingInterval())
			c.drain()
		case <-timer.C:
			timer.Reset(c.tend())
		}
	}
}

// pingInterval is how long the session may go without a sign of life of ours.
func (c *conn) pingInterval() time.Duration { return min(c.timeout/3, maxPingInterval) }

// silence is how long the server may say nothing. While the connection is prepared, nobody can use
// it: then a server that has granted far more than was asked for must not take as long.
func (c *conn) silence() time.Duration {
	if c.preparing {
		return min(c.timeout, c.k.cfg.timeout) * 2 / 3
	}
	return c.timeout * 2 / 3
}

// tend pings if it is time, gives up a silent server, and says when to look again.
//
// The ping is due a third of the timeout after the newest request that was answered, not after
// the newest that was sent: when replies stall, the ping's answer (which zkd does not hold back
// behind other requests) is what keeps the connection and the safe deadline going.
func (c *conn) tend() time.Duration {
	now := c.k.now().mono
	c.forgive(now)
	quiet := time.Duration(now - c.heard.Load())
	if quiet >= c.silence() {
		c.fail(errSilent)
		return time.Hour
	}
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	due := c.pingInterval() - time.Duration(now-max(c.answered.mono, c.pingSent.mono))
	if due <= 0 && !c.pinged && !c.pingDue {
		c.pingDue = true
		c.wake()
	}
	if due <= 0 {
		due = c.pingInterval()
	}
	return c.expect(now, max(min(due, c.silence()-quiet), time.Millisecond))
}

// expect notes when tend is to be called next.
func (c *conn) expect(now int64, wait time.Duration) time.Duration {
	c.tendAt = now + int64(wait)
	return wait
}

// forgive does not count the time for which this process itself stood still (stopped, swapped
// out, frozen with its machine) as silence of the server: what it said meanwhile may not be read
// yet. Whether the session is over is another matter, which its deadline decides.
func (c *conn) forgive(now int64) {
	late := now - c.tendAt
	if c.tendAt == 0 || late < int64(c.pingInterval()/2) {
		return
	}
	if heard := c.heard.Load(); heard < c.tendAt {
		c.heard.CompareAndSwap(heard, heard+late) // else something has been heard just now
	}
	c.k.trace(ConnEvent{Kind: ConnStoodStill, Server: c.server, For: time.Duration(late)})
}

// drain ends the connection as soon as all that was sent is answered.
func (c *conn) drain() {
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	c.draining = true
	if c.pending.n == 0 && c.auths.n == 0 {
		c.fail(errMoving)
	}
}
