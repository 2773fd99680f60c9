package echo

import (
	"encoding/binary"
	"net"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/wire"
)

// bufferBytes is what is read and answered at once, and the longest request.
const bufferBytes = 256 << 10

// A Server listens until the test ends.
type Server struct {
	l       net.Listener
	running sync.WaitGroup

	data, stat []byte // bodies of replies

	mu    sync.Mutex
	conns map[net.Conn]bool // nil: stopped
}

// Start runs a server in which every node holds so many bytes.
func Start(tb testing.TB, dataBytes int) *Server {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	stat := wire.Stat{Czxid: 1, Mzxid: 1, DataLength: int32(dataBytes)}
	s := &Server{l: l, conns: map[net.Conn]bool{}, stat: stat.Append(nil)}
	s.data = append(wire.AppendBuffer(nil, make([]byte, dataBytes)), s.stat...)
	s.running.Go(s.accept)
	tb.Cleanup(s.stop)
	return s
}

// Addr is the address for clients.
func (s *Server) Addr() string { return s.l.Addr().String() }

func (s *Server) stop() {
	_ = s.l.Close()
	s.mu.Lock()
	for nc := range s.conns {
		_ = nc.Close()
	}
	s.conns = nil
	s.mu.Unlock()
	s.running.Wait()
}

func (s *Server) accept() {
	for {
		nc, err := s.l.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		alive := s.conns != nil
		if alive {
			s.conns[nc] = true
		}
		s.mu.Unlock()
		if !alive {
			_ = nc.Close()
			return
		}
		s.running.Go(func() { s.serve(nc) })
	}
}

// serve answers until the connection ends.
func (s *Server) serve(nc net.Conn) {
	defer nc.Close()
	in, out := make([]byte, bufferBytes), make([]byte, 0, bufferBytes)
	filled, greeted := 0, false
	for {
		n, err := nc.Read(in[filled:])
		if err != nil {
			return
		}
		filled += n
		rest := in[:filled]
		for len(rest) >= wire.FrameLengthSize {
			size := wire.FrameLengthSize + int(binary.BigEndian.Uint32(rest))
			if size > bufferBytes {
				return
			}
			if size > len(rest) {
				break
			}
			if body := rest[wire.FrameLengthSize:size]; greeted {
				out = s.reply(out, body)
			} else {
				out, greeted = welcome(out), true
			}
			rest = rest[size:]
		}
		filled = copy(in, rest)
		if _, err := nc.Write(out); err != nil {
			return
		}
		out = out[:0]
	}
}

// welcome appends the answer to a connect request.
func welcome(b []byte) []byte {
	b, mark := wire.AppendFrame(b)
	r := wire.ConnectResponse{TimeoutMs: 10_000, SessionID: 1, Password: make([]byte, 16), HasReadOnly: true}
	b = r.Append(b)
	wire.FinishFrame(b, mark)
	return b
}

// reply appends the answer to a request.
func (s *Server) reply(b, request []byte) []byte {
	b, mark := wire.AppendFrame(b)
	d := wire.NewDecoder(request)
	var h wire.RequestHeader
	h.Decode(&d)
	b = wire.AppendReply(b, h.Xid, 1, wire.OK)
	switch h.Op {
	case wire.OpGetData:
		b = append(b, s.data...)
	case wire.OpExists, wire.OpSetData:
		b = append(b, s.stat...)
	case wire.OpCreate:
		b = wire.AppendBuffer(b, d.StringBytes())
	case wire.OpCreate2, wire.OpCreateContainer:
		b = append(wire.AppendBuffer(b, d.StringBytes()), s.stat...)
	}
	wire.FinishFrame(b, mark)
	return b
}
