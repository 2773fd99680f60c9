package machine

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/zkd-project/zkd/internal/script"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/wire"
)

var sessionCommands = map[string]func(*interpreter, *script.Cmd) string{
	"open": func(in *interpreter, c *script.Cmd) string {
		if len(c.Args) == 0 {
			panic(usage("which session?"))
		}
		cl := in.clients[c.Args[0]]
		if cl == nil {
			cl = &client{name: c.Args[0], id: int64(1<<56 + len(in.clients) + 1)}
			in.clients[cl.name], in.byID[cl.id] = cl, cl.name
		}
		cmd := state.Command{
			Kind: state.KindCreateSession, Session: cl.id, Password: cl.password(),
			TimeoutMs: int32(number(c, "timeout", 4000)), Origin: session.Origin{Boot: 1, Conn: 1},
		}
		if c.Has("wrong") {
			cmd.Password[15] = 1
		}
		in.apply(cmd)
		if text, ok := outcomes[in.r.Outcome]; ok {
			return text
		}
		*cl = client{name: cl.name, id: cl.id, epoch: in.r.Epoch, conn: 1}
		in.acting = cl
		return fmt.Sprintf("epoch %d, timeout %d ms", in.r.Epoch, in.r.TimeoutMs)
	},
	"as": func(in *interpreter, c *script.Cmd) string {
		in.acting = in.client(c)
		in.acting.ids = nil
		for _, word := range c.Args[1:] {
			scheme, id, ok := strings.Cut(word, ":")
			if !ok {
				panic(usage("identities are scheme:id"))
			}
			in.acting.ids = append(in.acting.ids, wire.ID{Scheme: scheme, ID: id})
		}
		return ""
	},
	"attach": func(in *interpreter, c *script.Cmd) string {
		cl := in.client(c)
		cl.conn++
		cmd := state.Command{
			Kind: state.KindAttach, Session: cl.id, Password: cl.password(), Epoch: cl.epoch,
			TimeoutMs: int32(number(c, "timeout", 4000)), Origin: session.Origin{Boot: 1, Conn: cl.conn},
		}
		if c.Has("wrong") {
			cmd.Password[15] = 1
		}
		if c.Has("late") {
			cmd.Epoch--
		}
		in.apply(cmd)
		if text, ok := outcomes[in.r.Outcome]; ok {
			return text
		}
		if !c.Has("unnoticed") {
			cl.epoch, cl.req = in.r.Epoch, 0
		}
		return fmt.Sprintf("epoch %d, timeout %d ms", in.r.Epoch, in.r.TimeoutMs)
	},
	"close": func(in *interpreter, _ *script.Cmd) string {
		return in.numbered(state.Command{Kind: state.KindCloseSession})
	},
	"expire": func(in *interpreter, c *script.Cmd) string {
		cl := in.client(c)
		epoch := cl.epoch
		if c.Has("late") {
			epoch--
		}
		in.apply(state.Command{Kind: state.KindExpire, Session: cl.id, Epoch: epoch})
		return in.printed()
	},
	"sessions": func(in *interpreter, _ *script.Cmd) string {
		var b strings.Builder
		for s := range in.m.Sessions() {
			fmt.Fprintf(&b, "%s: epoch %d, timeout %d ms, last request %d\n", in.byID[s.ID], s.Epoch, s.TimeoutMs, s.LastReq)
		}
		if b.Len() == 0 {
			return "none"
		}
		return b.String()
	},
}

var worldCommands = map[string]func(*interpreter, *script.Cmd) string{
	"reap": func(in *interpreter, c *script.Cmd) string {
		in.apply(state.Command{Kind: state.KindReap, Path: c.Args[0]})
		return in.printed()
	},
	"time": func(in *interpreter, c *script.Cmd) string {
		ms, err := strconv.ParseInt(c.Args[0], 10, 64)
		if err != nil {
			panic(usage("time wants milliseconds"))
		}
		in.header.TimeMs += ms
		in.apply(state.Command{Kind: state.KindSync})
		return fmt.Sprintf("clock %d, machine %d", in.header.TimeMs, in.m.TimeMs())
	},
	"term": func(in *interpreter, _ *script.Cmd) string {
		in.header.Term++
		in.apply(state.Command{Kind: state.KindSync})
		return zxidText(in.m.Zxid())
	},
	"set-switch": func(in *interpreter, c *script.Cmd) string {
		s := &in.header.Settings
		switches := map[string]*bool{
			"quota": &s.EnforceQuota, "ttl": &s.ExtendedTypes, "skipacl": &s.ACL.SkipACL, "reconfig": &s.Reconfig,
			"sasl": &s.ACL.SASLEnabled, "x509": &s.ACL.X509Enabled,
		}
		for _, word := range c.Args {
			name, value, _ := strings.Cut(word, "=")
			switch {
			case switches[name] != nil:
				*switches[name] = value == "on"
			case name == "digest":
				s.ACL.DigestDisabled = value == "off"
			case name == "never-used":
				s.MaxNeverUsedMs = number(c, name, 0)
			default:
				panic(usage("no switch " + name + "; there are " + strings.Join(slices.Sorted(maps.Keys(switches)), ", ")))
			}
		}
		in.apply(state.Command{Kind: state.KindSync}) // settings travel with the next batch
		return ""
	},
	"restart": func(in *interpreter, _ *script.Cmd) string {
		var b bytes.Buffer
		s := in.m.Snapshot()
		defer s.Close()
		var mu sync.Mutex
		if err := s.Write(&mu, &b); err != nil {
			return "error: " + err.Error()
		}
		m, err := state.Restore(&b)
		if err != nil {
			return "error: " + err.Error()
		}
		if m.Digest() != in.m.Digest() {
			return "error: the digest has changed"
		}
		in.m = m
		return ""
	},
}
