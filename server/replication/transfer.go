package replication

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/zkd-project/zkd/internal/wait"
	"github.com/zkd-project/zkd/server/replication/peer"
)

// Leadership on demand: any server takes the order, and the one that leads carries it out. To
// another one it goes over a stream of its own:
//
//	member → leader   1 byte: the number of the member that is to lead, 0: any
//	leader → member   1 byte: how it went, and a text
//
// The leader asks nobody to lead who would lose the election, or win it and be of no use: the
// heir votes, has answered lately, has nearly all of the log and is not in quarantine.

// Errors of Transfer. After any of them nothing has changed.
var (
	// ErrNoMember is returned when the cluster has no server with that number.
	ErrNoMember = errors.New("no such member")
	// ErrNoVote is returned for an observer, and for a server that is only joining.
	ErrNoVote = errors.New("the server has no vote, so it cannot lead")
	// ErrLagging is returned when the server has not answered lately, lacks too much of the log,
	// or is being repaired.
	ErrLagging = errors.New("the server is not there or has not caught up")
	// ErrAlone is returned by a server that is no member of a cluster.
	ErrAlone = errors.New("there is no other server")
)

// anyMember as the number of a member leaves the choice to the leader.
const anyMember = 0

// transferErrors have their place as their code; 0 is success, and what is not here is 255.
var transferErrors = []error{nil, ErrNoMember, ErrNoVote, ErrLagging, ErrNotLeader}

const transferFailed = 255

// maxTransferText bounds what the leader says about a failure.
const maxTransferText = 512

// Transfer hands the leadership to a member, whoever has it now, and returns who leads then;
// number 0 means whichever voter is fit. If that member leads already nothing happens.
func (n *Node) Transfer(ctx context.Context, number int) (leader int, err error) {
	if n.peers == nil || !n.up.Load() {
		return 0, ErrAlone
	}
	self := n.stores.id.serverID()
	// Who has just begun to lead was not told yet.
	before, err := n.awaitLeader(ctx, "the leader", func(l raft.ServerID) bool { return l == self || !n.Leads() })
	if err != nil {
		return 0, err
	}
	switch {
	case before == "":
		return 0, ErrNotLeader
	case before == self:
		err = n.transferTo(ctx, number)
	default:
		err = n.askTransfer(ctx, before, number)
	}
	if err != nil {
		return 0, err
	}
	return n.successor(ctx, before, number)
}

// successor waits for the leader after a transfer.
func (n *Node) successor(ctx context.Context, before raft.ServerID, number int) (int, error) {
	leader, err := n.awaitLeader(ctx, "the new leader", func(l raft.ServerID) bool {
		return l != "" && (l != before || peer.Number(before) == number)
	})
	if err != nil {
		return 0, err
	}
	return peer.Number(leader), nil
}

// awaitLeader waits until what is known of the leader, "" if nothing, is what the caller waits for.
func (n *Node) awaitLeader(ctx context.Context, what string, good func(raft.ServerID) bool) (raft.ServerID, error) {
	for {
		l := n.leadership()
		if good(l.leader) {
			return l.leader, nil
		}
		select {
		case <-l.changed:
		case <-n.dead:
			return "", n.deadError()
		case <-ctx.Done():
			return "", contextError(ctx, what)
		}
	}
}

// transferTo is Transfer at the leader.
func (n *Node) transferTo(ctx context.Context, number int) error {
	if number == n.o.MyID {
		return nil
	}
	to, err := n.heir(number)
	if err != nil {
		return err
	}
	n.o.Logger.Info("handing the leadership over on demand", "to", to)
	return n.stepDown(ctx, to)
}

// heir is the member that a number means, if it can lead; of any, the one with most of the log.
func (n *Node) heir(number int) (raft.ServerID, error) {
	var best raft.ServerID
	var most uint64
	reason := ErrLagging
	if number != anyMember {
		reason = ErrNoMember
	}
	for _, s := range n.raft().GetConfiguration().Configuration().Servers {
		if s.ID == n.stores.id.serverID() || number != anyMember && peer.Number(s.ID) != number {
			continue
		}
		switch {
		case s.Suffrage != raft.Voter:
			if errors.Is(reason, ErrNoMember) {
				reason = ErrNoVote
			}
			continue
		case !n.fitToLead(s.ID):
			reason = ErrLagging
			continue
		}
		if acked := n.ackedBy(s.ID); best == "" || acked > most {
			best, most = s.ID, acked
		}
	}
	if best == "" {
		return "", reason
	}
	return best, nil
}

// fitToLead says whether a voter could take over at once.
func (n *Node) fitToLead(id raft.ServerID) bool {
	return n.inContact(id) && n.caughtUp(id) && !n.reportedSick(id)
}

// ackedBy is how far a member's log is known to be that of this leader.
func (n *Node) ackedBy(id raft.ServerID) uint64 {
	all := n.peers.Peers()
	i := slices.IndexFunc(all, func(s peer.Status) bool { return s.ID == id })
	if i < 0 {
		return 0
	}
	return all[i].Acked
}

// askTransfer has the leader do it.
func (n *Node) askTransfer(ctx context.Context, leader raft.ServerID, number int) error {
	return n.withStream(ctx, leader, kindTransfer, func(s *peer.Stream) error {
		if err := s.Send([]byte{byte(number)}); err != nil {
			return err
		}
		answer, err := s.Receive()
		if err != nil {
			return err
		}
		return decodeTransfer(answer)
	})
}

