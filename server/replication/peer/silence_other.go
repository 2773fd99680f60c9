//go:build !linux

package peer

import (
	"net"
	"time"
)

// limitSilence is for Linux only. Elsewhere Options.Timeout ends what is silent.
func limitSilence(net.Conn, time.Duration) {}
