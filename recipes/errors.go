package recipes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zkd-project/zkd/client"
)

// Why a hold ended, for errors.Is on Lease.Err and as the cause of its contexts.
var (
	// ErrReleased is returned after Release.
	ErrReleased = errors.New("the hold was released")

	// ErrSessionLost is returned when the session on which the hold hung is over, or must be
	// taken for lost because no server has confirmed it in time.
	ErrSessionLost = errors.New("the session of the hold was lost")

	// ErrRevoked is returned when somebody deleted the node of the hold: Break, or an operator.
	ErrRevoked = errors.New("the hold was taken away: its node is gone")

	// ErrMaxHold is returned when the hold has lasted for as long as MaxHold allows.
	ErrMaxHold = errors.New("the hold has lasted for as long as it may")

	// ErrResigned is returned when the leadership was given up by Resign.
	ErrResigned = errors.New("the leadership was given up")
)

// Why something was not done.
var (
	// ErrLocked is returned by the Try methods: somebody else is there.
	ErrLocked = errors.New("somebody else holds it")

	// ErrNotHeld is returned when somebody lets go of what it does not hold.
	ErrNotHeld = errors.New("it is not held by this owner")

	// ErrDeadlock is returned when the context belongs to a hold of the same lock, so that the
	// call would wait for its own end. WithOwner makes a lock reentrant.
	ErrDeadlock = errors.New("the context holds this lock already: use WithOwner to enter twice")

	// ErrUpgrade is returned when the holder of a read lock asks for the write lock: two who do
	// that at once would wait for each other for ever. Release the read lock first.
	ErrUpgrade = errors.New("a read lock cannot become a write lock: release it first")

	// ErrBroken is returned under FailWhenBroken when somebody deleted the node with which the
	// caller was waiting.
	ErrBroken = errors.New("the place in the queue was taken away")

	// ErrUnknownOutcome is returned when a change may have been made or not, and the recipe
	// has no means to find out.
	ErrUnknownOutcome = client.ErrUncertain
)

// A ForeignContenderError says that a node stands in the queue whose owner would not respect
// ours, so both could believe that they hold it: clients with different naming share the path.
// Give all of them the same Format, or allow it with WaitForForeign.
type ForeignContenderError struct {
	Path string // of the foreign node
}

// Error implements error.
func (e *ForeignContenderError) Error() string {
	return e.Path + " belongs to a client with other node names, which would not wait for us:" +
		" give all clients of this path the same format"
}

// Why a MultiLock cannot be taken.
var (
	errNoLocks      = errors.New("a multi-lock of no locks holds nothing: give it at least one")
	errForeignLease = errors.New("a multi-lock is made of the locks of this package")
)

// errAgain asks the caller inside the package to begin anew: the session has changed, or our
// node was deleted.
var errAgain = errors.New("begin again")

// errGone is errAgain because our node was deleted although our session lives.
var errGone = fmt.Errorf("our node is gone: %w", errAgain)

// ended says why ctx is over: its cause, and the context's own error with it.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || errors.Is(cause, err) {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// partingTime is how long what has to be undone holds up a caller whose context has ended. What is not
// done by then goes on in the background.
const partingTime = 2 * time.Second

// parting returns a context for undoing something, which ends partingTime after ctx: long enough for
// a server that is there, and no caller waits for ever for one that is not.
func parting(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		t := time.NewTimer(partingTime)
		defer t.Stop()
		select {
		case <-t.C:
			cancel(ended(ctx))
		case <-longer.Done():
		}
	})
	return longer, func() { stop(); cancel(nil) }
}

// over is a context that has ended: for what only has to be begun, and goes on without us.
var over = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// forget removes a watch without waiting for the server's answer.
func forget(w *client.Watch) {
	if w != nil {
		_ = w.Remove(over) // it goes on in the background
	}
}
