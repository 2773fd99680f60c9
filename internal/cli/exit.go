package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/wire"
)

// The exit codes. docs/cli.md documents them, and so does `zkd cli -help`.
const (
	exitOK           = 0
	exitRefused      = 1   // the server said no
	exitUsage        = 2   // the command is not written as it should be; nothing was sent
	exitNoConnection = 3   // no server could be reached, or the session is over
	exitUncertain    = 4   // a write was sent and its outcome is unknown
	exitDiffers      = 5   // diff found differences, grep found nothing
	exitLocal        = 6   // a file on this side cannot be read or written
	exitInterrupted  = 130 // Ctrl-C
)

var exitHelp = []struct {
	code int
	text string
}{
	{exitOK, "ok"},
	{exitRefused, "refused by the server"},
	{exitUsage, "wrong use; nothing was sent"},
	{exitNoConnection, "no connection, or the session is over"},
	{exitUncertain, "a write was sent and its outcome is unknown"},
	{exitDiffers, "diff found differences, grep found nothing"},
	{exitLocal, "a local file cannot be read or written"},
	{exitInterrupted, "interrupted by Ctrl-C"},
}

var (
	errInterrupted  = errors.New("interrupted")
	errNotConnected = &exitError{exitNoConnection, "Not connected"}
	errDiffers      = &exitError{exitDiffers, ""}
)

// An exitError is a message, "" for none, with its exit code.
type exitError struct {
	code int
	msg  string
}

// Error implements error.
func (e *exitError) Error() string { return e.msg }

// usagef is an error of exit code 2.
func usagef(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Sprintf(format, args...)}
}

// refusedf is an error of exit code 1, for what zkd cli itself refuses after a look at the tree.
func refusedf(format string, args ...any) error {
	return &exitError{exitRefused, fmt.Sprintf(format, args...)}
}

// A lostError says that there has been no connection for too long.
type lostError struct{ reason string }

func (e *lostError) Error() string { return e.reason }

// explain turns an error into the line for standard error and the exit code.
func explain(err error) (string, int) {
	var (
		own       *exitError
		uncertain *client.UncertainError
		lost      *lostError
		file      *fs.PathError
		answer    *client.Error
		code      wire.Code
	)
	switch {
	case err == nil:
		return "", exitOK
	case errors.As(err, &own):
		return own.msg, own.code
	case errors.As(err, &uncertain):
		return uncertain.Error() + "; look before you repeat it", exitUncertain
	case errors.Is(err, errInterrupted):
		return errInterrupted.Error(), exitInterrupted
	case errors.As(err, &lost):
		return lost.reason, exitNoConnection
	case errors.As(err, &answer) && errors.As(err, &code):
		if isLoss(code) {
			return keeperMessage(code, answer.Path), exitNoConnection
		}
		return keeperMessage(code, answer.Path), exitRefused
	case errors.As(err, &code) && !isLoss(code):
		return err.Error(), exitRefused
	case errors.As(err, &file):
		return err.Error(), exitLocal
	case errors.Is(err, client.ErrClosed):
		return errNotConnected.msg, exitNoConnection
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &code), errors.Is(err, client.ErrSessionLapsed):
		return err.Error(), exitNoConnection
	}
	return err.Error(), exitLocal
}

// isLoss says that a code is about the connection and not the request.
func isLoss(c wire.Code) bool {
	return c == wire.ConnectionLoss || c == wire.SessionExpired || c == wire.OperationTimeout || c == wire.SessionMoved
}

// keeperMessage is what zkCli says (CliWrapperException, KeeperException.getMessage).
func keeperMessage(code wire.Code, path string) string {
	switch code {
	case wire.NoNode:
		return "Node does not exist: " + path
	case wire.NoChildrenForEphemerals:
		return "Ephemerals cannot have children: " + path
	case wire.NodeExists:
		return "Node already exists: " + path
	case wire.NotEmpty:
		return "Node not empty: " + path
	case wire.NotReadOnly:
		return "Not a read-only call: " + path
	case wire.InvalidACL:
		return "Acl is not valid : " + path
	case wire.NoAuth:
		return "Insufficient permission : " + path
	case wire.BadArguments:
		return "Arguments are not valid : " + path
	case wire.BadVersion:
		return "version No is not valid : " + path
	case wire.ReconfigInProgress:
		return "Another reconfiguration is in progress -- concurrent reconfigs not supported (yet)"
	case wire.NewConfigNoQuorum:
		return "No quorum of new config is connected and up-to-date with the leader of last committed config - " +
			"try invoking reconfiguration after new servers are connected and synced"
	case wire.QuotaExceeded:
		return "Quota has exceeded : " + path
	}
	text := "KeeperErrorCode = " + keeperName(code)
	if path != "" {
		text += " for " + path
	}
	return text
}

// keeperName is the code as KeeperException words it.
func keeperName(code wire.Code) string {
	switch code {
	case wire.SystemError:
		return "SystemError"
	case wire.RuntimeInconsistency:
		return "RuntimeInconsistency"
	case wire.DataInconsistency:
		return "DataInconsistency"
	case wire.ConnectionLoss:
		return "ConnectionLoss"
	case wire.MarshallingError:
		return "MarshallingError"
	case wire.Unimplemented:
		return "Unimplemented"
	case wire.OperationTimeout:
		return "OperationTimeout"
	case wire.AuthFailed:
		return "AuthFailed"
	case wire.SessionExpired:
		return "Session expired"
	case wire.SessionMoved:
		return "Session moved"
	case wire.EphemeralOnLocalSession:
		return "Ephemeral node on local session"
	case wire.NoWatcher:
		return "No such watcher"
	case wire.ReconfigDisabled:
		return "Reconfig is disabled"
	case wire.SessionClosedRequireSASLAuth:
		return "Session closed because client failed to authenticate"
	case wire.ThrottledOp:
		return "Op throttled due to high load"
	}
	return code.String()
}
