package replication

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/replication/damage"
	"github.com/zkd-project/zkd/server/state"
)

// The limits, where Options leave them open.
const (
	// defaultSnapshotBytes of log between two snapshots. Replaying so much takes about a
	// second; a snapshot of a million nodes about two, beside the writers.
	defaultSnapshotBytes = 256 << 20
	// maxMemorySnapshotBytes is the most of it where the log is in memory.
	maxMemorySnapshotBytes = 32 << 20
	defaultSnapRetain      = 3
	// defaultQueueBytes of encoded commands may wait. A full queue is ErrQueueFull.
	defaultQueueBytes = 32 << 20
	// defaultBatchBytes bounds one log entry, and with it how long readers wait while it is
	// applied. A single command may be larger.
	defaultBatchBytes = 512 << 10
	// defaultCommandBytes is twice the largest request of a client, where that is not raised.
	defaultCommandBytes = 2 << 20
	// minMessageBytes and minEntryBytes are what members take from each other in any case.
	minMessageBytes = 4 << 20
	minEntryBytes   = 16 << 20
	// maxFrameBytes is the most that peer takes.
	maxFrameBytes = 1 << 30
	// entryHead is more than the header of a batch.
	entryHead = 4 << 10
	// defaultInflight entries are under way at once: one is synced while another is
	// applied. More make batches smaller and syncs more.
	defaultInflight = 2
	defaultSlowSync = time.Second
	// defaultClosePatience is longer than any hand-over or election takes.
	defaultClosePatience = 5 * time.Second
)

// ErrLocked is returned by Open when another process uses the data directory.
var ErrLocked = errors.New("the data directory is in use by another process")

// ErrZooKeeperData is returned by Open for a directory that holds data of Apache ZooKeeper.
var ErrZooKeeperData = errors.New("the directory holds data of Apache ZooKeeper (version-2)")

// ErrQueueFull is returned by Propose when too many bytes wait: nothing was queued. See
// WaitQueue.
var ErrQueueFull = errors.New("the queue of proposals is full")

// ErrClosed is returned when the node is closing or has stopped after a Fatal error.
var ErrClosed = errors.New("the node is closed")

// ErrFailed is in every error of a node that could not keep its promises: a store failed.
var ErrFailed = errors.New("the node has failed")

// ErrNotLeader is returned by Propose while there is no leader: nothing was queued.
var ErrNotLeader = errors.New("there is no leader")

// ErrStale is returned by ProposeIn when another generation has begun: nothing was queued.
var ErrStale = errors.New("the way to the leader has changed")

// DamageError is returned by Open and CheckDir, and given to Fatal, when stored data is not
// as it was written.
type DamageError = damage.Error

// An Observer hears of what is applied. The methods with "locked" in their comment are
// called under the write lock, all but Restored from one goroutine, in the order of the
// log, and must not block. The first call comes after the first call of WaitReady.
type Observer interface {
	// Applied is called for each command (locked). c and r are reused, and c's slices alias
	// the log entry: copy what is kept.
	Applied(c *state.Command, r *state.Result)
	// BatchDone is called after the last Applied of a log entry (locked).
	BatchDone()
	// BatchReleased is called after BatchDone, when the lock has been released.
	BatchReleased()
	// Routed is called when proposals have found a way, through this server or to the leader,
	// and a new generation of them has begun: what was proposed before and is not applied yet is
	// to be proposed again, in order. It must not wait for proposals.
	Routed(gen uint64)
	// Restored is called when a snapshot has replaced the machine while the node serves
	// (locked).
	Restored()
	// Quarantined is called when the machine here was found to differ from that of the majority
	// of the servers (locked): nothing of it may be shown any more. Nothing is applied until it
	// is repaired, which Restored says.
	Quarantined()
}

