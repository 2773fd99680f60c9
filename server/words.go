package server

import (
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/server/fourletter"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/watch"
)

// newWords makes the four-letter words of the server.
func (s *Server) newWords(c *config.Config) *fourletter.Commands {
	return &fourletter.Commands{
		Source: wordSource{s}, Stats: s.stats, Allowed: fourletter.ParseWhitelist(strings.Join(c.FourLetterWords, ","), s.cfg.ReadOnlyMode),
	}
}

// isFourLetterWord says whether a connection that begins with these four bytes asks for a
// word instead of a session.
func isFourLetterWord(b []byte) bool { return fourletter.Is([4]byte(b)) }

// fourLetterWord answers and ends the conversation.
func (c *conn) fourLetterWord(data []byte) error {
	word := string(data[:4])
	extra := data[4:]
	c.shard.Received(1, 4)
	c.stats.Received(1)
	err := c.s.words.Load().Run(wordWriter{c}, word, extra)
	c.shard.Text()
	if err != nil {
		return err
	}
	return errEnd
}

// A wordWriter sends an answer as fast as the client takes it.
type wordWriter struct{ c *conn }

var errGone = errors.New("the client is gone")

// Write queues b and, while too much is queued, writes it.
func (w wordWriter) Write(b []byte) (int, error) {
	c := w.c
	c.mu.Lock()
	if c.dead {
		c.mu.Unlock()
		return 0, errGone
	}
	c.out.queued = append(c.out.queued, b...)
	much := len(c.out.queued) > outSoftLimit
	c.mu.Unlock()
	if much {
		c.flush(true)
	}
	return len(b), nil
}

// A wordSource shows the server to the four-letter words.
type wordSource struct{ s *Server }

var _ fourletter.Source = wordSource{}

// Serving says whether clients are served.
func (w wordSource) Serving() bool { return w.s.serving() || w.s.readOnly() }

// mode is the role in ZooKeeper's words.
func (s *Server) mode() string {
	if s.readOnly() {
		return fourletter.ModeReadOnly
	}
	if n := s.currentNode(); n != nil {
		return n.Mode()
	}
	return fourletter.ModeStandalone
}

// Status is the state of this server.
func (w wordSource) Status() fourletter.Status {
	mode, readOnly := w.s.mode(), w.s.readOnly()
	master, _ := w.s.leader()
	return fourletter.Status{
		Mode: mode, ReadOnly: readOnly, PeerState: w.s.peerState(mode), MasterID: master,
		Zxid:        w.s.zxid.Load(),
		Nodes:       w.s.look(func(m *state.Machine) int64 { return int64(m.Tree().NodeCount()) }),
		Connections: int64(w.s.connectionCount()),
		Outstanding: w.s.pendingRequests.Load(),
	}
}

// Config is the configuration as conf shows it.
func (w wordSource) Config() fourletter.Config {
	c := w.s.cfg
	out := fourletter.Config{
		ClientPort: c.ClientPort, SecureClientPort: c.SecureClientPort,
		DataDir: c.DataDir, DataLogDir: c.DataLogDir,
		TickTimeMs: int(c.TickTimeMs), MaxClientCnxns: c.MaxClientCnxns,
		MinSessionTimeoutMs: int(c.MinSessionTimeoutMs), MaxSessionTimeoutMs: int(c.MaxSessionTimeoutMs),
		ClientPortBacklog: c.ClientPortListenBacklog, ServerID: int64(c.Cluster.ServerID),
		Ensemble: w.s.ensemble(),
	}
	return out
}

// DirSizes are the bytes on disk.
func (w wordSource) DirSizes() (dataBytes, logBytes int64) {
	if n := w.s.currentNode(); n != nil {
		return n.DirSizes()
	}
	return 0, 0
}

