package replication

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/replication/damage"
	"github.com/zkd-project/zkd/server/replication/peer"
	"github.com/zkd-project/zkd/server/state"
)

// Recovery by force: the majority of a cluster is lost for good, and one survivor is to go on
// with what it has. Its directory becomes that of a new cluster whose only voter it is, and
// the others join with empty disks.
//
//   - All of the log is applied, whether it was committed or not: nobody is left to ask. A
//     command that was never committed was never acknowledged either, so its client does not
//     know what became of it, and both ends are right.
//   - The cluster gets another name, and this server another incarnation. The peer port turns
//     away who names another cluster, so no old member comes back with a log that tells
//     another story.
//   - The zxid jumps. What is lost has used zxids behind the last one here, and clients hold
//     them: as fencing tokens, and as the state that they have seen. They must mean nothing
//     else, and must not keep a client out.
//
// A crash at any point leaves a directory that either is as before or that no server starts
// on (its log has the stamp of the new incarnation) and that Recover finishes:
//
//  1. the file "recovering" names the new identity;
//  2. the log's stamp names the new incarnation: from here on it does not start;
//  3. a snapshot of everything, with the new configuration, which is read again;
//  4. the log is emptied, and a note of a quarantine goes: nobody is left to repair it;
//  5. the format file names the new identity: it starts again;
//  6. the file "recovering" goes. Should it be back after a crash, the format file says that it
//     is of a recovery that came to its end.

const (
	recoveringName = "recovering"
	// lostEpochs is far more than the elections that can have taken place without the survivor:
	// each began an epoch of zxids.
	lostEpochs = 1 << 16
)

// ErrNothingToRecover is returned by Recover for a directory that needs no recovery, or from
// which nothing can be recovered.
var ErrNothingToRecover = errors.New("nothing to recover")

// A Recovery is what Recover has found, and what comes of it.
type Recovery struct {
	Dir       string
	MyID      int
	ServerID  string // of this server in the lost cluster
	ClusterID string // of the lost cluster

	Term, Index   uint64    // of the last log entry
	SnapshotIndex uint64    // what the entries up to here did is committed; of those behind it is not known
	Zxid          int64     // of the last transaction
	Time          time.Time // when the leader of that time made the last entry
	Nodes         int
	Sessions      int
	Digest        uint64
	Voters        []int  // of the lost cluster, going by the last configuration here
	Ensemble      string // its members, as /zookeeper/config shows them; "": there are none
	Quarantined   bool   // the other servers had found these data to be wrong

	NewServerID  string
	NewClusterID string
	NewZxid      int64 // from which the new cluster goes on
}

// Recover makes a server the only voter of a new cluster, with the data of its directory, which
// must not be in use. Of the options those count that say where the data are; MyID is checked
// if it is set. approve is called with what was found when nothing is changed yet: its error
// ends the matter. Damage is a *DamageError.
func Recover(o Options, approve func(Recovery) error) (_ Recovery, err error) {
	r := &recoverer{wantID: o.MyID}
	o.Settings, o.Observer, o.NoAutocreate = func() state.Settings { return state.Settings{} }, noObserver{}, true
	if o.Memory {
		return Recovery{}, errors.New("what is in memory cannot be recovered")
	}
	if err := o.setDefaults(); err != nil {
		return Recovery{}, err
	}
	r.n = &Node{o: o, stores: &stores{sick: fileNote{o.FS, o.Dir}}}
	defer func() { err = errors.Join(err, r.n.stores.close()) }()
	if err := r.open(); err != nil {
		return Recovery{}, err
	}
	if err := r.load(); err != nil {
		return Recovery{}, err
	}
	if err := approve(r.found); err != nil {
		return Recovery{}, err
	}
	if err := r.commit(); err != nil {
		return Recovery{}, fmt.Errorf("the recovery did not come to its end, and is to be repeated: %w", err)
	}
	return r.found, nil
}

type recoverer struct {
	n      *Node // never started: it has options, stores and machine
	wantID int
	next   identity // what the directory becomes
	found  Recovery
}

