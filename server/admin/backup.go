package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/internal/httpport"
	"github.com/zkd-project/zkd/internal/wait"
	"github.com/zkd-project/zkd/server/state"
)

// The commands of ZooKeeper 3.9 for backups:
//
//	GET  snapshot[?streaming=false]    the file; its zxid and size are in the header
//	POST restore[?path=P][&into=P]     the body is a file that snapshot has sent
//
// They carry all data with all permissions, so they are for the super user alone: by password, in
// the form of ZooKeeper ("Authorization: digest super:PASSWORD") or of HTTP (Basic), or by
// certificate. That goes in the place of the gate before the other commands. The file has the format
// of zkd. Unlike ZooKeeper's, a restore is for the whole cluster, so it is asked for once.

// The names. They are not in the index, whose links are followed by GET and without a password.
var (
	snapshotNames = []string{"snapshot", "snap"}
	restoreNames  = []string{"restore", "rest"}
)

// Backups is what these commands need of a Source; one that does not have it has no backups.
type Backups interface {
	// SaveBackup opens a snapshot that has everything that was acknowledged before the call.
	SaveBackup(ctx context.Context) (in io.ReadCloser, zxid, size int64, err error)
	// RestoreBackup puts what a backup has at from ("": all) in the place of what is at into
	// ("": where it was). After an error nothing has changed; state.ErrBadBackup says that the
	// backup is to blame, state.ErrRestoring that another restore is under way.
	RestoreBackup(ctx context.Context, asker netip.Addr, in io.Reader, from, into string) (state.Restored, error)
}

const (
	// bodyStall may pass until the next piece of a backup comes.
	bodyStall = 30 * time.Second
	// servingLook is the time between two looks whether a server that makes or restores a backup
	// still serves; after so many in a row at which it did not, that is given up.
	servingLook = time.Second
	looksInVain = 10
)

// A backupGate decides how often backups may be asked for.
type backupGate struct {
	snapshot, restore permit
	look              time.Duration // servingLook, but in tests
}

func newBackupGate(c *config.Config) *backupGate {
	interval := time.Duration(c.Admin.RateLimiterIntervalMs) * time.Millisecond
	return &backupGate{snapshot: permit{interval: interval}, restore: permit{interval: interval}, look: servingLook}
}

// A permit is for one at a time, and one per interval.
type permit struct {
	interval time.Duration

	mu   sync.Mutex
	busy bool      // guarded by mu
	last time.Time // guarded by mu: when the last one that came to something began; zero if none has
}

// take says for how long to wait, 0 if it is now. Then give is to be called.
func (p *permit) take(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.busy {
		return time.Second
	}
	if left := p.interval - now.Sub(p.last); !p.last.IsZero() && left > 0 {
		return left
	}
	p.busy = true
	return 0
}

// give ends a use; one that came to nothing does not count.
func (p *permit) give(began time.Time, counts bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy = false
	if counts {
		p.last = began
	}
}

// isBackup says whether a path is that of one of these commands.
func (h *handler) isBackup(path string) bool {
	name, ok := strings.CutPrefix(path, h.below())
	return ok && (slices.Contains(snapshotNames, name) || slices.Contains(restoreNames, name))
}

// isRestore says whether a path is asked for by POST.
func (h *handler) isRestore(path string) bool {
	name, ok := strings.CutPrefix(path, h.below())
	return ok && slices.Contains(restoreNames, name)
}

// backup answers both commands.
func (h *handler) backup(w http.ResponseWriter, r *http.Request) {
	name, enabled, p, limited := snapshotNames[0], h.commands.config.Admin.SnapshotEnabled, &h.backups.snapshot, &h.commands.stats.SnapshotsRateLimited
	run := h.saveBackup
	if h.isRestore(r.URL.Path) {
		name, enabled, p, limited = restoreNames[0], h.commands.config.Admin.RestoreEnabled, &h.backups.restore, &h.commands.stats.RestoresRateLimited
		run = h.restoreBackup
	}
	status, problem := h.super.refuses(r)
	source, ok := h.commands.source.(Backups)
	switch {
	case problem != "":
	case !enabled:
		status, problem = http.StatusServiceUnavailable, "it is switched off: admin."+name+".enabled=true switches it on"
	case !ok:
		status, problem = http.StatusServiceUnavailable, "this server has no backups"
	case !h.commands.source.Serving():
		status, problem = http.StatusServiceUnavailable, notServing
	}
	if problem == "" {
		began := time.Now()
		wait := p.take(began)
		if wait == 0 {
			httpport.LongAnswer(r.Context())
			p.give(began, run(w, r, source))
			return
		}
		limited.Add(1)
		seconds := int64((wait + time.Second - 1) / time.Second)
		w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
		status, problem = http.StatusTooManyRequests, fmt.Sprintf("one at a time, and one in admin.rateLimiterIntervalInMS: come again in %d s", seconds)
	}
	backupProblem(w, status, name, problem)
}

