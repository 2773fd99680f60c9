package client

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// A node that was made and deleted between two lists is in neither; only the number of changes tells.
func TestAnImitationNoticesWhatItHasNotSeen(t *testing.T) {
	for name, c := range map[string]struct {
		before, after []string
		changes       int32
		unseen        bool
	}{
		"nothing":                    {nil, nil, 0, false},
		"made":                       {nil, []string{"a", "b"}, 2, false},
		"deleted":                    {[]string{"a", "b"}, []string{"b"}, 1, false},
		"one for the other":          {[]string{"a"}, []string{"b"}, 2, false},
		"made and deleted":           {nil, nil, 2, true},
		"another made and deleted":   {[]string{"a"}, []string{"a"}, 2, true},
		"deleted, made and deleted":  {[]string{"a"}, nil, 3, true},
		"made, deleted and made":     {nil, []string{"a"}, 3, true},
		"beside one that was made":   {[]string{"a"}, []string{"a", "b"}, 3, true},
		"beside one that is deleted": {[]string{"a", "b"}, []string{"a"}, 3, true},
	} {
		t.Run(name, func(t *testing.T) {
			var n imitated
			require.False(t, n.unseen(c.before, int32(len(c.before))))
			require.Equal(t, c.unseen, n.unseen(c.after, int32(len(c.before))+c.changes))
			require.False(t, n.unseen(c.after, int32(len(c.before))+c.changes), "it is told once")
		})
	}
	ended := func(ev Event) *Watch {
		w := &Watch{ch: make(chan Event, 1)}
		w.end(ev)
		return w
	}
	for w, stirred := range map[*Watch]bool{
		nil: false, {ch: make(chan Event, 1)}: false, ended(Event{Type: EventDeleted}): false,
		ended(Event{Type: EventChildrenChanged}): true, ended(Event{Err: ErrSessionExpired}): true,
	} {
		n := imitated{childList: w}
		require.Equal(t, stirred, n.stirred(), fmt.Sprint(w))
	}
}
