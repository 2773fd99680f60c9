package netem

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A Switch carries IP packets between network namespaces, through a TUN device in each.
//
// Invariant: a packet whose source or destination the Switch does not know goes nowhere.
type Switch struct {
	t    *Table
	wg   sync.WaitGroup
	stop atomic.Bool

	mu      sync.Mutex
	ports   map[netip.Addr]*port     // guarded by mu
	flows   map[flow]*edge           // guarded by mu: TCP connections, by direction
	carried map[[2]int]*atomic.Int64 // guarded by mu
}

// port is one address of a device.
type port struct {
	host int
	free bool // no fault touches what comes from or goes to this address
	dev  *os.File
}

// flow is one direction of a TCP connection.
type flow struct{ src, dst netip.AddrPort }

// edge is what resets need to know of a flow.
type edge struct {
	ack  uint32 // of the newest packet: what its sender expects next
	seen time.Time
}

const (
	maxPacket = 65535
	// flowIdle is after how long a connection is forgotten.
	flowIdle = time.Minute
)

// NewSwitch carries nothing until devices are added.
func NewSwitch(t *Table) *Switch {
	return &Switch{t: t, ports: map[netip.Addr]*port{}, flows: map[flow]*edge{}, carried: map[[2]int]*atomic.Int64{}}
}

// Add takes a TUN device of a host, which has the address and, where free is valid, another
// one that faults do not touch.
func (s *Switch) Add(dev *os.File, host int, addr, free netip.Addr) {
	s.mu.Lock()
	s.ports[addr] = &port{host: host, dev: dev}
	if free.IsValid() {
		s.ports[free] = &port{host: host, free: true, dev: dev}
	}
	s.mu.Unlock()
	s.wg.Go(func() { s.read(dev) })
}

// Close ends all devices.
func (s *Switch) Close() error {
	s.stop.Store(true)
	s.mu.Lock()
	var err error
	for _, p := range s.ports {
		if e := p.dev.Close(); e != nil && !errors.Is(e, os.ErrClosed) {
			err = errors.Join(err, e)
		}
	}
	s.mu.Unlock()
	s.wg.Wait()
	return err
}

// Carried is how many packets have passed between two hosts.
func (s *Switch) Carried(a, b int) int64 { return s.count(a, b).Load() + s.count(b, a).Load() }

func (s *Switch) count(src, dst int) *atomic.Int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.carried[[2]int{src, dst}]
	if c == nil {
		c = &atomic.Int64{}
		s.carried[[2]int{src, dst}] = c
	}
	return c
}

func (s *Switch) read(dev *os.File) {
	buf := make([]byte, maxPacket)
	for {
		n, err := dev.Read(buf)
		if err != nil {
			return
		}
		s.pass(buf[:n])
	}
}

// pass forwards a packet, or not. The packet is the caller's again afterwards.
func (s *Switch) pass(b []byte) {
	if len(b) < 20 || b[0]>>4 != 4 {
		return
	}
	src, dst := netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
	s.mu.Lock()
	from, to := s.ports[src], s.ports[dst]
	s.mu.Unlock()
	if from == nil || to == nil {
		return
	}
	if from.free || to.free {
		_, _ = to.dev.Write(b)
		return
	}
	l, _ := s.t.Get(from.host, to.host)
	if l.Blocked || (l.Loss > 0 && rand.Float64() < l.Loss) {
		return
	}
	s.note(b)
	times := 1
	if l.Double > 0 && rand.Float64() < l.Double {
		times = 2
	}
	for range times {
		wait := l.Delay
		if l.Jitter > 0 {
			wait += rand.N(l.Jitter)
		}
		if l.Rate > 0 {
			turn, full := s.t.queue(from.host, to.host, len(b), l.Rate, lineQueue)
			if full {
				continue
			}
			wait += turn
		}
		s.count(from.host, to.host).Add(1)
		if wait == 0 {
			_, _ = to.dev.Write(b)
			continue
		}
		late := append([]byte(nil), b...)
		time.AfterFunc(wait, func() {
			if !s.stop.Load() {
				_, _ = to.dev.Write(late)
			}
		})
	}
}

