package nemesis

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Members changes who belongs to the cluster.
type Members interface {
	// Remove ends the membership of a server. done says that the cluster has confirmed it.
	Remove(server int) (done bool, err error)
	// Replace stops a server that is no member any more, empties its disk and starts it; it
	// returns when it is a member again, or fails. It may be tried again.
	Replace(server int) error
}

func members() []Nemesis {
	return []Nemesis{{
		Name: "member", Doc: "a server, sometimes the leader, is removed and comes back with an empty disk", group: groupProcess, longest: 2 * time.Second,
		needs: func(w *World) string {
			if w.Members == nil {
				return "a server needs one address for all: --driver netns"
			}
			return ""
		},
		inject: member,
	}}
}

// member changes nothing where the cluster does not confirm the removal in time, as it may be
// without a majority just now.
func member(w *World, r *rand.Rand) (fault, error) {
	role, servers := victims(w, r, "one", "leader")
	done, err := w.Members.Remove(servers[0])
	if !done {
		return fault{fmt.Sprintf("%s, not confirmed: %v", role, err), servers, func() error { return nil }}, nil
	}
	return fault{role, servers, func() error {
		// What does not come to an end while there are other faults is done when they are over.
		_ = w.Members.Replace(servers[0])
		return nil
	}}, nil
}
