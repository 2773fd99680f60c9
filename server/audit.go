package server

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/user"
	"slices"

	"github.com/zkd-project/zkd/internal/logfile"
	"github.com/zkd-project/zkd/server/audit"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/wire"
)

// An auditor tells the audit log what the clients of this server have changed.
//
// Every server applies every change; a change is told by the one whose process has the
// connection that asked for it, or had it, if the client is gone by now. The session table says
// which that is, so a command that was proposed twice, because leadership changed hands
// meanwhile, is told once: its repeat is no change (state.Duplicate). Nothing is told of the log
// of an earlier run, for its connections are of another boot. What the expiry of a session
// deletes is told by the leader, whose decision it was.
//
// Owner: the apply loop, but for user and log, which do not change.
type auditor struct {
	s    *Server
	log  *audit.Log
	user string // who runs the server

	// addrs are the addresses of the sessions here: a connection may be gone before what it has
	// asked for is applied.
	addrs map[int64]netip.Addr
	// reconfig is the change of the membership that a client of this server has asked for and
	// that is under way: there is one at a time at most.
	reconfig *audit.Record
	rec      audit.Record // reused
}

// openAudit opens the audit log that is configured; nil if there is none.
func (s *Server) openAudit(on bool, file string) (*auditor, error) {
	if !on {
		return nil, nil
	}
	var out audit.Output = standardOutput{}
	if file != "" {
		f, err := logfile.Open(file, 0o600)
		if err != nil {
			return nil, fmt.Errorf("audit.enable: %w; make its folder, or set zkd.auditFile", err)
		}
		out = f
	}
	return &auditor{
		s: s, user: processUser(), addrs: map[int64]netip.Addr{},
		log: audit.New(audit.Options{
			Output: out, Logger: s.log, Written: s.stats.AuditWritten.Add, Lost: s.stats.AuditLost.Add,
		}),
	}, nil
}

// standardOutput is where the audit log goes without a file. Nothing else is written there.
type standardOutput struct{}

func (standardOutput) Write(b []byte) (int, error) { return os.Stdout.Write(b) }
func (standardOutput) Reopen() error               { return nil }
func (standardOutput) Close() error                { return nil }

// processUser is who runs the server, as ZooKeeper's log names it.
func processUser() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "<NA>"
}

// setAudit turns the audit log on or off, or has it go elsewhere. Called with lifecycle held.
func (s *Server) setAudit(on bool, file string) error {
	a, err := s.openAudit(on, file)
	if err != nil {
		return err
	}
	s.auditFile = file
	if old := s.auditor.Swap(a); old != nil {
		return old.log.Close()
	}
	return nil
}

// EndAudit writes out what waits for the audit log, and ends it: for a program that ends at
// once, after Fatal. Close does the same.
func (s *Server) EndAudit() error {
	if a := s.auditor.Swap(nil); a != nil {
		return a.log.Close()
	}
	return nil
}

// ReopenAudit goes on in a new file of the audit log, after the old one was moved away.
func (s *Server) ReopenAudit() error {
	if a := s.auditor.Load(); a != nil {
		return a.log.Reopen()
	}
	return nil
}

// auditServer tells that the server starts or stops.
func (s *Server) auditServer(operation string, result audit.Result) {
	if a := s.auditor.Load(); a != nil {
		a.log.Write(&audit.Record{User: a.user, Operation: operation, Result: result})
	}
}

// auditRestore tells how a restore ended: unknown to who was left alone with it.
func (s *Server) auditRestore(ctx context.Context, asker netip.Addr, into string, err error) {
	a := s.auditor.Load()
	if a == nil {
		return
	}
	rec := &audit.Record{User: "super", IP: asker, Operation: audit.Restore, Znode: into}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		rec.Result = audit.Invoked
	default:
		rec.Result = audit.Failure
	}
	a.log.Write(rec)
}

// applied is called for each command, before anybody hears of its result.
func (a *auditor) applied(cmd *state.Command, r *state.Result) {
	switch cmd.Kind {
	case state.KindWrite:
		if r.Outcome <= state.Failed && a.s.expiry.holds(cmd.Session) {
			a.write(cmd, r)
		}
	case state.KindCreateSession, state.KindAttach:
		if r.Outcome == state.Applied {
			a.opened(cmd)
		}
	case state.KindCloseSession, state.KindExpire:
		if r.Closed != 0 {
			a.sessionClosed(cmd, r)
		}
	case state.KindMembers:
		a.membersChanged(cmd, r)
	}
}

// opened notes from where a session is used, if it is here.
func (a *auditor) opened(cmd *state.Command) {
	delete(a.addrs, cmd.Session)
	if cmd.Origin.Boot != a.s.boot {
		return
	}
	if c := a.s.connByNumber(cmd.Origin.Conn); c != nil {
		a.addrs[cmd.Session] = c.remote.Addr()
	}
}

// addr is the address of a session of this server. One that was opened before there was an audit
// log is known by its connection.
func (a *auditor) addr(session int64) netip.Addr {
	if addr, ok := a.addrs[session]; ok {
		return addr
	}
	if c := a.s.connOf(session); c != nil {
		return c.remote.Addr()
	}
	return netip.Addr{}
}

// restored is called when the machine was replaced: nobody knows what its sessions did meanwhile.
func (a *auditor) restored() {
	clear(a.addrs)
	a.reconfig = nil
}

