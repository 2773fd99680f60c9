package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/server/replication"
)

// A start that is told to stop ends well, unless the disk was broken as well.
func TestOnlyTheSignalExcusesAStart(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	signaled := errors.New("terminated signal received")
	require.False(t, stoppedBySignal(ctx, signaled), "nobody has asked for it")
	stop(signaled)
	for err, want := range map[error]bool{
		fmt.Errorf("wait for a leader: %w", signaled):                                       true,
		fmt.Errorf("wait for a leader: %w", context.Canceled):                               true,
		errors.New("clientPort is taken"):                                                   false,
		fmt.Errorf("%w: %w", signaled, &replication.DamageError{File: "a"}):                 false,
		fmt.Errorf("%w: %w", context.Canceled, &os.PathError{Op: "read", Err: syscall.EIO}): false,
	} {
		require.Equal(t, want, stoppedBySignal(ctx, err), err.Error())
	}
	require.False(t, stoppedBySignal(ctx, nil))
}

// A disk that fails at the start is no wrong configuration.
func TestBrokenDiskAtTheStartHasItsExitCode(t *testing.T) {
	for _, tt := range []struct {
		err    error
		broken bool
	}{
		{fmt.Errorf("cannot open the log: %w", &os.PathError{Op: "read", Path: "a", Err: syscall.EIO}), true},
		{fmt.Errorf("cannot create the log: %w", &os.PathError{Op: "write", Path: "a", Err: syscall.ENOSPC}), true},
		{fmt.Errorf("cannot create the log: %w", &os.PathError{Op: "write", Path: "a", Err: syscall.EDQUOT}), true},
		{fmt.Errorf("cannot begin a new database: %w", &os.PathError{Op: "open", Path: "a", Err: syscall.EROFS}), true},
		{fmt.Errorf("cannot open a snapshot: %w", &os.PathError{Op: "open", Path: "a", Err: syscall.EMFILE}), true},
		{fmt.Errorf("wait for a leader: %w: %w", replication.ErrFailed, syscall.EIO), true},
		{&replication.DamageError{File: "a"}, true},
		{&os.PathError{Op: "mkdir", Path: "a", Err: syscall.EACCES}, false},
		{errors.New("clientPort is taken"), false},
	} {
		var broken *brokenError
		require.Equal(t, tt.broken, errors.As(startError(tt.err), &broken), tt.err.Error())
	}
}
