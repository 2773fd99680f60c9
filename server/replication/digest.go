package replication

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/zkd-project/zkd/internal/wait"
	"github.com/zkd-project/zkd/server/replication/peer"
)

// Equal logs make equal machines, unless a server's memory or this program fails. So all
// servers of a cluster compare: each notes the digest of its machine at the same log entries,
// and tells the leader what it has noted, over a stream of its own. Those entries are every
// digestEvery-th one and each that holds no command: with such a mark the leader has an idle
// cluster compare, too.
//
//	member → leader   what was noted since the last message, once per reportInterval
//	leader → member   a verdict
//
// What the majority of the voters has at an entry is right. A member that has something else
// is told so, and puts itself into quarantine: it sends its clients away, applies nothing more,
// takes no snapshot of what it has, and does not lead. Its log, term and vote are right, and
// raft goes on with them. Then it fetches a snapshot from the leader, makes it its newest one,
// and restarts raft on it (restart.go): the log, which it has acknowledged, is kept, and what
// follows the snapshot is applied again. A leader that deviates hands over first. If there can
// be no majority nobody knows what is right, and every server ends.
//
// raft's own way of sending snapshots will not do for that: with a log store that allows no
// gaps it deletes the log, and with it entries that count as stored here.

const (
	// digestEvery is the distance of the entries at which digests are noted.
	digestEvery = 256
	// defaultDigestInterval is the longest time without a comparison.
	defaultDigestInterval = 30 * time.Second
	// keepNotes of a server's own, for a leader to come.
	keepNotes = 64
	// keepHeard notes of each member, at the leader: more, for one that lags is compared later.
	keepHeard = 1024
	// reportInterval is the time between two reports.
	reportInterval = time.Second
	// openReports is after how many reports a difference that cannot be settled is worth a line
	// in the log, and then again after each openSay: at first the others have just not reported.
	openReports = 3
	openSay     = 60
	// repairPause is between two attempts to be repaired.
	repairPause = 200 * time.Millisecond
	// conditionAge is for how long a report says how a member is.
	conditionAge = 5 * reportInterval
	// maxRepairs within repairWindow: a machine that fails more often is broken.
	maxRepairs   = 3
	repairWindow = time.Hour
	// repairChunk bytes of a snapshot go into one message.
	repairChunk = 256 << 10
)

// A note is a digest of the machine after a log entry.
type note struct{ index, digest uint64 }

// notebook holds a server's own notes, the newest keepNotes.
type notebook struct {
	mu    sync.Mutex // guards what follows
	notes []note     // ascending
	epoch uint64     // rises when all are forgotten
	last  time.Time  // when the newest was made
}

// age is the time since the last note; long if there is none.
func (b *notebook) age() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Since(b.last)
}

// add is called by the applier.
func (b *notebook) add(x note) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.notes) == keepNotes {
		b.notes = append(b.notes[:0], b.notes[1:]...)
	}
	b.notes = append(b.notes, x)
	b.last = time.Now()
}

// forget is called when the machine was replaced: the notes are of another one.
func (b *notebook) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notes, b.epoch = b.notes[:0], b.epoch+1
}

// since returns what was noted after a bookmark, and the next one.
func (b *notebook) since(m bookmark) ([]note, bookmark) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if m.epoch != b.epoch {
		m = bookmark{epoch: b.epoch}
	}
	at := slices.IndexFunc(b.notes, func(x note) bool { return x.index > m.index })
	if at < 0 {
		return nil, m
	}
	news := slices.Clone(b.notes[at:])
	m.index = news[len(news)-1].index
	return news, m
}

// A bookmark is how far a notebook has been read.
type bookmark struct{ epoch, index uint64 }

// A report is what a member tells the leader:
//
//	0  1  bit 0: in quarantine; bit 1: what was reported before is void
//	1  4  how long a sync of the log takes there at present, µs; 0: not known (slowdisk.go)
//	5  16 per note: index, digest
type report struct {
	sick, fresh bool
	syncMicros  uint32
	notes       []note // ascending
}

const (
	bitSick  = 1 << 0
	bitFresh = 1 << 1

	reportHead = 5
)

var errReport = errors.New("a message about digests that cannot be decoded")

