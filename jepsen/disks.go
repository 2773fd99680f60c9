package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/zkd-project/zkd/jepsen/disk"
)

// withDisks are the nemeses that need them.
var withDisks = []string{"full", "power", "read-only"}

// noDisks says why this machine cannot give servers file systems of their own, for a nemesis.
func noDisks(nemesis string) string {
	why := disk.Unavailable()
	if why == "" && nemesis == "read-only" {
		why = disk.CannotAbort()
	}
	return why
}

// diskSet is a file system for each server.
type diskSet []*disk.Image

// openDisks makes them where a nemesis of the run needs them; nil where none does.
func openDisks(r *run) (diskSet, error) {
	needed := slices.DeleteFunc(slices.Clone(r.o.Nemeses), func(n string) bool { return !slices.Contains(withDisks, n) })
	if len(needed) == 0 {
		return nil, nil
	}
	for _, n := range needed {
		if why := noDisks(n); why != "" {
			return nil, fmt.Errorf("nemesis %s: %s", n, why)
		}
	}
	var d diskSet
	for i := 1; i <= r.o.Nodes; i++ {
		dir := filepath.Join(r.dir, fmt.Sprintf("server-%d", i))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, errors.Join(err, d.close())
		}
		image, err := disk.New(dir)
		if image != nil {
			d = append(d, image)
		}
		if err != nil {
			return nil, errors.Join(err, d.close())
		}
	}
	return d, nil
}

// dataDir is a folder below the root of the file system, which has a lost+found.
func (d diskSet) dataDir(server int) string { return filepath.Join(d[server-1].Dir(), "data") }

// Fill implements nemesis.Disks.
func (d diskSet) Fill(server int) error { return d[server-1].Fill() }

// Empty implements nemesis.Disks.
func (d diskSet) Empty(server int) error { return d[server-1].Empty() }

// PowerCut implements nemesis.Disks.
func (d diskSet) PowerCut(server int) error { return d[server-1].PowerCut() }

// Abort implements nemesis.Disks.
func (d diskSet) Abort(server int) error { return d[server-1].Abort() }

// Mend implements nemesis.Disks.
func (d diskSet) Mend(server int) error { return d[server-1].Mend() }

func (d diskSet) healAll() error {
	var err error
	for _, i := range d {
		err = errors.Join(err, i.Empty())
	}
	return err
}

func (d diskSet) close() error {
	var err error
	for _, i := range d {
		err = errors.Join(err, i.Close())
	}
	return err
}

// remove deletes the files that hold them.
func (d diskSet) remove() error {
	var err error
	for _, i := range d {
		err = errors.Join(err, i.Remove())
	}
	return err
}
