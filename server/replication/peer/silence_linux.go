package peer

import (
	"net"
	"syscall"
	"time"
)

// tcpUserTimeout is TCP_USER_TIMEOUT of tcp(7), which package syscall lacks.
const tcpUserTimeout = 18

// limitSilence ends a TCP connection when sent bytes stay unacknowledged for d. Without it
// the kernel goes on for a quarter of an hour.
func limitSilence(nc net.Conn, d time.Duration) {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return // closed already: whoever uses it will see
	}
	_ = raw.Control(func(fd uintptr) {
		// Where it cannot be set, Options.Timeout still ends what is silent.
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(d.Milliseconds()))
	})
}
