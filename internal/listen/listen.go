// Package listen opens the ports of a server, and tells its operator what to do about one
// that is taken.
package listen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
)

// A BusyError says that a port is taken, and what to do.
type BusyError struct {
	Addr string // host:port
	Key  string // the configuration key that chooses it
	Err  error
}

// Error implements error.
func (e *BusyError) Error() string {
	return fmt.Sprintf("%s is in use by another program: stop it, or choose another port with %s", e.Addr, e.Key)
}

// Unwrap returns the error of the system.
func (e *BusyError) Unwrap() error { return e.Err }

// TCP listens on addr, which is host:port. key is the configuration key that chose it. A
// taken port is a *BusyError.
func TCP(lc *net.ListenConfig, addr, key string) (net.Listener, error) {
	l, err := lc.Listen(context.Background(), "tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, &BusyError{Addr: addr, Key: key, Err: err}
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s (%s): %w", addr, key, err)
	}
	return l, nil
}
