package replication

import (
	"errors"
	"fmt"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/zkd-project/zkd/server/state"
)

// errNotEmpty is returned by Create for a directory that holds a database.
var errNotEmpty = errors.New("the directory holds a database already: name a new one")

// Create makes a data directory whose database begins with the machine m, for example one
// that was imported: a log with nothing but the configuration of a lone server, and a
// snapshot. m is not changed. Of the options those count that say where and how data is
// kept. After an error the directory can be used again: it counts as empty.
func Create(o Options, m *state.Machine) (err error) {
	o.Settings, o.Observer = func() state.Settings { return state.Settings{} }, noObserver{}
	if err := o.setDefaults(); err != nil {
		return err
	}
	st, err := openStores(&o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	if !st.isNew {
		return fmt.Errorf("%s: %w", o.Dir, errNotEmpty)
	}
	n := &Node{o: o, stores: st, solo: newSoloTransport(st.id.serverID())}
	conf := n.raftConfig()
	self := n.lone()
	if err := raft.BootstrapCluster(conf, st.log, st.stable, st.snaps, n.solo, self); err != nil {
		return fmt.Errorf("cannot begin a new database: %w", err)
	}
	if err := writeFirstSnapshot(st, n.solo, self, m); err != nil {
		return fmt.Errorf("cannot write the first snapshot: %w", err)
	}
	// What the snapshot has is nowhere in the log. Were entry 1 there, a server that joins with
	// an empty log would be sent the log from its beginning, and never the snapshot.
	if err := st.log.DeleteRange(1, 1); err != nil {
		return fmt.Errorf("cannot empty the log: %w", err)
	}
	return st.commit()
}

// writeFirstSnapshot stores m as the state after the first entry, the configuration.
func writeFirstSnapshot(st *stores, t raft.Transport, self raft.Configuration, m *state.Machine) error {
	const first, firstTerm = 1, 1
	sink, err := st.snaps.Create(raft.SnapshotVersionMax, first, firstTerm, self, first, t)
	if err != nil {
		return err
	}
	s := m.Snapshot()
	defer s.Close()
	if err := s.Write(&sync.Mutex{}, sink); err != nil { // nobody else has the machine
		return errors.Join(err, sink.Cancel())
	}
	if z, ok := sink.(interface{ setZxid(zxid int64) }); ok {
		z.setZxid(s.Zxid())
	}
	return sink.Close()
}

// noObserver hears nothing.
type noObserver struct{}

func (noObserver) Applied(*state.Command, *state.Result) {}
func (noObserver) BatchDone()                            {}
func (noObserver) BatchReleased()                        {}
func (noObserver) Routed(uint64)                         {}
func (noObserver) Restored()                             {}
func (noObserver) Quarantined()                          {}
