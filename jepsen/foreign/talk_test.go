package foreign

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnswersAreRead(t *testing.T) {
	for _, x := range []struct {
		name, line string
		want       answer
		err        string
	}{
		{"a stat", "-7\t\t0\tfoo\t1\t2\t3\t4\n", answer{Session: -7, Value: "foo", Version: 1, Czxid: 2, Mzxid: 3, Owner: 4}, ""},
		{"an error", "7\t\t-101\t\t0\t0\t0\t0\n", answer{Session: 7, Code: -101}, ""},
		{"not known", "0\tConnectionLoss()\t0\t\t0\t0\t0\t0\n", answer{Lost: "ConnectionLoss()"}, ""},
		{"the end", "7\t", answer{}, io.EOF.Error()},
		{"what is no answer", "Traceback (most recent call last):\n", answer{}, "1 fields"},
		{"no number", "7\t\tx\t\t0\t0\t0\t0\n", answer{}, `parsing "x"`},
		{"too large", "7\t\t0\t\t2147483648\t0\t0\t0\n", answer{}, "out of range"},
	} {
		t.Run(x.name, func(t *testing.T) {
			a, err := receive(bufio.NewReader(strings.NewReader(x.line)))
			if x.err != "" {
				require.ErrorContains(t, err, x.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, x.want, a)
		})
	}
}

func TestQuestionsAreALineOfFields(t *testing.T) {
	var b bytes.Buffer
	q := question{Do: "set", Path: "/a", Value: "1.2", Version: -1}
	require.NoError(t, q.send(&b))
	require.Equal(t, "set\t/a\t1.2\t-1\t0\n", b.String())
}