// tcpOf finds the TCP header of a packet; nil if it has none.
func tcpOf(b []byte) []byte {
	head := int(b[0]&15) * 4
	if b[9] != unix.IPPROTO_TCP || len(b) < head+20 {
		return nil
	}
	return b[head:]
}

// note remembers what a reset of the connection needs.
func (s *Switch) note(b []byte) {
	tcp := tcpOf(b)
	if tcp == nil {
		return
	}
	f := flow{
		netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[12:16])), binary.BigEndian.Uint16(tcp)),
		netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[16:20])), binary.BigEndian.Uint16(tcp[2:])),
	}
	const finOrReset = 0x05
	s.mu.Lock()
	defer s.mu.Unlock()
	if tcp[13]&finOrReset != 0 {
		delete(s.flows, f)
		return
	}
	s.flows[f] = &edge{ack: binary.BigEndian.Uint32(tcp[8:]), seen: time.Now()}
}

// Cut resets the connections between two hosts: each side gets a reset that seems to come from
// the other one.
func (s *Switch) Cut(a, b int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for f, e := range s.flows {
		from, to := s.ports[f.src.Addr()], s.ports[f.dst.Addr()]
		if from == nil || to == nil || time.Since(e.seen) > flowIdle {
			delete(s.flows, f)
			continue
		}
		if (from.host == a && to.host == b) || (from.host == b && to.host == a) {
			// The sender of the flow believes a reset whose number it expects next.
			_, _ = from.dev.Write(reset(f.dst, f.src, e.ack))
			delete(s.flows, f)
		}
	}
}

// reset makes a packet that ends a connection at dst.
func reset(src, dst netip.AddrPort, seq uint32) []byte {
	b := make([]byte, 40)
	b[0], b[8], b[9] = 0x45, 64, unix.IPPROTO_TCP
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	from, to := src.Addr().As4(), dst.Addr().As4()
	copy(b[12:], from[:])
	copy(b[16:], to[:])
	binary.BigEndian.PutUint16(b[10:], checksum(b[:20], 0))
	tcp := b[20:]
	binary.BigEndian.PutUint16(tcp, src.Port())
	binary.BigEndian.PutUint16(tcp[2:], dst.Port())
	binary.BigEndian.PutUint32(tcp[4:], seq)
	tcp[12], tcp[13] = 5<<4, 0x04
	pseudo := append(append([]byte(nil), b[12:20]...), 0, unix.IPPROTO_TCP, 0, byte(len(tcp)))
	binary.BigEndian.PutUint16(tcp[16:], checksum(tcp, sum(pseudo, 0)))
	return b
}

// sum adds 16-bit words, for checksum.
func sum(b []byte, start uint32) uint32 {
	for i := 0; i+1 < len(b); i += 2 {
		start += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	return start
}

// checksum is that of RFC 1071, over an even number of bytes.
func checksum(b []byte, start uint32) uint16 {
	s := sum(b, start)
	for s>>16 != 0 {
		s = s&0xffff + s>>16
	}
	return ^uint16(s)
}

// In runs f on a thread that is in the network namespace of the name.
func In(name string, f func() error) error {
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer home.Close()
	there, err := os.Open("/run/netns/" + name)
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer there.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("cannot enter the network namespace %s: %w", name, err)
	}
	err = f()
	if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
		// The thread stays locked: it must not run anything else.
		return errors.Join(err, fmt.Errorf("cannot leave the network namespace %s: %w", name, back))
	}
	runtime.UnlockOSThread()
	return err
}

// OpenTUN makes a TUN device in the namespace that the thread is in.
func OpenTUN(device string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("/dev/net/tun: %w", err)
	}
	ifr, err := unix.NewIfreq(device)
	if err == nil {
		ifr.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("a TUN device: %w", err)
	}
	return os.NewFile(uintptr(fd), device), nil
}
