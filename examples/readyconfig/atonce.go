package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
)

// version changes with every configuration. Its data are the names of the nodes, with spaces between.
const version = base + "/version"

// changeAtOnce writes everything in one Multi: all of it or nothing.
func changeAtOnce(ctx context.Context, c *client.Client, l recipes.Lease, s settings) error {
	ops, err := writes(ctx, c, s)
	if err != nil {
		return err
	}
	names := []byte(strings.Join(slices.Sorted(maps.Keys(s)), " "))
	_, there, err := c.Exists(ctx, version, client.Fresh())
	if err != nil {
		return err
	}
	if there {
		ops = append(ops, c.OpSet(version, names, client.AnyVersion))
	} else {
		ops = append(ops, c.OpCreate(version, names, client.ModePersistent, nil))
	}
	_, err = c.Multi().Add(l.Guard()...).Add(ops...).Commit(ctx)
	return err
}

// followVersion watches version, and reads it and all nodes in one request. If version is still the one
// that was seen with the watch, they are of one configuration, and the watch tells of the next one.
func followVersion(ctx context.Context, c *client.Client, found func(settings)) error {
	for {
		names, stat, changed, err := c.GetW(ctx, version)
		there := !errors.Is(err, client.ErrNoNode)
		if !there { // no configuration yet, and no watch
			_, there, changed, err = c.ExistsW(ctx, version)
		} else if err == nil {
			err = readVersion(ctx, c, strings.Fields(string(names)), stat.Mzxid, found)
		}
		if err != nil {
			return err
		}
		if stat.Mzxid == 0 && there {
			continue // it was made in between
		}
		if _, err := changed.Wait(ctx); err != nil && !errors.Is(err, client.ErrSessionExpired) {
			return err
		}
	}
}

// readVersion hands out the nodes if they are of that version; otherwise there is an event by now.
func readVersion(ctx context.Context, c *client.Client, names []string, mzxid int64, found func(settings)) error {
	m := c.MultiRead()
	for _, name := range names {
		m.Get(nodes + "/" + name)
	}
	got, err := m.Get(version).Do(ctx) // at the end: before ZooKeeper 3.6 they are read one after the other
	if err != nil {
		return err
	}
	s := settings{}
	for i, name := range names {
		if got[i].Err == nil {
			s[name] = string(got[i].Data)
		}
	}
	if got[len(names)].Stat.Mzxid == mzxid && len(s) == len(names) {
		found(s)
	}
	return nil
}
