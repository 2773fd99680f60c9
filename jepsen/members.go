package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/zkd-project/zkd/jepsen/cluster"
	"github.com/zkd-project/zkd/jepsen/wire"
	"github.com/zkd-project/zkd/jepsen/workload"
	proto "github.com/zkd-project/zkd/wire"
)

// changePatience is how long a change of the membership may take while there are faults.
const changePatience = 10 * time.Second

// memberSet changes the membership of the cluster of a run, by requests of a client.
type memberSet struct {
	c *cluster.Cluster

	mu  sync.Mutex
	out []int // guarded by mu: servers that were removed and are not back
}

// membersOf returns the memberSet of a run that needs one and can have it.
func membersOf(r *run) *memberSet {
	if !slices.Contains(r.o.Nemeses, "member") || r.c.Driver().Name() != "netns" {
		return nil
	}
	return &memberSet{c: r.c}
}

// superuser is who changes the membership. Without a superuser anybody would have to be allowed to do
// everything (skipACL), and the workload acl could not be judged beside it.
const superuser = "super"

// memberSettings are the lines of zoo.cfg that let the membership be changed.
func memberSettings(o *Options) []string {
	if !slices.Contains(o.Nemeses, "member") {
		return nil
	}
	return []string{"reconfigEnabled=true", "DigestAuthenticationProvider.superDigest=" + workload.Digest(superuser)}
}

// Remove implements nemesis.Members.
func (m *memberSet) Remove(server int) (done bool, err error) {
	code, err := m.change(server, "", fmt.Sprint(server))
	if err != nil || code != proto.OK {
		return false, errors.Join(err, code)
	}
	m.mu.Lock()
	m.out = append(m.out, server)
	m.mu.Unlock()
	return true, nil
}

// Replace implements nemesis.Members.
func (m *memberSet) Replace(server int) error {
	m.c.Kill(server)
	if err := m.c.Wipe(server); err != nil {
		return err
	}
	if err := m.c.Start(server); err != nil {
		return err
	}
	return m.join(server)
}

func (m *memberSet) join(server int) error {
	client, peer := m.c.Driver().Listen(server)
	line := fmt.Sprintf("server.%d=%s:1;%s", server, peer, client)
	code, err := m.change(server, line, "")
	if err != nil || code != proto.OK {
		return errors.Join(err, code)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.out = slices.DeleteFunc(m.out, func(i int) bool { return i == server })
	return nil
}

// restore brings back all that are out, when there are no faults any more.
func (m *memberSet) restore(ctx context.Context) error {
	m.mu.Lock()
	out := slices.Clone(m.out)
	m.mu.Unlock()
	for _, server := range out {
		for {
			err := m.c.Start(server)
			if err == nil {
				err = m.join(server)
			}
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				return fmt.Errorf("server %d cannot come back: %w", server, err)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	return nil
}

// change asks servers other than the one that it is about, until one has answered. An error
// means that it is not known what has become of it.
func (m *memberSet) change(about int, joining, leaving string) (proto.Code, error) {
	body := proto.AppendString(nil, joining)
	body = proto.AppendString(body, leaving)
	body = proto.AppendBuffer(body, nil) // null: not all members are named
	body = proto.AppendInt64(body, -1)   // of whatever version
	err := errors.New("no server could be asked")
	for server := 1; server <= m.c.Size(); server++ {
		if server == about || !m.c.Running(server) {
			continue
		}
		var conn *wire.Conn
		if conn, err = m.open(server); err != nil {
			continue
		}
		call := conn.Send(proto.OpReconfig, body)
		wire.Wait(conn, call, changePatience)
		conn.Cut()
		if call.Err == nil {
			return call.Reply.Err, nil
		}
		return 0, call.Err
	}
	return 0, err
}

func (m *memberSet) open(server int) (*wire.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	nc, err := m.c.Driver().Look(ctx, server)
	if err != nil {
		return nil, err
	}
	conn, err := wire.Open(nc, server, wire.Session{TimeoutMs: 2 * int32(changePatience/time.Millisecond)}, time.Second,
		wire.Hooks{Event: func(*wire.Conn, wire.Event) {}, Broken: func(*wire.Conn, string) {}})
	if err == nil {
		workload.Identify(conn, superuser)
	}
	return conn, err
}
