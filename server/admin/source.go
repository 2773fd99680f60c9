package admin

import (
	"iter"
	"time"

	"github.com/zkd-project/zkd/server/fourletter"
)

// A Source is what the commands read from a server: what the four-letter words read, and
// what only the AdminServer shows. As there, no method may wait for other servers, a quorum
// or a disk, and no sequence may hold a lock while it yields.
type Source interface {
	fourletter.Source

	// LastSnapshot describes the newest snapshot; ok is false when there is none.
	LastSnapshot() (zxid int64, at time.Time, ok bool)
	// Leader is the number of the server that leads the ensemble; ok is false while none is
	// known, and on a server alone.
	Leader() (id int64, ok bool)
	// Observers yields the observers that are connected to this server.
	Observers() iter.Seq[fourletter.Observer]
	// ResetObservers resets the numbers of every observer.
	ResetObservers()
	// Shed closes a share of the client connections, in percent, and says how many that were.
	Shed(percent int) int
}
