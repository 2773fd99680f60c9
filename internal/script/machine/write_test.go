package machine

import (
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/internal/script"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/wire"
)

// opcodes are the names that scripts use.
var opcodes = map[string]wire.OpCode{
	"create": wire.OpCreate, "create2": wire.OpCreate2, "container": wire.OpCreateContainer, "ttl": wire.OpCreateTTL,
	"delete": wire.OpDelete, "set": wire.OpSetData, "setacl": wire.OpSetACL, "check": wire.OpCheck,
	"reconfig": wire.OpReconfig,
}

var writeCommands = func() map[string]func(*interpreter, *script.Cmd) string {
	commands := map[string]func(*interpreter, *script.Cmd) string{
		"multi": func(in *interpreter, c *script.Cmd) string {
			var body []byte
			for _, line := range c.Input {
				sub, err := script.ParseCmd(line)
				if err != nil || opcodes[sub.Name] == 0 {
					panic(usage("not an operation: " + line))
				}
				h := wire.MultiHeader{Op: opcodes[sub.Name], Err: -1}
				body = record(h.Append(body), sub)
			}
			if !c.Has("unfinished") {
				body = wire.AppendMultiEnd(body)
			}
			return in.numbered(state.Command{Kind: state.KindWrite, Op: wire.OpMulti, Body: body})
		},
		"raw": func(in *interpreter, c *script.Cmd) string {
			op, err := strconv.Atoi(c.Args[0])
			body, err2 := hex.DecodeString(strings.Join(c.Args[1:], ""))
			if err != nil || err2 != nil {
				panic(usage("raw wants a number and bytes in hex"))
			}
			return in.numbered(state.Command{Kind: state.KindWrite, Op: wire.OpCode(op), Body: body})
		},
		"again": func(in *interpreter, _ *script.Cmd) string {
			in.apply(in.last)
			return in.printed()
		},
		"skip": func(in *interpreter, _ *script.Cmd) string {
			in.acting.req++
			defer func() { in.acting.req-- }()
			c := script.Cmd{Name: "create", Args: []string{"/skipped"}}
			return in.numbered(state.Command{Kind: state.KindWrite, Op: wire.OpCreate, Body: record(nil, &c)})
		},
	}
	for name, op := range opcodes {
		commands[name] = func(in *interpreter, c *script.Cmd) string {
			return in.numbered(state.Command{Kind: state.KindWrite, Op: op, Body: record(nil, c)})
		}
	}
	return commands
}()

// record encodes one operation.
func record(b []byte, c *script.Cmd) []byte {
	if len(c.Args) == 0 && c.Name != "reconfig" {
		panic(usage(c.Name + " wants a path"))
	}
	version := int32(number(c, "version", -1))
	var data []byte
	if text, ok := c.Value("data"); ok {
		data = []byte(text)
	}
	switch c.Name {
	case "create", "create2", "container":
		r := wire.CreateRequest{Path: c.Args[0], Data: data, ACL: aclOf(c), Flags: flags(c)}
		return r.Append(b)
	case "ttl":
		r := wire.CreateTTLRequest{Path: c.Args[0], Data: data, ACL: aclOf(c), Flags: flags(c), TTLMs: number(c, "ttl", 1000)}
		return r.Append(b)
	case "delete":
		r := wire.DeleteRequest{Path: c.Args[0], Version: version}
		return r.Append(b)
	case "set":
		r := wire.SetDataRequest{Path: c.Args[0], Data: data, Version: version}
		return r.Append(b)
	case "setacl":
		r := wire.SetACLRequest{Path: c.Args[0], ACL: aclOf(c), Version: version}
		return r.Append(b)
	case "check":
		r := wire.CheckRequest{Path: c.Args[0], Version: version}
		return r.Append(b)
	case "reconfig":
		r := wire.ReconfigRequest{CurConfigID: -1}
		return r.Append(b)
	}
	panic(usage("no record for " + c.Name))
}

func flags(c *script.Cmd) int32 {
	text, ok := c.Value("flags")
	if !ok && c.Name == "container" {
		return wire.FlagContainer
	}
	if c.Name == "ttl" {
		switch text {
		case "":
			return wire.FlagPersistentTTL
		case "sequential":
			return wire.FlagPersistentSequentialTTL
		}
	}
	switch text {
	case "":
		return wire.FlagPersistent
	case "ephemeral":
		return wire.FlagEphemeral
	case "sequential":
		return wire.FlagPersistentSequential
	case "ephemeral-sequential":
		return wire.FlagEphemeralSequential
	}
	return int32(number(c, "flags", 0))
}

const permLetters = "rwcda"

// aclOf reads acl=scheme:id:perms,… ; none is the open list, empty is an empty list.
func aclOf(c *script.Cmd) []wire.ACL {
	text, ok := c.Value("acl")
	if !ok {
		return []wire.ACL{{Perms: wire.PermAll, ID: wire.ID{Scheme: "world", ID: "anyone"}}}
	}
	var list []wire.ACL
	for entry := range strings.SplitSeq(text, ",") {
		if entry == "" {
			continue
		}
		scheme, rest, _ := strings.Cut(entry, ":")
		at := strings.LastIndexByte(rest, ':')
		if at < 0 {
			panic(usage("an ACL is scheme:id:perms,…"))
		}
		a := wire.ACL{ID: wire.ID{Scheme: scheme, ID: rest[:at]}}
		for _, letter := range rest[at+1:] {
			i := strings.IndexRune(permLetters, letter)
			if i < 0 {
				panic(usage("permissions are of " + permLetters))
			}
			a.Perms |= 1 << i
		}
		list = append(list, a)
	}
	return list
}

func aclText(list []wire.ACL) string {
	var parts []string
	for _, a := range list {
		perms := ""
		for i, letter := range permLetters {
			if a.Perms&(1<<i) != 0 {
				perms += string(letter)
			}
		}
		parts = append(parts, a.ID.Scheme+":"+a.ID.ID+":"+perms)
	}
	return strings.Join(parts, ",")
}
