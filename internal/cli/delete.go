package cli

import (
	"context"
	"slices"
	"strconv"

	"github.com/zkd-project/zkd/client"
)

// multiBytes bounds a transaction well below what a server accepts by default (jute.maxbuffer,
// 1 MiB), with opOverhead for what surrounds the path and the data of one operation.
const (
	multiBytes  = 512 << 10
	opOverhead  = 64
	deleteBatch = 1000 // zkCli's
)

// runDeleteAll deletes from the leaves up, in transactions of a batch each.
func runDeleteAll(ctx context.Context, c *call) error {
	path := c.args[0]
	batch := deleteBatch
	if b, ok := c.opts["b"]; ok {
		var err error
		if batch, err = strconv.Atoi(b); err != nil {
			return usagef("-b argument must be an int value")
		}
	}
	batch = max(batch, 1)
	if path == "/" && c.view().Root() == "/" {
		return c.wrong("the root cannot be deleted; name what is below it")
	}
	var paths []string
	err := walkNames(ctx, c.view(), path, func(p string) error {
		paths = append(paths, p)
		return nil
	})
	if err != nil {
		return err
	}
	slices.Reverse(paths) // a child stands behind its parent in the walk
	if err := deletePaths(ctx, c.view(), paths, batch); err != nil {
		c.note("Failed to delete some node(s) in the subtree!")
		return err
	}
	if c.format == formatJSON {
		return c.json(struct {
			Path    string `json:"path"`
			Deleted int    `json:"deleted"`
		}{path, len(paths)})
	}
	return nil
}

func deletePaths(ctx context.Context, view *client.Client, paths []string, batch int) error {
	m, size := view.Multi(), 0
	for i, p := range paths {
		m.Delete(p, client.AnyVersion)
		size += len(p) + opOverhead
		if m.Len() < batch && size < multiBytes && i+1 < len(paths) {
			continue
		}
		if _, err := m.Commit(ctx); err != nil {
			return err
		}
		m, size = view.Multi(), 0
	}
	return nil
}
