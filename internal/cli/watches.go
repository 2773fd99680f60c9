package cli

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/zkd-project/zkd/client"
)

func watchCommands() []command {
	return []command{
		{name: "addWatch", syntax: "[-m mode] path # optional mode is one of [PERSISTENT, PERSISTENT_RECURSIVE] - default is PERSISTENT_RECURSIVE", about: "watch a node until removewatches", opts: "m:", min: 1, max: 1, paths: []int{0}, run: runAddWatch},
		{name: "removewatches", syntax: "path [-c|-d|-a] [-l]", about: "end the watches of a path: -c of children, -d of data, -p persistent ones, -r recursive ones, -a all", opts: "c d p r a l", min: 1, max: 1, paths: []int{0}, run: runRemoveWatches},
		{name: "watch", syntax: "[-r|--recursive] [-n count] path", about: "print what happens to a node until Ctrl-C: -r below it, too, -n end after so many events", opts: "r|recursive n:", min: 1, max: 1, paths: []int{0}, run: runWatch},
	}
}

func runAddWatch(ctx context.Context, c *call) error {
	path := c.args[0]
	mode := client.Recursive
	if m, ok := c.opts["m"]; ok {
		switch strings.ToUpper(m) {
		case "PERSISTENT":
			mode = client.Persistent
		case "PERSISTENT_RECURSIVE":
		default:
			return &exitError{exitUsage, c.cmd.usage()}
		}
	}
	s, err := c.view().Subscribe(ctx, path, mode)
	if err != nil {
		return err
	}
	c.sh.follow(s)
	return nil
}

func runRemoveWatches(ctx context.Context, c *call) error {
	path := c.args[0]
	for _, m := range []struct {
		opt  string
		mode client.WatchMode
	}{{"p", client.Persistent}, {"r", client.Recursive}} {
		if !c.opts.has(m.opt) {
			continue
		}
		if c.sh.watches.drop(path, m.mode) == 0 {
			return &client.Error{Op: "removeWatches", Path: path, Err: client.ErrNoWatcher}
		}
		return nil
	}
	kinds := client.AllWatches
	switch {
	case c.opts.has("c"):
		kinds = client.ChildWatches
	case c.opts.has("d"):
		kinds = client.DataWatches
	}
	return c.view().RemoveWatches(ctx, path, kinds)
}

// runWatch prints events until it is interrupted.
func runWatch(ctx context.Context, c *call) error {
	path := c.args[0]
	left := 0 // no end
	if n, ok := c.opts["n"]; ok {
		var err error
		if left, err = strconv.Atoi(n); err != nil || left < 1 {
			return c.wrong("-n " + n + ": it is a number of events, at least 1")
		}
	}
	mode, what := client.Persistent, path
	if c.opts.has("r") {
		mode, what = client.Recursive, path+" and what is below it"
	}
	for ev, err := range c.view().Watch(ctx, path, mode) {
		switch {
		case errors.Is(err, client.ErrLagged):
			c.note("%v", err)
			continue
		case err != nil:
			return err
		case ev.Type == client.EventReset:
			// The watch is set, at first or again after a reconnect: a script waits for this
			// line before it makes the change that it wants to see.
			c.note("watching %s", what)
			continue
		}
		if err := c.printEvent(ev); err != nil {
			return err
		}
		if left--; left == 0 {
			return nil
		}
	}
	return nil
}

// printEvent prints one event at once.
func (c *call) printEvent(ev client.Event) error {
	now := time.Now()
	switch c.format {
	case formatJSON:
		err := c.json(struct {
			Time string `json:"time"`
			told
		}{isoTime(now.UnixMilli()), nodeEvent(ev.Type.String(), ev.Path, ev.Zxid)})
		if err != nil {
			return err
		}
	case formatRaw:
		c.printf("%s %s\n", ev.Type, ev.Path)
	default:
		c.printf("%s  %-19s  %s\n", now.Format("15:04:05.000"), ev.Type, ev.Path)
	}
	return c.sh.out.Flush()
}