func (r *report) append(b []byte) []byte {
	var bits byte
	if r.sick {
		bits |= bitSick
	}
	if r.fresh {
		bits |= bitFresh
	}
	b = binary.BigEndian.AppendUint32(append(b, bits), r.syncMicros)
	for _, x := range r.notes {
		b = binary.BigEndian.AppendUint64(b, x.index)
		b = binary.BigEndian.AppendUint64(b, x.digest)
	}
	return b
}

func (r *report) decode(b []byte) error {
	if len(b) < reportHead || b[0]&^(bitSick|bitFresh) != 0 || len(b)%16 != reportHead || len(b) > reportHead+16*keepNotes {
		return errReport
	}
	*r = report{sick: b[0]&bitSick != 0, fresh: b[0]&bitFresh != 0, syncMicros: binary.BigEndian.Uint32(b[1:])}
	var last uint64
	for b = b[reportHead:]; len(b) > 0; b = b[16:] {
		x := note{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}
		if x.index <= last {
			return errReport
		}
		last = x.index
		r.notes = append(r.notes, x)
	}
	return nil
}

// A ruling is what is known of a member's machine.
type ruling uint8

const (
	agrees     ruling = iota // or it is not known yet
	deviates                 // the majority has another digest
	noMajority               // there is none, and cannot be one
)

// A verdict is the leader's answer to a report: 1 byte ruling, 8 bytes index of the entry, 8
// bytes digest of the member, 8 bytes digest of the majority.
type verdict struct {
	ruling      ruling
	index       uint64
	mine, right uint64
}

const verdictBytes = 25

func (v *verdict) append(b []byte) []byte {
	b = append(b, byte(v.ruling))
	b = binary.BigEndian.AppendUint64(b, v.index)
	b = binary.BigEndian.AppendUint64(b, v.mine)
	return binary.BigEndian.AppendUint64(b, v.right)
}

func (v *verdict) decode(b []byte) error {
	if len(b) != verdictBytes || ruling(b[0]) > noMajority {
		return errReport
	}
	*v = verdict{
		ruling(b[0]), binary.BigEndian.Uint64(b[1:]), binary.BigEndian.Uint64(b[9:]),
		binary.BigEndian.Uint64(b[17:]),
	}
	return nil
}

// A judge compares what the members report while this server leads.
type judge struct {
	gen uint64 // of the leadership

	mu     sync.Mutex
	heard  map[raft.ServerID][]note    // guarded by mu
	health map[raft.ServerID]condition // guarded by mu
}

// A condition is what a member has reported of itself last.
type condition struct {
	sick   bool
	syncNs int64 // how long its disk takes, 0: not known
	at     time.Time
}

// conditionOf returns what a member has reported last; false if that is too old to count.
func (j *judge) conditionOf(id raft.ServerID) (condition, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	c, ok := j.health[id]
	return c, ok && time.Since(c.at) < conditionAge
}

func newJudge(gen uint64) *judge {
	return &judge{gen: gen, heard: map[raft.ServerID][]note{}, health: map[raft.ServerID]condition{}}
}

// hear adds the report of a member.
func (j *judge) hear(id raft.ServerID, r *report) {
	j.mu.Lock()
	defer j.mu.Unlock()
	notes := j.heard[id]
	if r.fresh || r.sick {
		notes = nil
	}
	if !r.sick { // it knows that its notes are wrong
		notes = append(notes, r.notes...)
	}
	if len(notes) > keepHeard {
		notes = slices.Clone(notes[len(notes)-keepHeard:])
	}
	j.heard[id] = notes
	j.health[id] = condition{r.sick, int64(r.syncMicros) * int64(time.Microsecond), time.Now()}
}

// judge rules about a member at the newest entry that allows a ruling. undecided is the
// newest entry at which the servers differ and those that have not reported yet will decide.
func (j *judge) judge(id raft.ServerID, voters []raft.ServerID) (v verdict, undecided uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	majority := len(voters)/2 + 1
	for _, x := range slices.Backward(j.heard[id]) {
		count, best, reported := map[uint64]int{}, uint64(0), 0
		for _, voter := range voters {
			d, ok := digestAt(j.heard[voter], x.index)
			if !ok {
				continue
			}
			reported++
			if count[d]++; count[d] > count[best] {
				best = d
			}
		}
		switch {
		case count[best] >= majority && best == x.digest:
			return verdict{}, undecided
		case count[best] >= majority:
			return verdict{deviates, x.index, x.digest, best}, undecided
		case count[best]+len(voters)-reported < majority:
			return verdict{noMajority, x.index, x.digest, 0}, undecided
		case len(count) > 1:
			undecided = max(undecided, x.index)
		}
	}
	return verdict{}, undecided
}

