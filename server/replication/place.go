package replication

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"github.com/zkd-project/zkd/server/ensemble"
	"github.com/zkd-project/zkd/server/replication/peer"
)

// Where the members are. Two things say so: what the cluster has agreed on, which began as the
// server lines of its first leader, and the server lines of the one that asks.
//
// A server may have 0.0.0.0 in its own line, as ZooKeeper allows: there it says where to listen,
// and the lines of the others say where to find it. So a first leader with such a line asks the
// others how they call it before its lines become what is agreed on:
//
//	leader → member   1 byte: a number
//	answer            the text of that server's line there, "" if there is none
const maxPlaceText = 16 << 10

// placesOf joins the two, in the order in which they are dialed: what the line here says, as in
// ZooKeeper while nobody uses reconfig, because networks may look different from each server, and
// servers may move by an edit of the lines alone; and behind it what is agreed on, because only
// that follows a reconfig. Whoever answers at an old place is not taken for the member, for it has
// another name, and the address that worked goes first from then on.
func placesOf(line, agreed []string) []string {
	var all, listened []string
	for _, a := range slices.Concat(line, agreed) {
		switch {
		case slices.Contains(all, a) || slices.Contains(listened, a):
		case nowhere(a):
			listened = append(listened, a)
		default:
			all = append(all, a)
		}
	}
	if all == nil {
		return listened // which do where all servers are on one machine
	}
	return all
}

// nowhere says whether an address is one to listen at only.
func nowhere(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

// addresses are those at which a member is dialed.
func addresses(m *ensemble.Member) []string {
	var all []string
	for _, p := range m.Peers {
		all = append(all, net.JoinHostPort(p.Host, strconv.Itoa(p.Port)))
	}
	return all
}

// lineOf is what the server lines here say about a member.
func (n *Node) lineOf(number int) []string {
	for _, m := range n.o.Cluster.Members {
		if m.Number == number {
			return append([]string{m.Address}, m.More...)
		}
	}
	return nil
}

// firstEnsemble is the configuration with which this server, as its first leader, has the
// cluster begin. It blocks for meetTimeout at most, and only where its own line says 0.0.0.0.
func (n *Node) firstEnsemble() string {
	c, err := ensemble.Parse(n.o.Ensemble)
	if err != nil || n.peers == nil {
		return n.o.Ensemble
	}
	self := c.Member(n.o.MyID)
	if self == nil || !slices.ContainsFunc(addresses(self), nowhere) {
		return n.o.Ensemble
	}
	at, err := n.askPlace()
	if err != nil {
		n.o.Logger.Warn("no other server says where this one is: /zookeeper/config has its own line", "line", self.String(), "reason", err)
		return n.o.Ensemble
	}
	self.Peers = at
	if err := c.Check(); err != nil {
		n.o.Logger.Warn("the other servers do not agree on where this one is: /zookeeper/config has its own line", "reason", err)
		return n.o.Ensemble
	}
	return c.String()
}

// askPlace asks the other voters where this server is.
func (n *Node) askPlace() ([]ensemble.PeerAddress, error) {
	whole, stop := n.until(n.halt)
	defer stop()
	ctx, cancel := context.WithTimeout(whole, meetTimeout)
	defer cancel()
	type answer struct {
		at  []ensemble.PeerAddress
		err error
	}
	answers := make(chan answer, len(n.voters()))
	asked := 0
	for _, id := range n.voters() {
		if id == n.stores.id.serverID() {
			continue
		}
		asked++
		go func() {
			var a answer
			a.err = n.withStream(ctx, id, kindPlace, func(s *peer.Stream) (err error) {
				if err = s.Send([]byte{byte(n.o.MyID)}); err != nil {
					return err
				}
				text, err := s.Receive()
				if err == nil {
					a.at, err = decodePlace(n.o.MyID, text)
				}
				return err
			})
			answers <- a
		}()
	}
	err := errors.New("there is no other voter")
	for range asked {
		a := <-answers
		if a.err == nil {
			return a.at, nil
		}
		err = a.err
	}
	return nil, err
}

// decodePlace reads what another server says about where this one is.
func decodePlace(number int, b []byte) ([]ensemble.PeerAddress, error) {
	if len(b) > maxPlaceText {
		return nil, fmt.Errorf("the answer has %d bytes", len(b))
	}
	m, err := ensemble.ParseMember(number, string(b))
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(addresses(&m), nowhere) {
		return nil, fmt.Errorf("the line of another server names no host either: %q", b)
	}
	return m.Peers, nil
}

// servePlace tells another server how its line reads here.
func (n *Node) servePlace(s *peer.Stream) {
	request, err := s.Receive()
	if err != nil || len(request) != 1 {
		return
	}
	var text string
	if c, err := ensemble.Parse(n.o.Ensemble); err == nil {
		if m := c.Member(int(request[0])); m != nil {
			text = m.String()
		}
	}
	_ = s.Send([]byte(text)) // else the other side sees a broken stream
}
