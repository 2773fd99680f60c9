package server

import (
	"iter"
	"time"

	"github.com/zkd-project/zkd/server/fourletter"
	"github.com/zkd-project/zkd/server/stats"
)

// Stats is what the server counts.
func (s *Server) Stats() *stats.Server { return s.stats }

// Face shows the server to its operators. It may be used from New on, also after Close.
func (s *Server) Face() Face { return Face{wordSource{s}} }

// A Face is what the four-letter words show, and what only the admin server does. It is an
// admin.Source; the ports that show it are opened by the program, not here.
type Face struct{ wordSource }

// LastSnapshot describes the newest snapshot.
func (f Face) LastSnapshot() (zxid int64, at time.Time, ok bool) {
	if n := f.s.currentNode(); n != nil {
		return n.LastSnapshot()
	}
	return 0, time.Time{}, false
}

// Leader is for ensembles: a server alone has none.
func (f Face) Leader() (id int64, ok bool) { return 0, false }

// Observers yields nothing: a server alone has none.
func (f Face) Observers() iter.Seq[fourletter.Observer] {
	return func(func(fourletter.Observer) bool) {}
}

// ResetObservers has nothing to reset on a server alone.
func (f Face) ResetObservers() {}
