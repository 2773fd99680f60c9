package server

import (
	"context"
	"path/filepath"
	"time"

	"github.com/zkd-project/zkd/internal/vfs"
)

// Before a disk is full, writes are refused while reads and sessions live on, and service comes
// back by itself. A disk that is really full would end the process: what cannot be written must
// not be acknowledged, and a log that could not be written is not to be trusted.
//
// What is refused is what clients write into the tree. Opening, closing and expiring sessions,
// sync and the cluster's own entries take little, and go on: the reserve is for them.
//
// In a cluster the leader decides, since all entries pass it: it tells the others with the answers
// to their reports. A leader whose own disk is short of room hands over first, if there is
// another one that has room.
const (
	reserveLook = 250 * time.Millisecond
	// maxReserve bytes are kept free, or a twentieth of a small disk; of a tiny one minReserve or
	// an eighth, for what is written between two looks does not depend on the disk's size.
	maxReserve = 256 << 20
	minReserve = 32 << 20
	// handOverPause is between two attempts to hand over because of the disk.
	handOverPause = 10 * time.Second
)

// watchDisk runs until ctx ends.
func (s *Server) watchDisk(ctx context.Context) {
	space := s.opts.Space
	if space == nil {
		if s.opts.Memory || s.opts.FS != nil {
			return
		}
		space = vfs.Space
	}
	var handedOver time.Time
	t := time.NewTicker(reserveLook)
	defer t.Stop()
	for {
		short := s.diskIsShort(space)
		if short != s.diskShort.Swap(short) {
			if short {
				s.log.Error("the disk is nearly full: writes are refused until there is room again", "dataDir", s.cfg.DataDir, "dataLogDir", s.cfg.DataLogDir)
			} else {
				s.log.Info("there is room on the disk again")
			}
		}
		if !s.clustered {
			s.refusing.Store(short)
		} else if s.node.Leads() {
			s.refusing.Store(short)
			if short && time.Since(handedOver) > handOverPause {
				handedOver = time.Now()
				s.handOver()
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// reserveOf is what is to stay free of total bytes. It may be less than the log takes at once for a
// new file: that is made shorter then.
func reserveOf(total uint64) uint64 {
	return min(maxReserve, max(total/20, min(minReserve, total/8)))
}

// diskIsShort says whether less than the reserve is free where the data or the log lies. To be
// enough again, it must be a quarter more.
func (s *Server) diskIsShort(space func(string) (uint64, uint64, error)) bool {
	for _, dir := range []string{s.cfg.DataDir, s.cfg.DataLogDir} {
		free, total, err := space(filepath.Clean(dir))
		if err != nil {
			continue // nothing is known
		}
		reserve := reserveOf(total)
		if s.diskShort.Load() {
			reserve += reserve / 4
		}
		if free < reserve {
			return true
		}
	}
	return false
}
