package recipes

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/client"
)

// A Participant is one who holds or waits.
type Participant struct {
	Node    string // the name of its node, for Break and Revoke
	Path    string // of its node
	Data    []byte // what it says of itself: an owner, a host, the id in an election
	Session int64  // on which its node hangs
	Token   int64  // the fencing token that it has, or will have
	Reader  bool   // it wants or has a read lock
	Foreign bool   // it follows other rules
}

// ID is Data as text.
func (p Participant) ID() string { return string(p.Data) }

// participants reads who is in the line, in order; a line that does not exist is empty.
func (l *line) participants(ctx context.Context) ([]Participant, error) {
	q, err := l.list(ctx, client.Fresh())
	if errors.Is(err, client.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := make([]Participant, 0, len(q))
	for _, c := range q {
		p, err := l.participant(ctx, c)
		if errors.Is(err, client.ErrNoNode) {
			continue // it has gone meanwhile
		}
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

func (l *line) participant(ctx context.Context, c contender) (Participant, error) {
	path := join(l.dir, c.name)
	data, stat, err := l.c.Get(ctx, path)
	return Participant{
		Node: c.name, Path: path, Data: data, Session: stat.EphemeralOwner, Token: stat.Czxid,
		Reader: c.kind == shared, Foreign: c.foreign,
	}, err
}

// breakNode deletes the node of a participant by force.
func (l *line) breakNode(ctx context.Context, node string) error {
	if _, ok := l.names.read(node); !ok {
		return fmt.Errorf("break %s in %s: no participant has such a name", node, l.dir)
	}
	return l.c.SureDelete(ctx, join(l.dir, node), client.AnyVersion)
}

// revoke asks a participant to let go, in Curator's word.
func (l *line) revoke(ctx context.Context, node string) error {
	if _, ok := l.names.read(node); !ok {
		return fmt.Errorf("revoke %s in %s: no participant has such a name", node, l.dir)
	}
	_, err := l.c.Set(ctx, join(l.dir, node), []byte(revokeCurator), client.AnyVersion, client.Idempotent())
	return err
}