// open locks the directory and opens the stores.
func (r *recoverer) open() error {
	o, s := &r.n.o, r.n.stores
	if err := refuseForeign(o.FS, o.Dir, o.LogDir); err != nil {
		return err
	}
	if err := r.identify(); err != nil { // before a lock is made where nothing is
		return err
	}
	if err := s.makeAndLock(o); err != nil {
		return err
	}
	if err := r.identify(); err != nil {
		return err
	}
	stamped, err := r.chooseIdentity()
	if err != nil {
		return err
	}
	if err := stamped.checkParts(o.FS, o.Dir, o.LogDir); err != nil {
		return err
	}
	if err := s.openParts(o, false); err != nil {
		return err
	}
	return s.settleStable(o.Dir)
}

// identify reads whose directory it is.
func (r *recoverer) identify() error {
	o := &r.n.o
	id, found, err := readIdentity(o.FS, o.Dir)
	if err != nil {
		return err
	}
	if !found || id.state != stateReady {
		return fmt.Errorf("%w: there is no data in %s; the survivor whose data are newest is meant", ErrNothingToRecover, o.Dir)
	}
	if r.wantID != 0 && r.wantID != id.myID {
		return fmt.Errorf("%s belongs to server %d, and the configuration is that of server %d: correct one of them", o.Dir, id.myID, r.wantID)
	}
	o.MyID, o.LogStore = id.myID, id.logStore
	r.n.stores.id = id
	return nil
}

// chooseIdentity draws what the directory becomes, unless a recovery has begun there: that one
// goes on. The stores it returns have the identity whose stamp is on the log.
func (r *recoverer) chooseIdentity() (*stores, error) {
	o, s := &r.n.o, r.n.stores
	next, found, err := readRecovering(o.FS, o.Dir)
	if err != nil {
		return nil, err
	}
	if found && next.incarnation != s.id.incarnation {
		stamp, _, err := readIdentity(o.FS, filepath.Join(o.LogDir, logName))
		if err != nil {
			return nil, err
		}
		if stamp.incarnation == next.incarnation {
			r.next = next
			return &stores{id: next}, nil
		}
	}
	if r.next, err = newIdentity(o); err != nil {
		return nil, err
	}
	r.next.state = stateReady
	return s, nil
}

// readRecovering reads the file of a recovery under way.
func readRecovering(fsys vfs.FS, dir string) (id identity, found bool, err error) {
	path := filepath.Join(dir, recoveringName)
	b, err := vfs.ReadFile(fsys, path)
	if errors.Is(err, fs.ErrNotExist) {
		return id, false, nil
	}
	if err == nil {
		err = id.decode(b)
	}
	if err != nil {
		return id, false, &damage.Error{
			File: path, Offset: -1, What: err.Error(),
			Repair: "remove the file and recover again",
		}
	}
	return id, true, nil
}

// load makes the machine of snapshot and log, and describes it.
func (r *recoverer) load() error {
	n, f := r.n, &r.found
	first, err1 := n.stores.log.FirstIndex()
	last, err2 := n.stores.log.LastIndex()
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("cannot read the log: %w", err)
	}
	files := n.stores.snaps.all()
	if first == 0 && len(files) == 0 {
		return fmt.Errorf("%w: the server of %s has joined a cluster and received nothing yet", ErrNothingToRecover, n.o.Dir)
	}
	var info Info
	if err := n.loadSnapshot(&info); err != nil {
		return err
	}
	if err := continuity(n.o.LogDir, info.SnapshotIndex, first, last); err != nil {
		return err
	}
	var conf raft.Configuration
	if len(files) > 0 {
		newest := files[len(files)-1]
		conf, f.Term, f.Index = newest.config, newest.term, newest.index
	}
	f.SnapshotIndex = info.SnapshotIndex
	if agrees, err := n.logAgrees(first, last); err != nil {
		return err
	} else if !agrees {
		last = info.SnapshotIndex // what follows was never committed: the snapshot tells another story
	}
	for i := max(first, info.SnapshotIndex+1); first > 0 && i <= last; i++ {
		if err := r.apply(i, &conf); err != nil {
			return err
		}
	}
	if err := checkMachine(n.o.Dir, n.machine); err != nil {
		return err
	}
	return r.describe(conf)
}

