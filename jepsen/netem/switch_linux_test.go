package netem

import (
	"encoding/binary"
	"net/netip"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// wires gives a switch two hosts, 1 and 2, whose devices are pipes.
func wires(t *testing.T) (s *Switch, table *Table, from, to *os.File) {
	t.Helper()
	table = NewTable()
	s = NewSwitch(table)
	ends := make([]*os.File, 2)
	for i := range ends {
		in, err := os.CreateTemp(t.TempDir(), "device")
		require.NoError(t, err)
		ends[i] = in
		s.mu.Lock()
		s.ports[netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)})] = &port{host: i + 1, dev: in}
		s.mu.Unlock()
	}
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s, table, ends[0], ends[1]
}

func size(t *testing.T, f *os.File) int64 {
	t.Helper()
	i, err := f.Stat()
	require.NoError(t, err)
	return i.Size()
}

func packet() []byte {
	a, b := netip.MustParseAddrPort("10.0.0.1:1000"), netip.MustParseAddrPort("10.0.0.2:2000")
	p := reset(a, b, 77)
	p[33] = 0x10 // an acknowledgement
	binary.BigEndian.PutUint32(p[28:], 99)
	return p
}

func TestSwitchForwardsAndBlocks(t *testing.T) {
	s, table, from, to := wires(t)
	p := packet()
	s.pass(p)
	require.Equal(t, int64(len(p)), size(t, to))
	require.Zero(t, size(t, from))
	require.Equal(t, int64(1), s.Carried(1, 2))
	table.OneWay(1, 2)
	s.pass(p)
	require.Equal(t, int64(len(p)), size(t, to))
	table.Heal()
	table.Set(1, 2, Link{Loss: 1})
	s.pass(p)
	require.Equal(t, int64(len(p)), size(t, to))
	table.Set(1, 2, Link{Double: 1})
	s.pass(p)
	require.Equal(t, int64(3*len(p)), size(t, to))
	table.Set(1, 2, Link{Delay: time.Millisecond})
	s.pass(p)
	require.Eventually(t, func() bool { return size(t, to) == int64(4*len(p)) }, long, time.Millisecond)
	p[19] = 9 // to a host that nobody knows
	s.pass(p)
	s.pass(p[:7])
	require.Equal(t, int64(4*len(p)), size(t, to))
}

// Packets take turns on a narrow link, and those that would wait for long are lost.
func TestSwitchIsNarrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, table, _, to := wires(t)
		p := packet()
		table.Set(1, 2, Link{Rate: 10 * len(p)}) // a packet in a tenth of a second
		for range 10 {
			s.pass(p)
		}
		for i := range 3 {
			require.Equal(t, int64(i*len(p)), size(t, to))
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, int64(3*len(p)), size(t, to), "one under way, two that wait")
		table.Heal()
		s.pass(p)
		require.Equal(t, int64(4*len(p)), size(t, to))
	})
}

// The receiver of a reset believes it only with the number that it expects next.
func TestSwitchResetsConnections(t *testing.T) {
	s, _, from, to := wires(t)
	s.pass(packet())
	before := size(t, to)
	s.Cut(2, 1)
	require.Equal(t, before, size(t, to), "only the sender of what was seen can be told")
	b := make([]byte, 40)
	_, err := from.ReadAt(b, 0)
	require.NoError(t, err)
	require.Equal(t, uint32(99), binary.BigEndian.Uint32(b[24:]))
	require.Equal(t, byte(0x04), b[33])
	require.Equal(t, netip.AddrFrom4([4]byte(b[12:16])).String(), "10.0.0.2")
	require.Zero(t, checksum(b[:20], 0), "the checksum of the header")
	s.Cut(1, 2)
	require.Equal(t, int64(40), size(t, from), "it is over already")
}
