package recipes

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/client"
)

// A GroupForm says how the members of a group name their nodes.
type GroupForm int

// The forms of a group.
const (
	GroupCurator      GroupForm = iota // <id>, as Curator's GroupMember
	GroupParty                         // <uuid>__party__ with the id as its data, as kazoo's Party
	GroupShallowParty                  // <uuid>-<id>, as kazoo's ShallowParty
)

// A Group is a set of members that are alive: each has an ephemeral node below one path, made
// again when its session is lost, and a copy of the list.
type Group struct {
	c     *client.Client
	path  string
	id    string
	form  GroupForm
	cache *Cache[[]byte]
	node  *PersistentNode // nil of one who only looks
}

// A Member is one of a group.
type Member struct {
	ID   string
	Data []byte // what it says of itself; with GroupParty that is the id
	Path string
}

// JoinGroup becomes a member of the group at path. The id should be unique. With GroupParty the
// data is the id, as kazoo has it.
func JoinGroup(c *client.Client, path, id string, data []byte, form GroupForm, opts ...NodeOption) *Group {
	g := WatchGroup(c, path, form)
	g.id = id
	if data == nil {
		data = []byte{} // over null Curator's getCurrentMembers throws, at every member
	}
	name := id
	switch form {
	case GroupParty:
		name, data = plainUUID()+"__party__", []byte(id)
	case GroupShallowParty:
		name = plainUUID() + "-" + id
	}
	g.node = NewPersistentNode(c, join(path, name), client.ModeEphemeral, data, opts...)
	return g
}

// WatchGroup follows the group at path without being a member.
func WatchGroup(c *client.Client, path string, form GroupForm) *Group {
	return &Group{c: c, path: path, form: form, cache: NewChildrenCache(c, path, Bytes())}
}

func plainUUID() string { return strings.ReplaceAll(client.NewUUID(), "-", "") }

// ID is who we are; empty for one who only looks.
func (g *Group) ID() string { return g.id }

// Await waits until we are a member and see ourselves, and the others who were there.
func (g *Group) Await(ctx context.Context) error {
	if err := g.cache.Ready(ctx); err != nil || g.node == nil {
		return err
	}
	if err := g.node.Await(ctx); err != nil {
		return err
	}
	for _, err := range g.Changes(ctx) {
		if _, ok := g.cache.Get(g.node.Path()); ok || err != nil {
			return err
		}
	}
	return ended(ctx)
}

// SetData changes what we say of ourselves.
func (g *Group) SetData(ctx context.Context, data []byte) error { return g.node.SetData(ctx, data) }

// Members lists who is there, by their paths' order.
func (g *Group) Members() []Member {
	var out []Member
	for path, e := range g.cache.All() {
		if m, ok := g.member(path, e); ok {
			out = append(out, m)
		}
	}
	return out
}

func (g *Group) member(path string, e Entry[[]byte]) (Member, bool) {
	m := Member{ID: base(path), Data: slices.Clone(e.Value), Path: path}
	switch g.form {
	case GroupParty:
		m.ID = string(m.Data)
		return m, strings.HasSuffix(path, "__party__")
	case GroupShallowParty:
		_, id, ok := strings.Cut(m.ID, "-")
		m.ID = id
		return m, ok
	}
	return m, true
}

// Changes yields the members, now and after every change.
func (g *Group) Changes(ctx context.Context) iter.Seq2[[]Member, error] {
	return func(yield func([]Member, error) bool) {
		begun := false
		for ev, err := range g.cache.Events(ctx) {
			if ev.Type == CacheInitialized {
				begun = true
			}
			switch {
			case err != nil && !errors.Is(err, client.ErrLagged):
				yield(nil, err)
				return
			case !begun || err != nil:
			case !yield(g.Members(), nil):
				return
			}
		}
	}
}

// Leave ends the membership.
func (g *Group) Leave(ctx context.Context) error {
	g.cache.Close()
	if g.node == nil {
		return nil
	}
	return g.node.Close(ctx)
}
