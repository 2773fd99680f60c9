package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/server/replication"
)

// A disk that fails at the start is no wrong configuration.
func TestBrokenDiskAtTheStartHasItsExitCode(t *testing.T) {
	for _, tt := range []struct {
		err    error
		broken bool
	}{
		{fmt.Errorf("cannot open the log: %w", &os.PathError{Op: "read", Path: "a", Err: syscall.EIO}), true},
		{fmt.Errorf("cannot create the log: %w", &os.PathError{Op: "write", Path: "a", Err: syscall.ENOSPC}), true},
		{fmt.Errorf("wait for a leader: %w: %w", replication.ErrFailed, syscall.EIO), true},
		{&replication.DamageError{File: "a"}, true},
		{&os.PathError{Op: "mkdir", Path: "a", Err: syscall.EACCES}, false},
		{errors.New("clientPort is taken"), false},
	} {
		var broken *brokenError
		require.Equal(t, tt.broken, errors.As(startError(tt.err), &broken), tt.err.Error())
	}
}
