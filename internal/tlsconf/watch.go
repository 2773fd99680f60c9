package tlsconf

import (
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/config"
)

// pollInterval is how often handshakes look at the files at most.
const pollInterval = time.Second

// A watcher reads the files of a side again when they have changed.
type watcher struct {
	side *config.TLS
	log  *slog.Logger
	now  func() time.Time
	// load reads the files and takes what they say into use, or leaves all as it was and
	// says why. Set before the first use; called with mu held.
	load func() error

	lastPoll atomic.Int64 // Unix nanoseconds

	mu     sync.Mutex // held while the files are read: one reader is enough
	stamps []stamp    // guarded by mu; of the files as they were last tried
}

// read reads the files now.
func (w *watcher) read() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.readLocked()
}

// readLocked takes the stamps before the files are read: a change while they are read makes
// the next poll read them again. They are kept also after an error, so that it is logged once
// and not every second.
func (w *watcher) readLocked() error {
	w.stamps = stampAll(w.files())
	return w.load()
}

// poll reads the files if they have changed. Handshakes that find another at it go on with
// what there is.
func (w *watcher) poll() {
	now, last := w.now().UnixNano(), w.lastPoll.Load()
	if !w.side.Reload || now-last < int64(pollInterval) || !w.lastPoll.CompareAndSwap(last, now) || !w.mu.TryLock() {
		return
	}
	defer w.mu.Unlock()
	if stampsEqual(w.stamps, stampAll(w.files())) {
		return
	}
	if err := w.readLocked(); err != nil {
		w.log.Error("changed TLS files cannot be used, the old ones stay in use", "error", err)
	}
}

// files are those that the configuration is made of.
func (w *watcher) files() []string {
	var names []string
	for _, s := range []*config.Store{&w.side.KeyStore, &w.side.TrustStore} {
		for _, name := range []string{s.Location, s.PasswordPath} {
			if name != "" {
				names = append(names, name)
			}
		}
	}
	return names
}

// A stamp tells whether a file has changed. A file that is missing has the zero stamp.
type stamp struct {
	modified time.Time
	size     int64
}

func stampAll(names []string) []stamp {
	stamps := make([]stamp, len(names))
	for i, name := range names {
		if info, err := os.Stat(name); err == nil {
			stamps[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	return stamps
}

func stampsEqual(a, b []stamp) bool {
	for i := range a {
		if a[i].size != b[i].size || !a[i].modified.Equal(b[i].modified) {
			return false
		}
	}
	return true
}
