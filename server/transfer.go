package server

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/server/replication"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/znode"
	"github.com/zkd-project/zkd/wire"
)

// Leadership by command. ZooKeeper has no request for it, so it is a reconfig whose joining
// servers are the text leader=N, or leader=any: ZooKeeper refuses that as malformed, every
// client library can send it, and it is for those who may change the membership. It changes no
// configuration, takes no zxid and needs no reconfigEnabled. The answer is that of a reconfig,
// with the text leader=N for who leads now in the place of the configuration:
//
//	-8    no such member, or it has no vote
//	-13   it is not there, or has not caught up: nothing has changed
//	-7    no new leader in time, or there is none to take the order
//	-6    the server runs alone
//	-102  who asks may not change /zookeeper/config
const transferPrefix = "leader="

const anyLeader = "any"

// transferRequest reads the number of the server that is to lead, 0 for any; ok is false for
// every other reconfig.
func transferRequest(body []byte) (number int, ok bool, err error) {
	var req wire.ReconfigRequest
	d := wire.NewDecoder(body)
	d.SetMaxLen(len(body))
	req.Decode(&d)
	if d.Err() != nil || req.Leaving != "" || req.NewMembers != "" {
		return 0, false, nil
	}
	text, ok := strings.CutPrefix(strings.TrimSpace(req.Joining), transferPrefix)
	if !ok || text == anyLeader {
		return 0, ok, nil
	}
	number, err = strconv.Atoi(text)
	if err == nil && (number < 1 || number > 255) {
		err = fmt.Errorf("there is no server %d", number)
	}
	return number, true, err
}

// reconfigRequest tells a transfer of the leadership from a change of the membership.
func (c *conn) reconfigRequest(h wire.RequestHeader, body []byte) error {
	number, ok, err := transferRequest(body)
	switch {
	case !ok:
		return c.writeRequest(h, body)
	case err != nil:
		c.answer(h, wire.BadArguments)
		return nil
	case !c.s.mayTransfer(*c.ids.Load()):
		c.answer(h, wire.NoAuth)
		return nil
	}
	c.mu.Lock()
	c.transfers++
	tag := c.transfers
	c.push(pendingRequest{
		kind: pendingTransfer, op: h.Op, xid: h.Xid, size: requestSize(body), number: tag, startNs: c.lastSeen.Load(),
	})
	c.mu.Unlock()
	c.s.goLoop(func() { // ends within TransferTimeout, or with the server
		c.transferred(tag, c.s.transferReply(h, number))
	})
	return nil
}

func (s *Server) mayTransfer(ids []wire.ID) bool {
	s.node.RLock()
	defer s.node.RUnlock()
	return s.node.Machine().May(znode.ConfigPath, wire.PermWrite, ids)
}

// Transfer hands the leadership of the cluster to a server, 0: to any that is fit, whichever
// this one is, and returns who leads then.
func (s *Server) Transfer(ctx context.Context, number int) (leader int, err error) {
	n := s.currentNode()
	if n == nil {
		return 0, errNotServing
	}
	return n.Transfer(ctx, number)
}

// Transfer is for the admin server what it is for clients.
func (f Face) Transfer(ctx context.Context, number int) (leader int, err error) {
	return f.s.Transfer(ctx, number)
}

// transferReply makes the frame that answers.
func (s *Server) transferReply(h wire.RequestHeader, number int) []byte {
	ctx, cancel := context.WithTimeout(s.lifetime, replication.TransferTimeout)
	defer cancel()
	leader, err := s.Transfer(ctx, number)
	code := transferCode(err)
	if code != wire.OK {
		s.log.Warn("the leadership was not handed over as asked", "to", number, "reason", err)
	}
	b, mark := wire.AppendFrame(nil)
	b = wire.AppendReply(b, h.Xid, s.zxid.Load(), code)
	if code == wire.OK {
		b = wire.AppendBuffer(b, fmt.Appendf(nil, "%s%d", transferPrefix, leader))
		stat := s.configStat()
		b = stat.Append(b)
	}
	wire.FinishFrame(b, mark)
	return b
}

func (s *Server) configStat() (stat wire.Stat) {
	s.look(func(m *state.Machine) int64 {
		if n := m.Tree().Lookup(znode.ConfigPath); n != nil {
			stat = n.Stat()
		}
		return 0
	})
	return stat
}

func transferCode(err error) wire.Code {
	switch {
	case err == nil:
		return wire.OK
	case errors.Is(err, replication.ErrNoMember), errors.Is(err, replication.ErrNoVote):
		return wire.BadArguments
	case errors.Is(err, replication.ErrLagging):
		return wire.NewConfigNoQuorum
	case errors.Is(err, replication.ErrAlone):
		return wire.Unimplemented
	}
	return wire.OperationTimeout
}

// transferred answers in its turn.
func (c *conn) transferred(tag uint64, frame []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return
	}
	for i := c.pending.head; i < len(c.pending.q); i++ {
		p := &c.pending.q[i]
		if p.kind != pendingTransfer || p.number != tag {
			continue
		}
		p.data, p.done = frame, true
		c.advance(nil, 0)
		c.s.flushers.add(c)
		return
	}
}
