package metrics

import (
	"runtime"
	"time"

	"github.com/zkd-project/zkd/internal/version"
	"github.com/zkd-project/zkd/server/fourletter"
)

// A Source is what is shown of a server beside its stats. Its methods must not block.
type Source interface {
	Serving() bool
	Status() fourletter.Status
	DirSizes() (dataBytes, logBytes int64)
	LastSnapshot() (zxid int64, at time.Time, ok bool)
}

var modes = []string{
	fourletter.ModeStandalone, fourletter.ModeLeader, fourletter.ModeFollower, fourletter.ModeObserver, fourletter.ModeReadOnly,
}

// appendOwn appends what ZooKeeper has no metric for.
func appendOwn(t *text, s Source) {
	v := version.Get()
	t.single("zkd_build_info", "where the binary comes from", "gauge", 1,
		label{"version", v.Release}, label{"revision", v.Commit}, label{"goversion", runtime.Version()})
	serving := s.Serving()
	t.single("zkd_serving", "1 while clients are served", "gauge", bit(serving))
	mode := ""
	if serving {
		mode = s.Status().Mode
	}
	t.header("zkd_server_state", "1 for the state that the server is in, none while it does not serve", "gauge")
	for _, m := range modes {
		t.sample("zkd_server_state", bit(m == mode), label{"state", m})
	}
	dataBytes, logBytes := s.DirSizes()
	t.single("zkd_data_dir_bytes", "bytes of the snapshots", "gauge", float64(dataBytes))
	t.single("zkd_log_dir_bytes", "bytes of the log", "gauge", float64(logBytes))
	if _, at, ok := s.LastSnapshot(); ok {
		t.single("zkd_last_snapshot_timestamp_seconds", "when the newest snapshot was taken, since 1970", "gauge", float64(at.Unix()))
	}
}

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