func digestAt(notes []note, index uint64) (uint64, bool) {
	at, ok := slices.BinarySearchFunc(notes, index, func(x note, i uint64) int {
		switch {
		case x.index < i:
			return -1
		case x.index > i:
			return 1
		}
		return 0
	})
	if !ok {
		return 0, false
	}
	return notes[at].digest, true
}

// judgeOf returns the judge of a time of leadership; nil if that is over.
func (n *Node) judgeOf(gen uint64) *judge {
	n.judgeMu.Lock()
	defer n.judgeMu.Unlock()
	switch {
	case n.judgeNow == nil || n.judgeNow.gen < gen:
		n.judgeNow = newJudge(gen)
	case n.judgeNow.gen > gen:
		return nil
	}
	return n.judgeNow
}

// reportedSick says whether a member has told this leader that its data are wrong.
func (n *Node) reportedSick(id raft.ServerID) bool {
	c, ok := n.conditionOf(id)
	return ok && c.sick
}

// conditionOf is how a member is by its reports to this leader.
func (n *Node) conditionOf(id raft.ServerID) (condition, bool) {
	n.judgeMu.Lock()
	j := n.judgeNow
	n.judgeMu.Unlock()
	if j == nil {
		return condition{}, false
	}
	return j.conditionOf(id)
}

// compareDigests reports to whoever leads, this server included, until stop.
func (n *Node) compareDigests(stop <-chan struct{}) {
	ctx, cancel := n.until(stop)
	defer cancel()
	for ctx.Err() == nil {
		l := n.leadership()
		lctx, over := context.WithCancel(ctx)
		go func() {
			select {
			case <-l.changed:
			case <-lctx.Done():
			}
			over()
		}()
		switch l.leader {
		case "":
			<-lctx.Done()
		case n.stores.id.serverID():
			n.judgeSelf(lctx)
		default:
			if err := n.reportDigests(lctx, l.leader); err != nil && lctx.Err() == nil {
				n.o.Logger.Debug("no report of digests to the leader", "leader", l.leader, "reason", err)
			}
		}
		wait.Pause(lctx, reportInterval)
		over()
	}
}

// reportDigests reports to another server over one stream.
func (n *Node) reportDigests(ctx context.Context, leader raft.ServerID) error {
	return n.withStream(ctx, leader, kindDigest, func(s *peer.Stream) error { return n.sendDigests(ctx, s) })
}

// sendDigests is reportDigests on an open stream.
func (n *Node) sendDigests(ctx context.Context, s *peer.Stream) error {
	var at bookmark
	for first := true; ctx.Err() == nil; first = false {
		var r report
		r, at = n.report(at, first)
		if err := s.Send(r.append(nil)); err != nil {
			return err
		}
		answer, err := s.Receive()
		if err != nil {
			return err
		}
		var v verdict
		if err := v.decode(answer); err != nil {
			return err
		}
		n.obey(&v, at.epoch)
		wait.Pause(ctx, reportInterval)
	}
	return nil
}

// report says what was noted after a bookmark, and returns the next one.
func (n *Node) report(at bookmark, first bool) (report, bookmark) {
	r := report{sick: n.InQuarantine(), syncMicros: uint32(min(n.syncs.typical().Microseconds(), math.MaxUint32))}
	epoch := at.epoch
	r.notes, at = n.notes.since(at)
	r.fresh = first || at.epoch != epoch
	return r, at
}

// obey draws the consequences of a verdict about the notes of an epoch.
func (n *Node) obey(v *verdict, epoch uint64) {
	switch v.ruling {
	case deviates:
		n.quarantine(v, epoch)
	case noMajority:
		n.fail(v.lost())
	}
}

// lost is why everything ends without a majority.
func (v *verdict) lost() error {
	return fmt.Errorf("the servers of the cluster hold different data at log entry %d (here the digest is %016x) and no majority "+
		"agrees, so nobody knows which is right: keep a copy of every data directory, start the servers again, and if they differ "+
		"again run zkd check on each, keep the one that is right and give the others empty directories", v.index, v.mine)
}

