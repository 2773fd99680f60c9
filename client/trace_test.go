package client

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/wire"
)

// Nothing that a user asks for goes by the tracer: not what is sent behind a sync, and not the
// failure that only the inside of a multi's reply tells.
func TestTracerIsToldOfFreshReadsAndFailedMultis(t *testing.T) {
	forEachServer(t, func(t *testing.T, s realServer) {
		rec := &recorder{}
		c, err := Dial(testContext(t), s.addr, WithTracer(rec))
		require.NoError(t, err)
		defer closeClient(t, c)
		_, _, err = c.Get(testContext(t), "/", Fresh())
		require.NoError(t, err)
		require.Equal(t, []string{"getData /"}, rec.ops)
		require.Equal(t, 1, rec.last.Attempts)
		require.Positive(t, rec.last.Bytes)

		_, err = c.Multi().Check("/", AnyVersion).Delete("/nothing", AnyVersion).Commit(testContext(t))
		require.ErrorIs(t, err, ErrNoNode)
		var m *MultiError
		require.ErrorAs(t, rec.last.Err, &m)
		require.Equal(t, 1, m.Index)
		require.Equal(t, "NONODE", rec.last.Result())
		_, err = c.Multi().Check("/", AnyVersion).Commit(testContext(t))
		require.NoError(t, err)
		require.NoError(t, rec.last.Err)
	})
}

func TestResultIsOneWordOfASmallSet(t *testing.T) {
	for want, err := range map[string]error{
		"ok":                nil,
		"NONODE":            &Error{Op: "getData", Err: ErrNoNode},
		"BADVERSION":        multiError(2, &Error{Op: "setData", Err: ErrBadVersion}),
		"uncertain":         &UncertainError{Cause: context.Canceled},
		"canceled":          &Error{Err: &causeError{context.Canceled, errors.New("why")}},
		"deadline_exceeded": fmt.Errorf("x: %w", context.DeadlineExceeded),
		"closed":            &Error{Err: ErrClosed},
		"session_lapsed":    &Error{Err: ErrSessionLapsed},
		"CONNECTIONLOSS":    &Error{Err: &lossError{errors.New("reset")}},
		"other":             &Error{Err: wire.Code(-12345)},
	} {
		require.Equal(t, want, OpOutcome{Err: err}.Result())
	}
	require.Equal(t, "other", OpOutcome{Err: errors.New("something new")}.Result())
}

// A named tracer writes down what it is told, and in which order.
type named struct {
	name string
	told *[]string
}

func (n named) OpStart(ctx context.Context, _ OpInfo) context.Context {
	*n.told = append(*n.told, n.name+" start")
	return context.WithValue(ctx, n, n.name)
}

func (n named) OpEnd(ctx context.Context, _ OpInfo, _ OpOutcome) {
	*n.told = append(*n.told, fmt.Sprint(n.name, " end ", ctx.Value(n)))
}
func (n named) Connection(ConnEvent) { *n.told = append(*n.told, n.name+" connection") }

func TestJoinedTracersAreNested(t *testing.T) {
	var told []string
	j := JoinTracers(named{"a", &told}, named{"b", &told})
	ctx := j.OpStart(t.Context(), OpInfo{})
	j.OpEnd(ctx, OpInfo{}, OpOutcome{})
	j.Connection(ConnEvent{})
	require.Equal(t, []string{"a start", "b start", "b end b", "a end a", "a connection", "b connection"}, told)
}