// serveTransfer carries out what another member asks for, while this one leads.
func (n *Node) serveTransfer(s *peer.Stream) {
	request, err := s.Receive()
	if err != nil || len(request) != 1 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout+4*electionTimeout)
	defer cancel()
	if _, err = n.queue.wait(ctx, "leadership", func(r route) bool { return r == routeLog }); err != nil {
		err = ErrNotLeader
	} else {
		err = n.transferTo(ctx, int(request[0]))
	}
	_ = s.Send(encodeTransfer(err)) // else the other side sees a broken stream
}

func encodeTransfer(err error) []byte {
	if err == nil {
		return []byte{0}
	}
	code := slices.IndexFunc(transferErrors, func(e error) bool { return e != nil && errors.Is(err, e) })
	if code < 0 {
		code = transferFailed
	}
	text := err.Error()
	return append([]byte{byte(code)}, text[:min(len(text), maxTransferText)]...)
}

func decodeTransfer(b []byte) error {
	switch {
	case len(b) == 0 || len(b) > 1+maxTransferText:
		return errors.New("an answer about the leadership that cannot be decoded")
	case int(b[0]) < len(transferErrors):
		return transferErrors[b[0]]
	}
	return fmt.Errorf("the leader says: %s", b[1:])
}

// StepDown hands the leadership to another server, if this one has it, and returns when it
// has been taken over, or cannot be. Commands that raft has taken are applied before; those that
// still wait, or come meanwhile, are refused with ErrNotLeader, and proposed again elsewhere.
func (n *Node) StepDown(ctx context.Context) error { return n.stepDown(ctx, "") }

// anyHeir is one of those that could lead at once, by chance: were it the first of those with the
// longest log, two servers that both have a reason not to lead would give it to each other for ever.
// If there is none it is the one with the longest log; "" if there is no other voter.
func (n *Node) anyHeir() raft.ServerID {
	others := slices.DeleteFunc(n.voters(), func(id raft.ServerID) bool { return id == n.stores.id.serverID() })
	if len(others) == 0 {
		return ""
	}
	if fit := slices.DeleteFunc(slices.Clone(others), func(id raft.ServerID) bool { return !n.fitToLead(id) }); len(fit) > 0 {
		return fit[rand.IntN(len(fit))]
	}
	return slices.MaxFunc(others, func(a, b raft.ServerID) int { return cmp.Compare(n.ackedBy(a), n.ackedBy(b)) })
}

// stepDown is StepDown to a member; "": to anyHeir.
func (n *Node) stepDown(ctx context.Context, to raft.ServerID) error {
	if n.peers == nil || !n.up.Load() || n.raft().State() != raft.Leader {
		return nil
	}
	if r, gen := n.queue.current(); r == routeLog {
		n.queue.unroute(gen)
	}
	n.peers.Hurry() // raft asks the goroutine of the heir, which may wait for its link
	if to == "" {
		to = n.anyHeir()
	}
	if err := n.awaitHeir(ctx, to); err != nil {
		n.batcher.relead()
		return fmt.Errorf("the leadership was not handed over: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- n.engine.Load().transfer(to) }() // ends within the election timeout, or with raft
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		err = contextError(ctx, "another leader")
	}
	if err != nil {
		n.batcher.relead()
		return fmt.Errorf("the leadership was not handed over: %w", err)
	}
	return nil
}

// heirLook is how often a leader looks whether its heir has all of the log.
const heirLook = 5 * time.Millisecond

// awaitHeir waits until the heir is known to have all of the log, which does not grow meanwhile.
//
// raft would wait for that, too: it asks the goroutine that sends to the heir, through a channel that
// has room for one request. If the heir hangs, so does that goroutine, the request stays there, and
// at the next hand-over raft waits for room, without taking entries; for ever, if the leadership is lost
// meanwhile and the goroutine ends without a look. TestALeaderTakesEntriesAfterHandOversToAMemberThatHangs
// and TestALeaderThatWasLostDuringAHandOverLeadsAgain hold it.
func (n *Node) awaitHeir(ctx context.Context, to raft.ServerID) error {
	if to == "" {
		return ErrLagging
	}
	ctx, cancel := context.WithTimeout(ctx, electionTimeout)
	defer cancel()
	for n.raft().State() == raft.Leader && n.ackedBy(to) < n.raft().LastIndex() {
		if ctx.Err() != nil {
			return ErrLagging
		}
		wait.Pause(ctx, heirLook)
	}
	return nil
}

// transfer has raft hand over, and returns how that went.
func (e *engine) transfer(to raft.ServerID) error {
	f := e.LeadershipTransferToServer(to, raft.ServerAddress(to))
	endWith(f, e.over)
	return f.Error()
}

// endWith has a future of raft end with raft. raft queues a transfer of the leadership for its
// main loop, and if that ends before it has come to it nobody answers any more: other futures
// have a channel for this case, and raft forgets to set it for this one. It is an exported field,
// which only Error looks at, of a type that has no exported name.
func endWith(f raft.Future, over chan struct{}) {
	v := reflect.ValueOf(f)
	if v.Kind() != reflect.Pointer {
		return // an error that is there already
	}
	if field := v.Elem().FieldByName("ShutdownCh"); field.IsValid() && field.CanSet() && field.Type() == reflect.TypeFor[chan struct{}]() {
		field.Set(reflect.ValueOf(over))
	}
}

// transferPatience is how long a hand-over on demand may take in all.
const transferPatience = 3 * time.Second

// TransferTimeout bounds a call of Transfer: within it either somebody leads, or nothing has
// changed.
const TransferTimeout = transferPatience + openTimeout