// judgeSelf compares this server with the others while it leads.
func (n *Node) judgeSelf(ctx context.Context) {
	gen, err := n.queue.wait(ctx, "leadership", func(r route) bool { return r == routeLog })
	if err != nil {
		return
	}
	self := n.stores.id.serverID()
	j := n.judgeOf(gen)
	var at bookmark
	open := 0 // reports since a difference was found that is not settled
	for first := true; j != nil && ctx.Err() == nil; first = false {
		var r report
		r, at = n.report(at, first)
		j.hear(self, &r)
		if n.notes.age() >= n.o.DigestInterval && len(n.voters()) > 1 {
			n.mark(gen)
		}
		v, undecided := j.judge(self, n.voters())
		if open++; v.ruling != agrees || undecided == 0 {
			open = 0
		} else if open%openSay == openReports {
			n.o.Logger.Error("the servers hold different data, and too few are there to say who is right: start the others",
				"index", undecided)
		}
		switch v.ruling {
		case deviates:
			n.o.Logger.Error("this server leads, and its data are not those of the majority: handing over", "index", v.index)
			n.handOver()
			n.quarantine(&v, at.epoch)
			return
		case noMajority:
			n.o.Logger.Error("the servers hold different data, and there is no majority", "index", v.index)
			select { // the others are told when they report next
			case <-time.After(reportInterval * 3 / 2):
			case <-n.dead:
			}
			n.fail(v.lost())
			return
		}
		wait.Pause(ctx, reportInterval)
	}
}

// mark puts an entry without commands into the log, after which all note their digests. If
// commands come along it is no mark any more; then the next second brings another one.
func (n *Node) mark(gen uint64) {
	_ = n.queue.push(gen, 0, false, func(b []byte) []byte { return b }) // an error: another leads now
}

// handOver gives the leadership away, if it can.
func (n *Node) handOver() {
	ctx, cancel := context.WithTimeout(context.Background(), 4*electionTimeout)
	defer cancel()
	if err := n.StepDown(ctx); err != nil {
		n.o.Logger.Warn("a server with wrong data still leads; it is tried again", "reason", err)
	}
}

// serveDigest takes the reports of a member while this server leads.
func (n *Node) serveDigest(s *peer.Stream) {
	gen, end, err := n.whileLeading(s)
	if err != nil {
		return
	}
	defer end()
	j := n.judgeOf(gen)
	for first := true; j != nil; first = false {
		message, err := s.Receive()
		if err != nil {
			return
		}
		var r report
		if err := r.decode(message); err != nil {
			n.o.Logger.Warn("the digests of another member are not taken", "member", s.Peer(), "reason", err)
			return
		}
		r.fresh = r.fresh || first
		j.hear(s.Peer(), &r)
		v, _ := j.judge(s.Peer(), n.voters())
		if v.ruling == deviates {
			n.o.Logger.Error("a member holds other data than the majority; it is told to repair itself", "member", s.Peer(),
				"index", v.index, "digest", hex64(v.mine), "of the majority", hex64(v.right))
		}
		if s.Send(v.append(nil)) != nil {
			return
		}
	}
}

func hex64(v uint64) string { return fmt.Sprintf("%016x", v) }

// InQuarantine says whether the data here are known to be wrong, and are being repaired.
func (n *Node) InQuarantine() bool { return n.sickAt.Load() != 0 }

// still says whether nothing may be applied, and no snapshot be taken of what is there.
func (n *Node) still() bool { return n.halted() || n.restarting.Load() || n.InQuarantine() }

// quarantine stops serving and applying, and asks for repair. epoch is that of the notes that
// were found wrong: a machine that has been replaced since is another one.
func (n *Node) quarantine(v *verdict, epoch uint64) {
	n.mu.Lock()
	if _, at := n.notes.since(bookmark{}); at.epoch != epoch || n.still() {
		n.mu.Unlock()
		return
	}
	n.sickAt.Store(max(n.applied.Load(), 1))
	n.o.Observer.Quarantined()
	n.mu.Unlock()
	if err := n.stores.sick.write(n.sickAt.Load()); err != nil {
		n.fail(fmt.Errorf("cannot note durably that the data here are wrong: %w", err))
		return
	}
	n.o.Logger.Error("this server's data are not those of the majority: its clients are sent away until it is repaired",
		"index", v.index, "digest", hex64(v.mine), "of the majority", hex64(v.right), "applied", n.applied.Load())
	select {
	case n.sick <- struct{}{}:
	default:
	}
}