// apply applies one entry of the log.
func (r *recoverer) apply(index uint64, conf *raft.Configuration) error {
	var entry raft.Log
	if err := r.n.stores.log.GetLog(index, &entry); err != nil {
		return fmt.Errorf("cannot read log entry %d: %w", index, err)
	}
	r.found.Term, r.found.Index = entry.Term, entry.Index
	switch entry.Type {
	case raft.LogConfiguration:
		var d snapDescription
		if err := d.decodeConfiguration(entry.Data); err != nil {
			return fmt.Errorf("log entry %d: %w", index, err)
		}
		*conf = d.config
	case raft.LogCommand:
		var d state.BatchDecoder
		c := checker{m: r.n.machine}
		return c.apply(&d, &entry)
	}
	return nil
}

// describe fills what approve gets to see.
func (r *recoverer) describe(conf raft.Configuration) error {
	f, m, id := &r.found, r.n.machine, &r.n.stores.id
	f.Dir, f.MyID, f.ServerID, f.ClusterID = r.n.o.Dir, id.myID, string(id.serverID()), id.cluster
	f.Zxid, f.Time, f.Digest = m.Zxid(), time.UnixMilli(m.TimeMs()), m.Digest()
	f.Nodes, f.Sessions = m.Tree().NodeCount(), m.SessionCount()
	alone := true
	for _, s := range conf.Servers {
		if s.Suffrage == raft.Voter {
			f.Voters = append(f.Voters, peer.Number(s.ID))
			alone = alone && s.ID == id.serverID()
		}
	}
	if len(f.Voters) > 0 && alone {
		return fmt.Errorf("%w: the server of %s is the only voter of its cluster already; start it", ErrNothingToRecover, f.Dir)
	}
	if current, _, ok := m.Ensemble(); ok {
		f.Ensemble = current.String()
	}
	sickAt, err := r.n.stores.sick.read()
	if err != nil {
		return err
	}
	f.Quarantined = sickAt > 0
	f.NewServerID, f.NewClusterID = string(r.next.serverID()), r.next.cluster
	f.NewZxid = (f.Zxid>>32 + lostEpochs) << 32
	return nil
}

// commit changes the directory, in the order that is described above.
func (r *recoverer) commit() error {
	fsys, dir := r.n.o.FS, r.n.o.Dir
	marker := filepath.Join(dir, recoveringName)
	if err := vfs.WriteFileAtomic(fsys, dir, marker, r.next.encode(), 0o600); err != nil {
		return err
	}
	if err := writeIdentity(fsys, filepath.Join(r.n.o.LogDir, logName), &r.next); err != nil {
		return err
	}
	if err := r.writeSnapshot(); err != nil {
		return err
	}
	if err := r.emptyLog(); err != nil {
		return err
	}
	if err := r.n.stores.sick.write(0); err != nil {
		return err
	}
	if err := writeIdentity(fsys, dir, &r.next); err != nil {
		return err
	}
	r.n.stores.id = r.next
	if err := fsys.Remove(marker); err != nil {
		return err
	}
	return fsys.SyncDir(dir)
}

// writeSnapshot stores the machine, and reads it again: it replaces all that there is.
func (r *recoverer) writeSnapshot() error {
	m, st, f := r.n.machine, r.n.stores, &r.found
	m.FinishImport(f.NewZxid, 0) // as with data of another system: from here the machine goes on
	id := r.next.serverID()
	self := raft.Configuration{Servers: []raft.Server{{ID: id, Address: raft.ServerAddress(id)}}}
	sink, err := st.snaps.Create(raft.SnapshotVersionMax, f.Index, f.Term, self, f.Index, nil)
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
	if err := sink.Close(); err != nil {
		return err
	}
	want := m.Digest()
	r.n.machine = nil // one at a time: they can be large
	var info Info
	if err := r.n.loadSnapshot(&info); err != nil {
		return err
	}
	if info.SnapshotIndex != f.Index || r.n.machine.Digest() != want {
		return fmt.Errorf("the snapshot of entry %d is not what was written", f.Index)
	}
	return nil
}

func (r *recoverer) emptyLog() error {
	log := r.n.stores.log
	first, err1 := log.FirstIndex()
	last, err2 := log.LastIndex()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if first == 0 {
		return nil
	}
	return log.DeleteRange(first, last)
}
