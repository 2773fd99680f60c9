package cli

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// exportCommands carry subtrees to files and back.
func exportCommands() []command {
	return []command{
		{name: "export", syntax: "[-F json|tar] path [file]", about: "write a subtree to a file, or to standard output: data and access control lists", opts: "F:", min: 1, max: 2, paths: []int{0}, run: runExport},
		{name: "import", syntax: "[-F json|tar] [-f] file [path]", about: "read what export has written, from standard input if the file is -: -f over what is there; without path to where it was", opts: "F: f", min: 1, max: 2, paths: []int{1}, run: runImport},
	}
}

// An archive writes records; the first is the root, and parents come before their children.
type archive interface {
	add(r *record) error
	finish() error
}

// A source reads what an archive has written.
type source interface {
	root() string           // what was exported; "" if it does not say
	next() (*record, error) // io.EOF at the end
}

// archiveFormat is -F, or what the name of the file says.
func (c *call) archiveFormat(file string) (string, error) {
	f, ok := c.opts["F"]
	if !ok {
		f = "json"
		if filepath.Ext(file) == ".tar" {
			f = "tar"
		}
	}
	if f != "json" && f != "tar" {
		return "", c.wrong("-F " + f + ": it is json or tar")
	}
	return f, nil
}

func runExport(ctx context.Context, c *call) error {
	root := c.args[0]
	name := "-"
	if len(c.args) == 2 {
		name = c.args[1]
	}
	format, err := c.archiveFormat(name)
	if err != nil {
		return err
	}
	if name == "-" {
		_, err := c.export(ctx, root, format, c.out)
		return err
	}
	return c.exportFile(ctx, root, format, name)
}

// exportFile writes beside the file and puts the whole in its place at the end: an export that
// broke off must not look like one. The data may be confidential: the file is the owner's.
func (c *call) exportFile(ctx context.Context, root, format, name string) error {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".part-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once it has been renamed
	n, err := c.export(ctx, root, format, f)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return &exitError{exitLocal, err.Error()}
	}
	c.note("%d nodes in %s", n, name)
	return nil
}

// export writes a subtree. What may not be read makes it fail: a copy with holes is no copy.
func (c *call) export(ctx context.Context, root, format string, out io.Writer) (n int, err error) {
	var a archive
	if format == "tar" {
		a = newTarArchive(out, root)
	} else {
		a = newJSONArchive(out, root)
	}
	left := 0
	w := walk{c: c.view(), data: true, acl: true}
	w.visit = func(v *node) error {
		if v.stat.EphemeralOwner != 0 {
			left++
			return nil
		}
		n++
		return a.add(&record{rel: relative(v.path, root), data: v.data, acl: v.acl})
	}
	if err := w.run(ctx, root); err != nil {
		return n, err
	}
	if err := w.refused(); err != nil {
		return n, err
	}
	if left > 0 {
		c.note("%d ephemeral nodes were left out: they belong to their sessions", left)
	}
	return n, a.finish()
}

func runImport(ctx context.Context, c *call) error {
	name := c.args[0]
	format, err := c.archiveFormat(name)
	if err != nil {
		return err
	}
	in := c.sh.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	} else if c.sh.session {
		return c.wrong("in a shell the standard input holds commands; name a file")
	}
	var src source
	if format == "tar" {
		src, err = openTarArchive(in)
	} else {
		src, err = openJSONArchive(in)
	}
	if err != nil {
		return badArchive(name, err)
	}
	load := &loader{c: c.view(), target: src.root(), force: c.opts.has("f")}
	if len(c.args) == 2 {
		load.target = c.args[1]
	}
	if load.target == "" {
		return c.wrong(name + " does not say where it is from; name the path")
	}
	if err := c.load(ctx, load, src, name); err != nil {
		return err
	}
	return c.copied(load, 0, nil)
}

func (c *call) load(ctx context.Context, load *loader, src source, name string) error {
	for {
		r, err := src.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return badArchive(name, err)
		}
		if err := checkPath(load.path(r)); err != nil {
			return badArchive(name, err)
		}
		if err := load.add(ctx, r); err != nil {
			return err
		}
	}
	if err := load.flush(ctx); err != nil {
		return err
	}
	c.note("%d nodes created, %d changed", load.created, load.changed)
	return nil
}

// badArchive is the error of a file that is not what it should be.
func badArchive(name string, err error) error {
	return &exitError{exitLocal, strings.TrimSpace(name + ": " + err.Error())}
}
