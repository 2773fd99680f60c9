package foreign

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/jepsen/check"
	"github.com/zkd-project/zkd/jepsen/history"
	"github.com/zkd-project/zkd/jepsen/workload"
)

const second = int64(time.Second)

func newChild() *child {
	return &child{e: &workload.Env{Rec: history.NewRecorder(nil)}, session: 7, alive: second, timeout: time.Hour}
}

// sessions judges what a child has recorded of its sessions.
func sessions(t *testing.T, c *child) check.Result {
	t.Helper()
	ops, err := c.e.Rec.Ops()
	require.NoError(t, err)
	return check.Sessions(ops)
}

func TestSessionIsOverWhereAnotherOneAnswers(t *testing.T) {
	c := newChild()
	c.heard(&answer{Session: 7, begin: 2 * second})
	require.Equal(t, 2*second, c.alive)
	c.heard(&answer{Session: 7, Lost: "ConnectionLoss()", begin: 3 * second})
	c.heard(&answer{Session: 0, begin: 3 * second})
	require.Equal(t, 2*second, c.alive, "what was not answered is no sign of life")
	c.heard(&answer{Session: 8, begin: 4 * second})
	require.Equal(t, int64(8), c.session)
	require.Equal(t, 4*second, c.alive)
	// The clock of this run began just now: the session was over long before its timeout.
	r := sessions(t, c)
	require.Len(t, r.Violations, 1)
	require.Equal(t, int64(7), r.Violations[0].Ops[0].Session)
}

func TestSessionOfWhichNothingWasAnsweredIsNotMissed(t *testing.T) {
	c := newChild()
	c.alive = 0
	c.timeout = 0
	c.heard(&answer{Session: 8, Lost: "ConnectionLoss()", begin: 4 * second})
	require.Zero(t, c.alive)
	r := sessions(t, c)
	require.True(t, r.OK())
	require.NotZero(t, r.Checked)
}

func TestAnswersAsTheHistoryHasThem(t *testing.T) {
	c := newChild()
	for _, x := range []struct {
		name string
		q    question
		a    answer
		want history.Op
	}{
		{"a write", question{Do: "set", Path: "/a", Value: "1.2", Version: 3}, answer{Version: 4, Czxid: 5, Mzxid: 9}, history.Op{
			Kind: history.OK, F: "set", Value: "1.2", Arg: 3, Zxid: 9, Stat: &history.Stat{Czxid: 5, Mzxid: 9, Version: 4},
		}},
		{"a read", question{Do: "sync-get", Path: "/a"}, answer{Value: "1.1", Czxid: 5, Mzxid: 9}, history.Op{
			Kind: history.OK, F: "sync-get", Value: "1.1", Stat: &history.Stat{Czxid: 5, Mzxid: 9},
		}},
		{"refused for want of room", question{Do: "set", Path: "/a", Value: "1", Version: -1}, answer{Code: -1}, history.Op{
			Kind: history.Fail, F: "set", Value: "1", Arg: -1, Code: -1,
		}},
		{"an error is an answer", question{Do: "delete", Path: "/a", Version: -1}, answer{Code: -101}, history.Op{
			Kind: history.OK, F: "delete", Arg: -1, Code: -101,
		}},
		{"no answer", question{Do: "create", Path: "/a", Value: "1.3"}, answer{Lost: "ConnectionLoss()"}, history.Op{
			Kind: history.Unknown, F: "create", Value: "1.3", Note: "ConnectionLoss()",
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			x.want.Proc, x.want.Session, x.want.Key = c.id, 7, "/a"
			require.Equal(t, x.want, c.line(x.q, &x.a))
		})
	}
}
