package replication

import (
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/state"
)

// LoadDir is CheckDir for who wants the machine, too: that of the newest snapshot with all of
// the log applied. The machine is the caller's.
func LoadDir(dir, logDir string, progress func(string)) (*state.Machine, Report, error) {
	if logDir == "" {
		logDir = dir
	}
	if progress == nil {
		progress = func(string) {}
	}
	c := &checker{fs: vfs.OS, dir: dir, logDir: logDir, say: progress}
	if err := c.run(); err != nil {
		return nil, Report{}, err
	}
	return c.m, c.report, nil
}
