package peer

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/hashicorp/raft"
)

// The handshake. Who dials says all it has to say at once, and nothing more before the
// answer:
//
//	8 bytes "zkd/peer"   frame hello           →
//	                     ←   frame welcome, or frame refusal and the end
//
// The magic, the head of a frame and the fields of hello up to the nonce never change, so
// that versions can tell each other that they do not understand each other. With TLS, both
// certificates are verified before; the member id that the hello names must be in that of
// its sender, and who dials has compared the other one by then.
const magic = "zkd/peer"

// A RefusalCode says why a member refused a connection.
type RefusalCode uint8

// The codes. Their numbers are part of the protocol.
const (
	RefusedVersion RefusalCode = 1 // no protocol version in common
	RefusedCluster RefusalCode = 2 // another cluster
	RefusedTarget  RefusalCode = 3 // meant for another ServerID: another member, or a wiped disk
	RefusedMember  RefusalCode = 4 // the sender may not, by its certificate or by Options.Admit
	RefusedBusy    RefusalCode = 5 // too many connections
	RefusedKind    RefusalCode = 6 // nobody takes streams of this kind
)

// A RefusedError is returned when another member has answered a dial with a refusal.
type RefusedError struct {
	Code   RefusalCode
	Boot   uint64 // nonce of the process that refused; 0 if it took us for a stranger
	Reason string
}

func (e *RefusedError) Error() string { return "the other member refused: " + e.Reason }

func refuse(code RefusalCode, format string, args ...any) *RefusedError {
	return &RefusedError{Code: code, Reason: fmt.Sprintf(format, args...)}
}

// dial opens a connection to a member: one attempt. Whoever reads from it must drop it at the
// end.
func (t *Transport) dial(ctx context.Context, id raft.ServerID, kind Kind) (*conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()

	raw, err := t.reach(ctx, id)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	c, err := t.greet(ctx, raw, id, kind)
	if !stop() {
		err = errors.Join(err, context.Cause(ctx))
	}
	if err != nil {
		raw.Close()
		return nil, fmt.Errorf("handshake with member %s at %s: %w", id, raw.RemoteAddr(), err)
	}
	t.met(c)
	if !t.keep(c) {
		c.end(ErrClosed, true)
		return nil, ErrClosed
	}
	return c, nil
}

// reach opens a connection to where a member is, without a handshake.
func (t *Transport) reach(ctx context.Context, id raft.ServerID) (net.Conn, error) {
	addresses, err := t.o.Resolve(id)
	if err != nil {
		return nil, fmt.Errorf("cannot find the address of member %s: %w", id, err)
	}
	if last, ok := t.reached.Load(id); ok { // the one that answered last goes first
		if i := slices.Index(addresses, last.(string)); i > 0 {
			addresses = append(slices.Clone(addresses[i:]), addresses[:i]...)
		}
	}
	var failure error
	for _, address := range addresses {
		raw, err := t.reachAt(ctx, address)
		if err == nil {
			if len(addresses) > 1 {
				t.reached.Store(id, address)
			}
			return raw, nil
		}
		// That it was refused must be true of all: by that a dead process is told.
		if failure == nil || isRefused(failure) && !isRefused(err) {
			failure = fmt.Errorf("cannot reach member %s at %s: %w", id, address, err)
		}
	}
	return nil, failure
}

func (t *Transport) reachAt(ctx context.Context, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, t.o.DialTimeout)
	defer cancel()
	return t.o.Network.Dial(ctx, address)
}

// greet is the handshake of the side that dialed.
func (t *Transport) greet(ctx context.Context, raw net.Conn, id raft.ServerID, kind Kind) (*conn, error) {
	f, body, nc, err := t.hail(ctx, raw, id, kind)
	if err != nil {
		return nil, err
	}
	if f == frameRefusal {
		refusal, err := decodeRefusal(body)
		if err != nil {
			return nil, err
		}
		return nil, refusal
	}
	if f != frameWelcome {
		return nil, errForeignFrame
	}
	w, err := decodeWelcome(body)
	if err != nil {
		return nil, err
	}
	if w.version < oldestVersion || w.version > protocolVersion {
		return nil, fmt.Errorf("the other member answered in version %d of the protocol: %w", w.version, errFormat)
	}
	return newConn(nc, raw, id, w.boot, kind), raw.SetDeadline(time.Time{})
}

// hail says hello and reads the answer. nc is what to speak on: raw, or TLS over it.
func (t *Transport) hail(ctx context.Context, raw net.Conn, id raft.ServerID, kind Kind) (frameType, []byte, net.Conn, error) {
	if err := raw.SetDeadline(time.Now().Add(t.o.HandshakeTimeout)); err != nil {
		return 0, nil, nil, err
	}
	nc := raw
	if t.o.TLS != nil {
		secure := tls.Client(raw, t.clientTLS(id))
		if err := secure.HandshakeContext(ctx); err != nil {
			return 0, nil, nil, err
		}
		nc = secure
	}
	h := hello{
		newest: protocolVersion, oldest: oldestVersion, kind: kind,
		boot: t.o.Boot, cluster: t.clusterName(), from: t.o.ID, to: id,
	}
	first := appendFrame([]byte(magic), frameHello, func(b []byte) []byte { return appendHello(b, &h) })
	if _, err := nc.Write(first); err != nil {
		return 0, nil, nil, err
	}
	f, body, err := readPlain(nc, acceptHelloAnswer)
	return f, body, nc, err
}