var errNotServing = errors.New("the server does not serve any more: its cluster has no majority, or it stops")

// whileServing is a context that ends, too, when the server does not serve any more: in a cluster
// that has lost its majority a backup would wait for ever. stop is to be called.
func (h *handler) whileServing(ctx context.Context) (_ context.Context, stop context.CancelFunc) {
	serving := func(context.Context) bool { return h.commands.source.Serving() }
	return wait.WhileAlive(ctx, h.backups.look, looksInVain, serving, errNotServing)
}

// causeOf is why a backup was given up, else err.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errNotServing) {
		return cause
	}
	return err
}

// backupProblem is the answer when there is nothing else to send.
func backupProblem(w http.ResponseWriter, status int, name, problem string) {
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="zkd"`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	o := newObject(w)
	o.str("command", name)
	o.str("error", problem)
	_ = o.finish() // the client is gone
}

// saveBackup says whether a snapshot was on its way.
func (h *handler) saveBackup(w http.ResponseWriter, r *http.Request, source Backups) bool {
	ctx, stop := h.whileServing(r.Context())
	in, zxid, size, err := source.SaveBackup(ctx)
	if err != nil {
		err = causeOf(ctx, err)
	}
	stop()
	if err != nil {
		backupProblem(w, backupStatus(err), snapshotNames[0], err.Error())
		return false
	}
	defer in.Close()
	w.Header().Set("last_zxid", "0x"+hex(zxid))
	w.Header().Set("snapshot_size", strconv.FormatInt(size, 10))
	w.Header().Set("Content-Type", "application/octet-stream")
	if r.URL.Query().Get("streaming") == "false" {
		return true
	}
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	if r.Method == http.MethodHead {
		return true
	}
	_, _ = io.CopyN(w, in, size) // who gets less than the length knows it
	return true
}

// asker is the address that a request comes from.
func asker(r *http.Request) netip.Addr {
	a, _ := netip.ParseAddrPort(r.RemoteAddr)
	return a.Addr().Unmap()
}

// restoreBackup says whether a restore came to something.
func (h *handler) restoreBackup(w http.ResponseWriter, r *http.Request, source Backups) bool {
	name := restoreNames[0]
	if r.ContentLength == 0 {
		backupProblem(w, http.StatusBadRequest, name, "send the backup as the body")
		return false
	}
	control := http.NewResponseController(w)
	q := r.URL.Query()
	began := time.Now()
	ctx, stop := h.whileServing(r.Context())
	defer stop()
	done, err := source.RestoreBackup(ctx, asker(r), &stallingBody{r.Body, control}, q.Get("path"), q.Get("into"))
	if err != nil {
		h.commands.stats.RestoreErrors.Add(1)
		if err = causeOf(ctx, err); errors.Is(err, errNotServing) {
			err = fmt.Errorf("%w; zkd snapshot diff says what became of the restore", err)
		}
		backupProblem(w, backupStatus(err), name, err.Error())
		return false
	}
	h.commands.stats.RestoreTime.Record(int64(time.Since(began)))
	w.Header().Set("Content-Type", "application/json")
	o := newObject(w)
	o.str("last_zxid", "0x"+hex(done.Zxid))
	o.str("path", done.Path)
	integer(o, "created", int64(done.Created))
	integer(o, "changed", int64(done.Changed))
	integer(o, "deleted", int64(done.Deleted))
	integer(o, "ephemerals_kept", int64(done.Kept))
	o.str("command", name)
	o.null("error")
	_ = o.finish() // the client is gone
	return true
}

// backupStatus is the HTTP status for an error.
func backupStatus(err error) int {
	switch {
	case errors.Is(err, state.ErrBadBackup):
		return http.StatusBadRequest
	case errors.Is(err, state.ErrRestoring):
		return http.StatusConflict
	case errors.Is(err, errNotServing):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// A stallingBody lets a body take its time, as long as something comes. When all has come the
// connection is watched for its end alone.
type stallingBody struct {
	in      io.Reader
	control *http.ResponseController
}

func (b *stallingBody) Read(p []byte) (int, error) {
	_ = b.control.SetReadDeadline(time.Now().Add(bodyStall)) // without one the port's own ends it
	n, err := b.in.Read(p)
	if err != nil {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}
