package machine

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/script"
	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/wire"
)

func TestScripts(t *testing.T) {
	script.Run(t, "testdata/*.txt", func(t *testing.T) script.Interpreter {
		in := &interpreter{
			t: t, m: state.New(), clients: map[string]*client{}, byID: map[int64]string{},
			header: state.BatchHeader{
				TimeMs: 1000, Term: 1,
				Settings: state.Settings{
					ACL: acl.Settings{SASLEnabled: true, X509Enabled: true}, ExtendedTypes: true, EnforceQuota: true,
				},
			},
		}
		return in.run
	})
}

// client is a session as the script knows it.
type client struct {
	name  string
	id    int64
	epoch uint32
	req   uint64
	conn  uint64
	ids   []wire.ID
}

func (c *client) password() (p [16]byte) {
	copy(p[:], c.name)
	return p
}

type interpreter struct {
	t       *testing.T
	m       *state.Machine
	header  state.BatchHeader
	clients map[string]*client
	byID    map[int64]string
	acting  *client
	last    state.Command // the last numbered one, for "again"
	r       state.Result  // of the last command
}

// usage ends a command that makes no sense; run prints it.
type usage string

func (in *interpreter) run(c *script.Cmd) (out string) {
	defer func() {
		if p := recover(); p != nil {
			u, ok := p.(usage)
			if !ok {
				panic(p)
			}
			out = "error: " + string(u)
		}
	}()
	for _, commands := range []map[string]func(*interpreter, *script.Cmd) string{sessionCommands, writeCommands, readCommands, worldCommands} {
		if f := commands[c.Name]; f != nil {
			return f(in, c)
		}
	}
	panic(usage("unknown command " + c.Name))
}

// apply takes a command through the log and applies it.
func (in *interpreter) apply(c state.Command) {
	in.header.Index++
	entry := state.AppendCommand(state.AppendHeader(nil, &in.header, 1), &c)
	h := state.BatchHeader{Term: in.header.Term, Index: in.header.Index}
	var d state.BatchDecoder
	if err := d.Reset(entry, &h); err != nil {
		in.t.Fatal(err)
	}
	in.m.BeginBatch(&h)
	for d.Next(&c) {
		in.m.Apply(&h, &c, &in.r)
	}
	if err := d.Err(); err != nil {
		in.t.Fatal(err)
	}
	if err := in.m.Check(); err != nil {
		in.t.Fatal(err)
	}
}

var outcomes = map[state.Outcome]string{
	state.Duplicate: "duplicate", state.Gap: "gap", state.Moved: "moved", state.NoSession: "no session",
	state.SessionTaken: "id taken", state.Stale: "stale",
}

func (in *interpreter) client(c *script.Cmd) *client {
	if len(c.Args) == 0 {
		panic(usage("which session?"))
	}
	cl := in.clients[c.Args[0]]
	if cl == nil {
		panic(usage("no session " + c.Args[0]))
	}
	return cl
}

func number(c *script.Cmd, name string, otherwise int64) int64 {
	text, ok := c.Value(name)
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 0, 64)
	if err != nil {
		panic(usage(name + " wants a number"))
	}
	return n
}

// numbered applies a command of the acting session as its next request.
func (in *interpreter) numbered(cmd state.Command) string {
	cl := in.acting
	if cl == nil {
		panic(usage("open a session first"))
	}
	cl.req++
	cmd.Session, cmd.Epoch, cmd.Req, cmd.IDs = cl.id, cl.epoch, cl.req, cl.ids
	in.last = cmd
	in.apply(cmd)
	if in.r.Outcome == state.Gap {
		cl.req--
	}
	return in.printed()
}

// printed is the result as a client sees it.
func (in *interpreter) printed() string {
	r := &in.r
	if text, ok := outcomes[r.Outcome]; ok {
		return text
	}
	if r.Code != wire.OK {
		return r.Code.String()
	}
	switch r.Op {
	case wire.OpCreate:
		return r.Path
	case wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		return r.Path + " " + in.statText(&r.Stat)
	case wire.OpSetData:
		return fmt.Sprintf("version %d", r.Stat.Version)
	case wire.OpSetACL:
		return fmt.Sprintf("aversion %d", r.Stat.Aversion)
	case wire.OpMulti:
		return in.multiText()
	}
	return "ok"
}

func (in *interpreter) multiText() string {
	var parts []string
	for i := range in.r.Multi {
		s := &in.r.Multi[i]
		switch {
		case s.Op == wire.OpError:
			parts = append(parts, s.Code.String())
		case s.Op == wire.OpSetData:
			parts = append(parts, fmt.Sprintf("version %d", s.Stat.Version))
		case s.Path != "":
			parts = append(parts, s.Op.String()+" "+s.Path)
		default:
			parts = append(parts, s.Op.String())
		}
	}
	if len(parts) == 0 {
		return "ok, of nothing"
	}
	return strings.Join(parts, ", ")
}

func zxidText(z int64) string { return fmt.Sprintf("%d:%d", z>>32, uint32(z)) }

func (in *interpreter) statText(s *wire.Stat) string {
	text := fmt.Sprintf("czxid=%s mzxid=%s pzxid=%s ctime=%d mtime=%d version=%d cversion=%d aversion=%d length=%d children=%d",
		zxidText(s.Czxid), zxidText(s.Mzxid), zxidText(s.Pzxid), s.CtimeMs, s.MtimeMs,
		s.Version, s.Cversion, s.Aversion, s.DataLength, s.NumChildren)
	if s.EphemeralOwner != 0 {
		text += " owner=" + in.byID[s.EphemeralOwner]
	}
	return text
}
