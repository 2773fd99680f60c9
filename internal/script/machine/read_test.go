package machine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/internal/script"
	"github.com/zkd-project/zkd/wire"
)

// read runs a read and hands its body to show.
func read(get func(in *interpreter, path string, ids []wire.ID) ([]byte, wire.Code), show func(in *interpreter, d *wire.Decoder) string) func(*interpreter, *script.Cmd) string {
	return func(in *interpreter, c *script.Cmd) string {
		path := ""
		if len(c.Args) > 0 {
			path = c.Args[0]
		}
		var ids []wire.ID
		if in.acting != nil {
			ids = in.acting.ids
		}
		b, code := get(in, path, ids)
		if code != wire.OK {
			return code.String()
		}
		d := wire.NewDecoder(b)
		return show(in, &d)
	}
}

func showStat(in *interpreter, d *wire.Decoder) string {
	s := d.Stat()
	return in.statText(&s)
}

func showStrings(_ *interpreter, d *wire.Decoder) string {
	list := d.Strings()
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, " ")
}

var readCommands = map[string]func(*interpreter, *script.Cmd) string{
	"get": read(func(in *interpreter, path string, ids []wire.ID) ([]byte, wire.Code) {
		return in.m.GetData(nil, path, ids)
	},
		func(_ *interpreter, d *wire.Decoder) string {
			data := d.Buffer()
			if data == nil {
				return "null"
			}
			return strconv.Quote(string(data))
		}),
	"stat": read(func(in *interpreter, path string, ids []wire.ID) ([]byte, wire.Code) {
		return in.m.Exists(nil, path, ids)
	}, showStat),
	"exists": read(func(in *interpreter, path string, ids []wire.ID) ([]byte, wire.Code) {
		return in.m.Exists(nil, path, ids)
	},
		func(*interpreter, *wire.Decoder) string { return "yes" }),
	"ls": read(func(in *interpreter, path string, ids []wire.ID) ([]byte, wire.Code) {
		return in.m.GetChildren(nil, path, ids)
	}, showStrings),
	"count": read(func(in *interpreter, path string, ids []wire.ID) ([]byte, wire.Code) {
		return in.m.GetAllChildrenNumber(nil, path, ids)
	}, func(_ *interpreter, d *wire.Decoder) string { return strconv.Itoa(int(d.Int32())) }),
	"getacl": read(func(in *interpreter, path string, ids []wire.ID) ([]byte, wire.Code) {
		return in.m.GetACL(nil, path, ids)
	},
		func(_ *interpreter, d *wire.Decoder) string { return aclText(d.ACLs()) }),
	"sequence": func(in *interpreter, c *script.Cmd) string {
		n := in.m.Tree().Lookup(c.Args[0])
		if n == nil {
			return wire.NoNode.String()
		}
		return strconv.FormatInt(in.m.Tree().NextSequence(n), 10)
	},
	"ephemerals": read(func(in *interpreter, path string, _ []wire.ID) ([]byte, wire.Code) {
		return in.m.GetEphemerals(nil, in.acting.id, path)
	}, showStrings),
	"events": func(in *interpreter, _ *script.Cmd) string {
		var b strings.Builder
		for _, e := range in.r.Events {
			fmt.Fprintf(&b, "%v %s\n", e.Type, e.Path)
		}
		if b.Len() == 0 {
			return "none"
		}
		return b.String()
	},
	"zxid": func(in *interpreter, _ *script.Cmd) string { return zxidText(in.m.Zxid()) },
	"due": func(in *interpreter, _ *script.Cmd) string {
		list := in.m.Reapable(in.header.TimeMs, in.header.Settings.MaxNeverUsedMs, 100)
		slices.Sort(list)
		if len(list) == 0 {
			return "none"
		}
		return strings.Join(list, " ")
	},
}
