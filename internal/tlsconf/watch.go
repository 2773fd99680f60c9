package tlsconf

import (
	"log/slog"
	"os"
	"slices"
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

	mu     sync.Mutex    // held while the files are read: one reader is enough
	stamps []os.FileInfo // guarded by mu; of the files as they were last tried
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
	if sameStamps(w.stamps, stampAll(w.files())) {
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

// stampAll tells what files were there and of which state; nil is one that is missing.
func stampAll(names []string) []os.FileInfo {
	stamps := make([]os.FileInfo, len(names))
	for i, name := range names {
		if info, err := os.Stat(name); err == nil {
			stamps[i] = info
		}
	}
	return stamps
}

// sameStamps says that nothing has changed. The time alone does not tell: file systems count it in
// milliseconds, and a certificate that takes another's place is often of its size.
func sameStamps(a, b []os.FileInfo) bool {
	return slices.EqualFunc(a, b, func(x, y os.FileInfo) bool {
		if x == nil || y == nil {
			return x == nil && y == nil
		}
		return os.SameFile(x, y) && x.Size() == y.Size() && x.ModTime().Equal(y.ModTime())
	})
}
