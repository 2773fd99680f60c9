package server

import (
	"cmp"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/server/fourletter"
	"github.com/zkd-project/zkd/server/replication"
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

// Leader is the number of the server that leads; a server alone has none.
func (f Face) Leader() (id int64, ok bool) { return f.s.leader() }

// Observers yields nothing: raft sends to observers as to any member, and keeps no numbers of
// a connection to each.
func (f Face) Observers() iter.Seq[fourletter.Observer] {
	return func(func(fourletter.Observer) bool) {}
}

// ResetObservers has nothing to reset: see Observers.
func (f Face) ResetObservers() {}

// Shed closes this share, in percent, of the client connections and says how many that were.
// Which ones is left to chance. The sessions stay: their clients go to another server, or
// come back.
func (f Face) Shed(percent int) int {
	all := f.s.connections() // in no order
	n := len(all) * min(max(percent, 0), 100) / 100
	for _, c := range all[:n] {
		c.abort()
	}
	f.s.stats.ConnectionsDropped.Add(int64(n))
	f.s.log.Info("connections were shed on demand", "percent", percent, "closed", n)
	return n
}

// leader is the number of the server that leads the ensemble, if one is known.
func (s *Server) leader() (id int64, ok bool) {
	n := s.currentNode()
	if n == nil || !s.clustered {
		return 0, false
	}
	number, _, _ := strings.Cut(n.Leader(), "-") // behind it comes the incarnation
	id, err := strconv.ParseInt(number, 10, 64)
	return id, err == nil
}

// peerState is what a member of an ensemble does, in ZooKeeper's words. The phases between
// an election and broadcast are raft's own business.
func (s *Server) peerState(mode string) string {
	switch {
	case !s.clustered:
		return ""
	case mode == fourletter.ModeLeader:
		return "leading - broadcast"
	case mode == fourletter.ModeFollower:
		return "following - broadcast"
	case mode == fourletter.ModeObserver:
		return "observing - broadcast"
	}
	return "looking - election"
}

// ensemble describes the ensemble, nil for a server alone.
func (s *Server) ensemble() *fourletter.Ensemble {
	if !s.clustered {
		return nil
	}
	e := &fourletter.Ensemble{InitLimit: s.cfg.InitLimit, SyncLimit: s.cfg.SyncLimit, ElectionAlg: 3, Membership: s.membership()}
	if self := s.cfg.Cluster.Self(); self != nil {
		e.QuorumPort, e.ElectionPort = self.Peers[0].Port, self.Peers[0].ElectionPort
		e.Observer = self.Role == config.Observer
	}
	if n := s.currentNode(); n != nil { // a reconfig may have changed it since
		e.Observer = !n.Votes()
	}
	return e
}

// membership is the text of /zookeeper/config as reconfig keeps it; before the data are
// loaded it is that of the server lines.
func (s *Server) membership() string {
	if n := s.currentNode(); n != nil {
		n.RLock()
		defer n.RUnlock()
		if c, _, ok := n.Machine().Ensemble(); ok {
			return c.String()
		}
	}
	return s.firstEnsemble()
}

// knownSessions are all sessions of the ensemble, by id.
func knownSessions(n *replication.Node) []fourletter.KnownSession {
	n.RLock()
	defer n.RUnlock()
	var all []fourletter.KnownSession
	for session := range n.Machine().Sessions() {
		all = append(all, fourletter.KnownSession{ID: session.ID, TimeoutMs: session.TimeoutMs})
	}
	slices.SortFunc(all, func(a, b fourletter.KnownSession) int { return cmp.Compare(uint64(a.ID), uint64(b.ID)) })
	return all
}
