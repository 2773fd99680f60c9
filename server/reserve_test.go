package server

import (
	"sync/atomic"
	"testing"

	"github.com/zkd-project/zkd/wire"
)

func TestWritesAreRefusedBeforeTheDiskIsFull(t *testing.T) {
	const total = 10 << 30
	var free, looks atomic.Uint64
	free.Store(total)
	s := startServer(t, func(s *setup) {
		s.options.Space = func(string) (uint64, uint64, error) {
			looks.Add(1)
			return free.Load(), total, nil
		}
	})
	c := open(t, s.addr, 20000)
	c.call(wire.OpCreate, createBody("/n", nil, 0), wire.OK)
	try := func() wire.Code {
		c.send(wire.OpSetData, setBody("/n", "x"))
		return c.next().Err
	}
	free.Store(100 << 20)
	eventually(t, "writes are refused", func() bool { return try() == wire.SystemError })
	// Reads, sessions and sync live on.
	c.call(wire.OpGetData, readBody("/n", false), wire.OK)
	c.call(wire.OpSync, pathBody("/"), wire.OK)
	open(t, s.addr, 20000).call(wire.OpCloseSession, nil, wire.OK)

	free.Store(maxReserve + maxReserve/8) // more than the reserve, and not enough to be at ease
	at := looks.Load()
	eventually(t, "the disk is looked at again", func() bool { return looks.Load() > at+4 })
	if got := try(); got != wire.SystemError {
		t.Errorf("%v on the brink of the reserve", got)
	}
	free.Store(total)
	eventually(t, "service comes back", func() bool { return try() == wire.OK })
}

func TestReserveIsATwentiethWithinBounds(t *testing.T) {
	const mega = 1 << 20
	for total, want := range map[uint64]uint64{
		0: 0, 80 * mega: 10 * mega, 200 * mega: 25 * mega, 256 * mega: 32 * mega, 512 * mega: 32 * mega,
		640 * mega: 32 * mega, 1000 * mega: 50 * mega, 2000 * mega: 100 * mega, 1 << 40: 256 * mega,
	} {
		if got := reserveOf(total); got != want {
			t.Errorf("of %d MiB %d bytes stay free, want %d", total/mega, got, want)
		}
	}
}