// Connections yields the open connections, oldest first.
func (w wordSource) Connections() iter.Seq[fourletter.Connection] {
	conns := w.s.connections()
	slices.SortFunc(conns, func(a, b *conn) int { return int(int64(a.number) - int64(b.number)) })
	return func(yield func(fourletter.Connection) bool) {
		for _, c := range conns {
			if !yield(c.describe()) {
				return
			}
		}
	}
}

func (c *conn) describe() fourletter.Connection {
	c.mu.Lock()
	d := fourletter.Connection{Remote: c.remote, SessionID: c.session, TimeoutMs: c.timeoutMs, Secure: c.secure}
	if c.session != 0 && !c.outFull() {
		d.InterestOps = 1
	}
	if c.out.busy() {
		d.InterestOps |= 4
	}
	c.mu.Unlock()
	timeout := c.s.handshakeTimeout()
	if d.SessionID != 0 {
		timeout = time.Duration(d.TimeoutMs) * time.Millisecond
	}
	due := c.s.start.Add(time.Duration(c.signNs()) + timeout)
	tick := time.Duration(c.s.cfg.TickTimeMs) * time.Millisecond
	d.Expires = due.Truncate(tick).Add(tick)
	d.Stats = c.stats.Snapshot()
	return d
}

// ResetConnections is crst.
func (w wordSource) ResetConnections() {
	for _, c := range w.s.connections() {
		c.stats.Reset()
	}
}

// Sessions are the expiry buckets, where this server decides on them.
func (w wordSource) Sessions() fourletter.Sessions {
	if n := w.s.currentNode(); w.s.clustered && n != nil && !n.Leads() {
		return fourletter.Sessions{Learner: true, Known: knownSessions(n)}
	}
	return fourletter.Sessions{Expiring: w.s.expiry.buckets()}
}

// Ephemerals are the ephemeral nodes by session.
func (w wordSource) Ephemerals() fourletter.Ephemerals {
	n := w.s.currentNode()
	if n == nil {
		return fourletter.Ephemerals{Each: func(func(int64, []string) bool) {}}
	}
	n.RLock()
	defer n.RUnlock()
	all := n.Machine().Tree().AllEphemerals()
	return fourletter.Ephemerals{Sessions: len(all), Each: func(yield func(int64, []string) bool) {
		for _, e := range all {
			if !yield(e.Session, e.Paths) {
				return
			}
		}
	}}
}

// WatchSummary counts the data watches.
func (w wordSource) WatchSummary() fourletter.WatchSummary {
	c := w.s.watches.Counts()
	return fourletter.WatchSummary{Connections: c.DataConnections, Paths: c.DataPaths, Watches: c.Data}
}

// WatchesBySession lists the data watches by session.
func (w wordSource) WatchesBySession() iter.Seq2[int64, []string] {
	return func(yield func(int64, []string) bool) {
		for _, e := range w.s.watches.ByConnection() {
			if c := w.s.connByWatch(e.ID); c != nil && !yield(c.sessionID(), e.Paths) {
				return
			}
		}
	}
}

// WatchesByPath lists the data watches by path.
func (w wordSource) WatchesByPath() iter.Seq2[string, []int64] {
	return func(yield func(string, []int64) bool) {
		for _, e := range w.s.watches.ByPath() {
			if !yield(e.Path, w.s.sessionsOf(e.IDs)) {
				return
			}
		}
	}
}

func (s *Server) sessionsOf(ids []watch.ID) []int64 {
	var out []int64
	for _, id := range ids {
		if c := s.connByWatch(id); c != nil {
			out = append(out, c.sessionID())
		}
	}
	return out
}

// Digests are the digests that hash shows.
func (w wordSource) Digests() iter.Seq[fourletter.Digest] {
	list := w.s.digests.list()
	return slices.Values(list)
}

// TraceMask is the mask of gtmk.
func (w wordSource) TraceMask() int64 { return w.s.traceMask.Load() }

// SetTraceMask is stmk.
func (w wordSource) SetTraceMask(mask int64) { w.s.traceMask.Store(mask) }