// write tells of a client's write.
func (a *auditor) write(cmd *state.Command, r *state.Result) {
	rec := &a.rec
	*rec = audit.Record{Session: cmd.Session, Users: cmd.IDs, IP: a.addr(cmd.Session)}
	if r.Outcome != state.Applied || r.Code != wire.OK {
		rec.Result = audit.Failure
	}
	switch {
	case r.Deferred:
		waiting := *rec
		waiting.Users = slices.Clone(cmd.IDs) // strings are copies
		waiting.Operation = audit.Reconfig
		a.reconfig = &waiting
	case cmd.Op == wire.OpMulti:
		a.multi(rec, cmd, r)
	default:
		describe(rec, cmd.Op, cmd.Body)
		if r.Path != "" {
			rec.Znode = r.Path // the one with its number
		}
		if cmd.Op == wire.OpReconfig && rec.Result == audit.Success {
			rec.Znode = "/zookeeper/config"
		}
		a.log.Write(rec)
	}
	*rec = audit.Record{} // what aliases the log entry
}

// multi tells of each change in a transaction, or, if it failed, that there was one.
func (a *auditor) multi(rec *audit.Record, cmd *state.Command, r *state.Result) {
	d := wire.NewDecoder(cmd.Body)
	d.SetMaxLen(len(cmd.Body))
	ops, err := wire.DecodeMulti(&d, wire.IsMultiWrite, 0)
	failed := func(m wire.MultiResult) bool { return m.Op == wire.OpError }
	if err != nil || rec.Result == audit.Failure || len(ops) != len(r.Multi) || slices.ContainsFunc(r.Multi, failed) {
		rec.Operation, rec.Result = audit.Multi, audit.Failure
		a.log.Write(rec)
		return
	}
	for i := range ops {
		rec.Znode, rec.ZnodeType = "", ""
		switch op := &ops[i]; op.Op {
		case wire.OpDelete:
			rec.Operation, rec.Znode = audit.Delete, op.Delete.Path
		case wire.OpSetData:
			rec.Operation, rec.Znode = audit.SetData, op.SetData.Path
		case wire.OpCreateTTL:
			rec.Operation, rec.Znode, rec.ZnodeType = audit.Create, r.Multi[i].Path, audit.TypeOf(op.CreateTTL.Flags)
		case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer:
			rec.Operation, rec.Znode, rec.ZnodeType = audit.Create, r.Multi[i].Path, audit.TypeOf(op.Create.Flags)
		default:
			continue // a check changes nothing
		}
		a.log.Write(rec)
	}
}

// describe fills in what a request asks for, as far as it can be decoded.
func describe(rec *audit.Record, op wire.OpCode, body []byte) {
	d := wire.NewDecoder(body)
	d.SetMaxLen(len(body))
	switch op {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer:
		var q wire.CreateRequest
		q.Decode(&d)
		rec.Operation, rec.Znode, rec.ZnodeType = audit.Create, q.Path, audit.TypeOf(q.Flags)
	case wire.OpCreateTTL:
		var q wire.CreateTTLRequest
		q.Decode(&d)
		rec.Operation, rec.Znode, rec.ZnodeType = audit.Create, q.Path, audit.TypeOf(q.Flags)
	case wire.OpSetACL:
		var q wire.SetACLRequest
		q.Decode(&d)
		rec.Operation, rec.Znode, rec.ACL = audit.SetACL, q.Path, q.ACL
	case wire.OpDelete:
		rec.Operation, rec.Znode = audit.Delete, string(d.StringBytes())
	case wire.OpSetData:
		rec.Operation, rec.Znode = audit.SetData, string(d.StringBytes())
	case wire.OpMulti:
		rec.Operation = audit.Multi
	case wire.OpReconfig:
		rec.Operation = audit.Reconfig
	}
	if d.Err() != nil {
		rec.ZnodeType, rec.ACL = "", nil
	}
}

// refused tells of a write that did not get as far as the log. Called by the connection's
// reader.
func (a *auditor) refused(c *conn, op wire.OpCode, body []byte) {
	rec := audit.Record{Session: c.sessionID(), Users: *c.ids.Load(), IP: c.remote.Addr(), Result: audit.Failure}
	describe(&rec, op, body)
	a.log.Write(&rec)
}

// sessionClosed tells of the ephemeral nodes that went with a session.
func (a *auditor) sessionClosed(cmd *state.Command, r *state.Result) {
	mine := a.s.expiry.holds(r.Closed)
	if cmd.Kind == state.KindExpire {
		mine = a.s.expiry.endedHere(r.Closed)
	}
	delete(a.addrs, r.Closed)
	if !mine {
		return
	}
	for i := range r.Events {
		if e := &r.Events[i]; e.Type == wire.EventNodeDeleted {
			a.log.Write(&audit.Record{Session: r.Closed, User: a.user, Operation: audit.EphemeralDeletion, Znode: e.Path})
		}
	}
}

// membersChanged tells how the reconfig of a client of this server has ended.
func (a *auditor) membersChanged(cmd *state.Command, r *state.Result) {
	if a.reconfig == nil || r.Outcome != state.Applied && r.Outcome != state.Failed {
		return
	}
	switch cmd.Members {
	case state.MembersDone:
		a.reconfig.Znode = "/zookeeper/config"
	case state.MembersAborted:
		a.reconfig.Result = audit.Failure
	default:
		return
	}
	a.log.Write(a.reconfig)
	a.reconfig = nil
}

// holds says whether the connection of a session is here, or was here last.
func (e *expiry) holds(id int64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.known[id]
	return l != nil && l.boot == e.s.boot
}

// endedHere says whether the expiry of a session is this server's: because it leads and has
// found the session silent, or because somebody has asked for it here.
func (e *expiry) endedHere(id int64) bool {
	leads := e.s.node.Leads()
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.known[id]
	return l != nil && (l.demanded || leads && l.proposedNs != 0)
}
