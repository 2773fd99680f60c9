package zkdtest

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"

	"github.com/zkd-project/zkd/wire"
)

// proxyFrameBytes bounds what is taken for a frame; longer ones are of another protocol.
const proxyFrameBytes = 64 << 20

// A link is one connection through a Proxy, which two pumps carry.
type link struct {
	p         *Proxy
	number    int
	near, far net.Conn

	mu    sync.Mutex
	ops   map[int32]wire.OpCode // guarded by mu; of requests without a reply
	ended bool                  // guarded by mu; what still comes is thrown away
}

// close ends both sides at once.
func (l *link) close() {
	_ = l.near.Close()
	_ = l.far.Close()
}

// last writes a frame behind which the link ends, so that it still arrives: a connection that is closed
// while bytes wait to be read is reset, and what was sent is lost with it. The pumps go on and throw
// away what comes until both sides have closed. They do so before the frame is written: its answer may
// come before the next line.
func (l *link) last(frame []byte, dst net.Conn) {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	if _, err := dst.Write(frame); err != nil {
		l.close()
		return
	}
	for _, nc := range []net.Conn{l.near, l.far} {
		if half, ok := nc.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		} else {
			_ = nc.Close()
		}
	}
}

func (l *link) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

// pump carries one direction until it ends, and then ends both.
func (l *link) pump(dir Direction, src, dst net.Conn) {
	defer func() {
		if !l.over() {
			l.close()
		}
	}()
	muted := false
	for first := true; ; first = false {
		frame, whole, err := readFrame(src)
		if err != nil {
			return
		}
		if !whole {
			if _, err := dst.Write(frame); err == nil {
				_, _ = io.Copy(dst, src)
			}
			return
		}
		if muted || l.over() {
			continue
		}
		what := l.p.judge(l.describe(dir, first, frame[4:]))
		if !l.wait(what.wait) {
			return
		}
		switch what.do {
		case mute:
			muted = true
			continue
		case swallow:
			continue
		case cut:
			return
		case cutAfter:
			l.last(frame, dst)
			continue
		case garbage:
			frame = what.bytes
		}
		if _, err := dst.Write(frame); err != nil {
			return
		}
	}
}

// readFrame reads a frame with its length; whole is false if it is none, and only its beginning was
// read.
func readFrame(src io.Reader) (frame []byte, whole bool, err error) {
	frame = make([]byte, 4)
	if _, err := io.ReadFull(src, frame); err != nil {
		return nil, false, err
	}
	n := binary.BigEndian.Uint32(frame)
	if n > proxyFrameBytes {
		return frame, false, nil
	}
	frame = append(frame, make([]byte, n)...)
	_, err = io.ReadFull(src, frame[4:])
	return frame, true, err
}

// describe says what a frame is, and remembers requests.
func (l *link) describe(dir Direction, first bool, body []byte) Frame {
	f := Frame{Direction: dir, Conn: l.number, Hello: first, Body: body}
	if first || len(body) < 4 {
		return f
	}
	f.Xid = int32(binary.BigEndian.Uint32(body))
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case f.Xid == wire.XidPing: // several may be under way
		f.Op = wire.OpPing
	case dir == ToClient:
		f.Op = l.ops[f.Xid]
		delete(l.ops, f.Xid)
	case len(body) >= 8:
		f.Op = wire.OpCode(binary.BigEndian.Uint32(body[4:]))
		l.ops[f.Xid] = f.Op
	}
	return f
}

// wait returns false if the proxy ends first.
func (l *link) wait(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-l.p.ctx.Done():
		return false
	}
}