// Meters are told durations and sizes, for whoever counts them. Any of them may be nil. They
// are called for every log entry, or with locks held, and must be quick.
type Meters struct {
	// Proposed: an entry of so many commands and bytes was given to the log.
	Proposed func(commands, bytes int)
	// Stored: so many entries were written and synced together.
	Stored func(entries int, took time.Duration)
	// Applied: an entry of so many commands was applied.
	Applied func(commands int, took time.Duration)
	// Snapshot: one was taken, or could not be.
	Snapshot func(took time.Duration, err error)
	// SlowDisk: this leader hands over because its disk is slow.
	SlowDisk func()
	// Propagated: an entry was applied by a server that keeps up with its leader, so long after
	// that has made it, by the clocks of both.
	Propagated func(since time.Duration)
	// Started: all that the stores held at the start has been applied.
	Started func(Startup)

	// Of a member of a cluster, see search.go:

	// Looking: there is no way to a leader any more, or not yet.
	Looking func()
	// Elected: so long after that a leader is known.
	Elected func(took time.Duration)
	// Routed: so long after that proposals have a way; leads: to this server itself.
	Routed func(took time.Duration, leads bool)
	// Synced: another server leads, and all that it had applied when it was asked for the way is
	// applied here; votes: this one is no observer.
	Synced func(took time.Duration, votes bool)
	// SnapshotSent: another server has got a snapshot from this leader.
	SnapshotSent func()
}

func (m *Meters) setDefaults() {
	if m.Proposed == nil {
		m.Proposed = func(int, int) {}
	}
	if m.Stored == nil {
		m.Stored = func(int, time.Duration) {}
	}
	if m.Applied == nil {
		m.Applied = func(int, time.Duration) {}
	}
	if m.Snapshot == nil {
		m.Snapshot = func(time.Duration, error) {}
	}
	if m.SlowDisk == nil {
		m.SlowDisk = func() {}
	}
	if m.Propagated == nil {
		m.Propagated = func(time.Duration) {}
	}
	if m.Started == nil {
		m.Started = func(Startup) {}
	}
	if m.Looking == nil {
		m.Looking = func() {}
	}
	if m.Elected == nil {
		m.Elected = func(time.Duration) {}
	}
	if m.Routed == nil {
		m.Routed = func(time.Duration, bool) {}
	}
	if m.Synced == nil {
		m.Synced = func(time.Duration, bool) {}
	}
	if m.SnapshotSent == nil {
		m.SnapshotSent = func() {}
	}
}

// Options say where a Node keeps its data and whom it tells. Dir, Settings and Observer
// are required, Dir not with Memory.
type Options struct {
	Dir    string // the data directory; made if missing
	LogDir string // where the log lies; Dir by default
	// NoAutocreate refuses a Dir or LogDir that does not exist.
	NoAutocreate bool
	// NoNewDatabase refuses an empty Dir unless it holds a file named initialize, which is
	// then removed. It keeps a server from coming up empty on a disk that was not mounted.
	NoNewDatabase bool

	// Memory keeps everything in memory, in Stores if set.
	Memory bool
	Stores *MemoryStores

	LogStore string // "segment" (the default) or "bolt"
	FS       vfs.FS // vfs.OS by default. With another one term and vote are kept in a plain file
	// SegmentBytes is the length of a log file, 64 MiB by default. A longer one gives space
	// back later, a shorter one costs more file changes.
	SegmentBytes int64

	MyID int // of this server among its cluster, 1–255; 1 by default
	// Cluster says who the others are; nil: there are none.
	Cluster *Cluster
	// Ensemble is the text of the members, as /zookeeper/config shows them, with which a cluster
	// begins; "": there is none.
	Ensemble string
	// Boot tells this process from those before and after it; random if 0.
	Boot uint64

	// SnapshotBytes of log are applied between two snapshots; negative: SnapCount alone
	// decides. Too small: the server does little else; too large: restarts take long. In a
	// cluster each server takes between a half and all of it, so that they take turns.
	SnapshotBytes int64
	// SnapCount commands are applied between two snapshots; 0: SnapshotBytes alone decides.
	SnapCount int
	// SnapRetain snapshots are kept when purging, with the log from the oldest of them on;
	// 3 by default.
	SnapRetain int
	// TrailingEntries of the log stay in front of the oldest snapshot of a member of a cluster. The
	// default is what may be under way to it when a connection breaks; fewer are for tests, in which
	// members come to need a snapshot soon.
	TrailingEntries int
	// PurgeInterval: 0 purges after each snapshot, a negative one never.
	PurgeInterval time.Duration

	// Settings are read for every batch while this server leads.
	Settings func() state.Settings
	Now      func() time.Time // the wall clock; time.Now by default
	Rand     io.Reader        // crypto/rand by default

	MaxQueueBytes int // of encoded commands that wait
	MaxBatchBytes int // of one log entry
	// MaxCommandBytes of the largest command, encoded: the largest request of a client and a little
	// more; 2 MiB by default. It has to be the same on all members. What is larger than they take from
	// each other could neither be forwarded nor replicated, and all that is behind it neither.
	MaxCommandBytes int
	MaxInflight     int // log entries under way

	// ClosePatience is how long Close waits for what was proposed to be stored by a majority;
	// 5 s by default.
	ClosePatience time.Duration
	// SlowSync is the time from which writing to the log is worth a warning; 1 s by default.
	SlowSync time.Duration
	// SlowDisk says when a leader hands over because of its disk.
	SlowDisk SlowDisk
	// DigestInterval is the longest time for which the servers of a cluster do not compare their
	// data; 30 s by default. Each time costs an idle cluster an entry of the log.
	DigestInterval time.Duration

	Logger *slog.Logger
	// Fatal is called once, on the first error of a store, from the goroutine that met it.
	// The process should end: from then on nothing is applied. It must not call Close.
	Fatal    func(error)
	Observer Observer
	Meters   Meters
}