// readPlain reads one frame without buffering, as long as nobody is known and no memory is
// spent on anybody.
func readPlain(r io.Reader, accept acceptor) (frameType, []byte, error) {
	f := frameReader{r: r}
	return f.next(accept, nil)
}

// receive is the handshake of the side that accepted. The connection it returns is entered
// with its peer, and must be taken out by leave.
func (t *Transport) receive(raw net.Conn) (*conn, *peer, error) {
	if err := raw.SetDeadline(time.Now().Add(t.o.HandshakeTimeout)); err != nil {
		return nil, nil, err
	}
	nc := raw
	var secure *tls.Conn
	if t.o.TLS != nil {
		secure = tls.Server(raw, t.serverTLS())
		if err := secure.HandshakeContext(t.ctx); err != nil {
			return nil, nil, err
		}
		nc = secure
	}
	h, err := readHello(nc)
	if err != nil {
		return nil, nil, err
	}
	c := newConn(nc, raw, h.from, h.boot, h.kind)
	p, refusal := t.judge(&h, secure, c)
	if refusal == nil && h.kind == KindMeet {
		if err := t.introduce(nc); err != nil {
			return nil, nil, err
		}
		return nil, nil, errMet
	}
	if refusal != nil {
		t.counters.refused.Add(1)
		_, _ = nc.Write(appendFrame(nil, frameRefusal, func(b []byte) []byte { return appendRefusal(b, refusal) }))
		return nil, nil, fmt.Errorf("refused member %q, which dialed from %s: %w", h.from, raw.RemoteAddr(), refusal)
	}
	w := welcome{version: min(h.newest, protocolVersion), boot: t.o.Boot}
	_, err = nc.Write(appendFrame(nil, frameWelcome, func(b []byte) []byte { return appendWelcome(b, w) }))
	if err == nil {
		err = raw.SetDeadline(time.Time{})
	}
	if err != nil {
		p.leave(c)
		return nil, nil, err
	}
	return c, p, nil
}

// readHello reads what opens a connection. The magic and the head come first: what is no
// member of any cluster is gone after 20 bytes, and nothing was allocated for it but these.
func readHello(r io.Reader) (hello, error) {
	var first [len(magic) + headerBytes]byte
	if _, err := io.ReadFull(r, first[:]); err != nil {
		return hello{}, err
	}
	if string(first[:len(magic)]) != magic {
		return hello{}, errMagic
	}
	head := first[len(magic):]
	_, n, err := parseHead(head, acceptHello)
	if err != nil {
		return hello{}, err
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return hello{}, err
	}
	if frameSum(head[:8], body) != binary.BigEndian.Uint32(head[8:]) {
		return hello{}, errChecksum
	}
	return decodeHello(body)
}

// errMet ends a connection that was for an introduction.
var errMet = fmt.Errorf("introduced: %w", io.EOF)

var errMagic = errors.New("no member of a zkd cluster")

// judge decides about a hello. Strangers learn neither who this is nor which process.
func (t *Transport) judge(h *hello, secure *tls.Conn, c *conn) (*peer, *RefusedError) {
	switch {
	case h.newest < oldestVersion || h.oldest > protocolVersion:
		return nil, refuse(RefusedVersion, "this member speaks versions %d to %d of the protocol, not %d to %d",
			oldestVersion, protocolVersion, h.oldest, h.newest)
	case h.kind == KindMeet:
		if h.to != Anybody(Number(t.o.ID)) {
			return nil, refuse(RefusedTarget, "this is not server %s", h.to)
		}
	case h.cluster != t.clusterName():
		return nil, refuse(RefusedCluster, "this member belongs to another cluster")
	case h.cluster == "":
		return nil, refuse(RefusedCluster, "this member belongs to no cluster yet")
	case h.to != t.o.ID:
		return nil, refuse(RefusedTarget, "this is not member %s: it is another one, or has lost its data since", h.to)
	case h.from == t.o.ID:
		return nil, refuse(RefusedMember, "this member has the same id, %s: two servers must not share a data directory", h.from)
	}
	if secure != nil {
		if err := t.o.VerifyMember(h.from, secure.ConnectionState().PeerCertificates[0]); err != nil {
			return nil, refuse(RefusedMember, "%v", err)
		}
	}
	if h.kind == KindMeet {
		return nil, nil
	}
	p, refusal := t.admit(h, c)
	if refusal != nil {
		refusal.Boot = t.o.Boot
	}
	return p, refusal
}

// admit decides about a member of this cluster.
func (t *Transport) admit(h *hello, c *conn) (*peer, *RefusedError) {
	if err := t.o.Admit(h.from, h.kind); err != nil {
		return nil, refuse(RefusedMember, "%v", err)
	}
	if !t.takes(h.kind) {
		return nil, refuse(RefusedKind, "this member takes no streams of kind %d", h.kind)
	}
	p, err := t.peer(h.from)
	if err != nil {
		return nil, refuse(RefusedBusy, "%v", err)
	}
	if !p.enter(c) {
		return nil, refuse(RefusedBusy, "too many streams of kind %d from member %s", h.kind, h.from)
	}
	return p, nil
}
