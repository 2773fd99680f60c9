package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/jepsen/netem"
)

const (
	clientPort = "2181"
	peerPort   = "2888"
	device     = "zkd0"
	prefix     = "zkdjepsen-"
)

// netns has every server in a network namespace of its own, and the clients in another one. A
// packet switch in the harness is all that connects them.
type netns struct {
	sw    *netem.Switch
	table *netem.Table
	names []string // by host; 0 is that of the clients
}

// Netns is a Driver that needs root on Linux, ip, nsenter and /dev/net/tun.
func Netns(servers int) (Driver, error) {
	sweep()
	t := netem.NewTable()
	n := &netns{sw: netem.NewSwitch(t), table: t}
	for host := range servers + 1 {
		if err := n.add(host); err != nil {
			return nil, errors.Join(err, n.Close())
		}
	}
	return n, nil
}

func address(host int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 231, 0, byte(100 + host)})
}

// lookAddress is where the harness looks from.
var lookAddress = netip.AddrFrom4([4]byte{10, 231, 0, 99})

// sweep removes the namespaces of harnesses that were killed.
func sweep() {
	out, err := exec.Command("ip", "netns", "list").Output()
	if err != nil {
		return
	}
	for line := range strings.Lines(string(out)) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		of, ok := strings.CutPrefix(name, prefix)
		if !ok {
			continue
		}
		pid, _, _ := strings.Cut(of, "-")
		if _, err := strconv.Atoi(pid); err != nil {
			continue
		}
		if _, err := os.Stat("/proc/" + pid); errors.Is(err, os.ErrNotExist) {
			_ = exec.Command("ip", "netns", "del", name).Run()
		}
	}
}

func ip(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// number tells apart the clusters of one harness.
var number = 0

func (n *netns) add(host int) error {
	if host == 0 {
		number++
	}
	name := fmt.Sprintf("%s%d-%d-%d", prefix, os.Getpid(), number, host)
	if err := ip("netns", "add", name); err != nil {
		return err
	}
	n.names = append(n.names, name)
	var dev *os.File
	err := netem.In(name, func() (err error) {
		dev, err = netem.OpenTUN(device)
		return err
	})
	if err != nil {
		return err
	}
	free := netip.Addr{}
	if host == netem.Clients {
		free = lookAddress
	}
	n.sw.Add(dev, host, address(host), free)
	lines := [][]string{
		{"link", "set", "lo", "up"},
		{"addr", "add", address(host).String() + "/24", "dev", device},
		{"link", "set", device, "mtu", "9000", "up"},
	}
	if free.IsValid() {
		lines = append(lines, []string{"addr", "add", free.String() + "/24", "dev", device})
	}
	for _, l := range lines {
		if err := ip(append([]string{"-n", name}, l...)...); err != nil {
			return err
		}
	}
	return nil
}

func (n *netns) Name() string { return "netns" }

func (n *netns) Listen(server int) (client, peer string) {
	return address(server).String() + ":" + clientPort, address(server).String() + ":" + peerPort
}

func (n *netns) PeerAddr(_, to int) string { return address(to).String() + ":" + peerPort }

// Command enters the namespace of the network alone: file systems stay those of the harness.
func (n *netns) Command(server int, args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"--net=/run/netns/" + n.names[server], "--"}, args...)...)
}

func (n *netns) Dial(ctx context.Context, server int) (net.Conn, error) {
	to, _ := n.Listen(server)
	return n.dialFrom(ctx, address(netem.Clients), to)
}

func (n *netns) DialPeer(ctx context.Context, server int) (net.Conn, error) {
	_, to := n.Listen(server)
	return n.dialFrom(ctx, address(netem.Clients), to)
}

func (n *netns) Look(ctx context.Context, server int) (net.Conn, error) {
	to, _ := n.Listen(server)
	return n.dialFrom(ctx, lookAddress, to)
}

func (n *netns) dialFrom(ctx context.Context, from netip.Addr, to string) (nc net.Conn, err error) {
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
	// A socket belongs to the namespace in which it was made, for good.
	err = netem.In(n.names[netem.Clients], func() (err error) {
		nc, err = d.DialContext(ctx, "tcp", to)
		return err
	})
	return nc, err
}

func (n *netns) Table() *netem.Table   { return n.table }
func (n *netns) Cut(a, b int)          { n.sw.Cut(a, b) }
func (n *netns) Up(int) error          { return nil }
func (n *netns) Down(int)              {}
func (n *netns) Carried(a, b int) bool { return n.sw.Carried(a, b) > 0 }
func (n *netns) Lossy() bool           { return true }

func (n *netns) Close() error {
	err := n.sw.Close()
	for _, name := range n.names {
		err = errors.Join(err, ip("netns", "del", name))
	}
	return err
}
