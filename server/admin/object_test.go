package admin

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// The layout is that of Jackson's pretty printer as ZooKeeper uses it.
func TestLayoutIsJacksons(t *testing.T) {
	var b strings.Builder
	o := newObject(&b)
	o.str("text", "a\"b\\c\n\x01é")
	integer(o, "number", -5)
	o.float("fraction", 2)
	o.boolean("flag", true)
	o.object("empty", func() {})
	o.object("inner", func() {
		o.integers("1", 1, 2)
		o.strings("2")
		o.object("deeper", func() { o.null("nothing") })
	})
	o.list("none", func(func(func()) bool) {})
	o.list("some", func(element func(func()) bool) {
		element(func() { integer(o, "a", 1) })
		element(func() { o.strings("b", "x", "y") })
		element(func() {})
	})
	require.NoError(t, o.finish())
	require.Equal(t, `{
  "text" : "a\"b\\c\n\u0001é",
  "number" : -5,
  "fraction" : 2.0,
  "flag" : true,
  "empty" : { },
  "inner" : {
    "1" : [ 1, 2 ],
    "2" : [ ],
    "deeper" : {
      "nothing" : null
    }
  },
  "none" : [ ],
  "some" : [ {
    "a" : 1
  }, {
    "b" : [ "x", "y" ]
  }, { } ]
}`, b.String())
	require.True(t, json.Valid([]byte(b.String())))
}

// A chunkWriter notes the largest write and fails after some.
type chunkWriter struct{ writes, largest, failAfter int }

var errFull = errors.New("full")

func (w *chunkWriter) Write(b []byte) (int, error) {
	w.writes++
	w.largest = max(w.largest, len(b))
	if w.failAfter > 0 && w.writes > w.failAfter {
		return 0, errFull
	}
	return len(b), nil
}

// A million watches are not one text in memory, and a client that is gone ends the work.
func TestLongAnswersLeaveInChunks(t *testing.T) {
	for _, tt := range []struct {
		name      string
		failAfter int
		elements  int
	}{{"client reads", 0, 100_000}, {"client is gone", 2, 2_000}} {
		t.Run(tt.name, func(t *testing.T) {
			w := &chunkWriter{failAfter: tt.failAfter}
			o, n := newObject(w), 0
			o.list("all", func(element func(func()) bool) {
				for n < 100_000 {
					n++
					if !element(func() { o.strings("path", "/some/path", "/another") }) {
						return
					}
				}
			})
			err := o.finish()
			require.LessOrEqual(t, n, tt.elements)
			require.Less(t, w.largest, 2*chunkBytes)
			require.Less(t, cap(o.buf), 4*chunkBytes)
			if tt.failAfter == 0 {
				require.NoError(t, err)
				require.Greater(t, w.writes, 100)
			} else {
				require.ErrorIs(t, err, errFull)
			}
		})
	}
}

// Whatever clients name their nodes, the answer can be parsed and says the name.
func FuzzQuoted(f *testing.F) {
	for _, s := range []string{"", "/a", "\x00\x1f\x7f", "\"\\\n\r\t\b\f", "\xff\xfe", "é\u2028😀", "</script>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		quoted := appendQuoted(nil, s)
		require.True(t, utf8.Valid(quoted))
		var back string
		require.NoError(t, json.Unmarshal(quoted, &back), "%q", quoted)
		require.Equal(t, strings.ToValidUTF8(s, "\uFFFD"), collapse(s, back))
	})
}

// collapse makes the replacement of each bad byte one for a run of them, as ToValidUTF8 does.
func collapse(s, back string) string {
	if utf8.ValidString(s) {
		return back
	}
	var runes []rune
	for _, r := range s { // yields U+FFFD for each bad byte, as the encoder does
		runes = append(runes, r)
	}
	if string(runes) == back {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	return back
}