func (o *Options) setDefaults() error {
	if o.Settings == nil || o.Observer == nil {
		return errors.New("replication: Options.Settings and Options.Observer are required")
	}
	if o.Dir == "" && !o.Memory {
		return errors.New("replication: Options.Dir is required")
	}
	if o.LogStore == "" {
		o.LogStore = logStoreSegment
	}
	if o.LogStore != logStoreSegment && o.LogStore != logStoreBolt {
		return fmt.Errorf("unknown log store %q: use %q or %q", o.LogStore, logStoreSegment, logStoreBolt)
	}
	setDefault(&o.MyID, 1)
	if o.Cluster != nil {
		if err := o.Cluster.check(o.MyID); err != nil {
			return err
		}
	}
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if o.LogStore == logStoreBolt && o.FS != vfs.OS {
		return errors.New("the bolt log store needs the file system of the machine")
	}
	if o.LogDir == "" {
		o.LogDir = o.Dir
	}
	if o.SnapshotBytes == 0 {
		o.SnapshotBytes = defaultSnapshotBytes
	}
	if o.Memory { // a long log would only take memory
		o.SnapshotBytes = min(o.SnapshotBytes, maxMemorySnapshotBytes)
	}
	if o.SlowSync <= 0 {
		o.SlowSync = defaultSlowSync
	}
	if o.ClosePatience <= 0 {
		o.ClosePatience = defaultClosePatience
	}
	o.SlowDisk.setDefaults()
	if o.DigestInterval <= 0 {
		o.DigestInterval = defaultDigestInterval
	}
	setDefault(&o.SnapRetain, defaultSnapRetain)
	setDefault(&o.MaxQueueBytes, defaultQueueBytes)
	setDefault(&o.MaxBatchBytes, defaultBatchBytes)
	setDefault(&o.MaxCommandBytes, defaultCommandBytes)
	setDefault(&o.MaxInflight, defaultInflight)
	setDefault(&o.TrailingEntries, defaultTrailing)
	o.Meters.setDefaults()
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Fatal == nil {
		o.Fatal = func(err error) { o.Logger.Error("cannot go on", "error", err) }
	}
	return nil
}

// messageBytes is how long a message with forwarded commands can be: a chunk of the queue is closed
// by the command that fills it.
func (o *Options) messageBytes() int {
	return min(max(o.MaxBatchBytes+o.MaxCommandBytes+entryHead, minMessageBytes), maxFrameBytes)
}

// entryBytes is how long a log entry can be: one such message may fill a chunk, too.
func (o *Options) entryBytes() int {
	return min(max(o.MaxBatchBytes+o.messageBytes()+entryHead, minEntryBytes), maxFrameBytes)
}

func setDefault(v *int, d int) {
	if *v <= 0 {
		*v = d
	}
}

// Info says what Open found.
type Info struct {
	New           bool   // the data directory was empty
	SnapshotIndex uint64 // log index of the snapshot that was loaded, 0 without one
	Replay        uint64 // log entries that WaitReady will apply
	Took          time.Duration
}

// A Role is what a server is at the moment.
type Role uint8

// The roles.
const (
	Electing Role = iota // no leader is known
	Leader
	Follower
	Observing // has no vote
)

func (r Role) String() string {
	return [...]string{"electing", "leader", "follower", "observer"}[r]
}

// contextError says what was waited for when ctx ended.
func contextError(ctx context.Context, what string) error {
	return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
}
