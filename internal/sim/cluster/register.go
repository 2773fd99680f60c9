package cluster

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/zkd-project/zkd/wire"
)

// The workload register: clients write, compare and set, create, delete and read (with a sync
// before) a few keys, of which each is used for a while only: the checker's work grows quickly
// with the number of operations of unknown outcome.

const (
	registerRoot  = "/register"
	registerKeys  = 2
	registerEpoch = 10 * time.Second
)

func registerScript(ctx context.Context, c *Client) {
	for n := 0; ; n++ {
		l := c.Link(ctx)
		if l == nil {
			return
		}
		epoch := int(c.w.History.now() / registerEpoch)
		path := fmt.Sprintf("%s/%d-%d", registerRoot, epoch, c.Rand.Intn(registerKeys))
		value := fmt.Sprintf("%d.%d", c.Number, n)
		switch c.Rand.Weighted([]int{8, 5, 6, 2, 1}) {
		case 0:
			l.Fresh(Op{Code: wire.OpGetData, Path: path})
		case 1:
			l.Do(Op{Code: wire.OpSetData, Path: path, Data: value, Version: -1})
		case 2:
			if r, ok := l.Do(Op{Code: wire.OpGetData, Path: path}); ok && r.Err == wire.OK {
				l.Do(Op{Code: wire.OpSetData, Path: path, Data: value, Version: r.Version})
			}
		case 3:
			l.Do(Op{Code: wire.OpCreate2, Path: path, Data: value})
		case 4:
			l.Do(Op{Code: wire.OpDelete, Path: path, Version: -1})
		}
		pause(ctx, time.Duration(c.Rand.Intn(200))*time.Millisecond)
	}
}

// registerFinish reads the last keys.
func registerFinish(ctx context.Context, c *Client) error {
	epoch := int(c.w.o.Virtual / registerEpoch)
	for e := max(epoch-1, 0); e <= epoch; e++ {
		for k := range registerKeys {
			if _, err := lastRead(ctx, c, fmt.Sprintf("%s/%d-%d", registerRoot, e, k)); err != nil {
				return err
			}
		}
	}
	return nil
}

// lastRead is a fresh read; the error says that it failed.
func lastRead(ctx context.Context, c *Client, path string) (Result, error) {
	l := c.Link(ctx)
	if l == nil {
		return Result{}, fmt.Errorf("no connection: %w", ctx.Err())
	}
	r, ok := l.Fresh(Op{Code: wire.OpGetData, Path: path})
	if !ok {
		return r, fmt.Errorf("the connection was lost while reading %s", path)
	}
	return r, nil
}

// A register is the state of one key.
type register struct {
	exists  bool
	version int32
	data    string
}

type registerOutput struct {
	unknown bool
	Result
}

var registerModel = porcupine.Model{
	Init: func() any { return register{} },
	Step: func(state, input, output any) (bool, any) {
		return state.(register).step(input.(Op), output.(registerOutput))
	},
	Equal: func(a, b any) bool { return a.(register) == b.(register) },
	DescribeOperation: func(input, output any) string {
		op, out := input.(Op), output.(registerOutput)
		return fmt.Sprintf("%v %q %d → %v %q %d unknown %v", op.Code, op.Data, op.Version, out.Err, out.Data, out.Version, out.unknown)
	},
}

// step says whether the operation can have had that result in this state.
func (s register) step(op Op, out registerOutput) (bool, register) {
	want := Result{Err: wire.OK}
	next := s
	switch {
	case op.Code == wire.OpCreate2 && s.exists:
		want.Err = wire.NodeExists
	case op.Code == wire.OpCreate2:
		next = register{exists: true, data: op.Data}
	case !s.exists:
		want.Err = wire.NoNode
	case op.Code == wire.OpGetData:
		want.Data, want.Version = s.data, s.version
	case op.Version >= 0 && op.Version != s.version:
		want.Err = wire.BadVersion
	case op.Code == wire.OpDelete:
		next = register{}
	case op.Code == wire.OpSetData:
		next.version, next.data = s.version+1, op.Data
		want.Version = next.version
	}
	if out.unknown {
		return true, next
	}
	return out.Err == want.Err && (out.Err != wire.OK || out.Data == want.Data && out.Version == want.Version), next
}

// registerTimeout is how long, in real time, porcupine may think about one key.
var registerTimeout = time.Minute

// checkRegister demands that writes and fresh reads of each key are linearizable.
func checkRegister(entries []Entry) []error {
	sent := map[int]*Entry{}
	keys := map[string][]porcupine.Operation{}
	for i := range entries {
		e := &entries[i]
		if !strings.HasPrefix(e.Op.Path, registerRoot+"/") || e.Op.Code == wire.OpSync || refused(e) {
			continue
		}
		read := e.Op.Code == wire.OpGetData
		switch e.Kind {
		case Sent:
			sent[e.Call] = e
		case Replied, Lost:
			if read && (e.Since == 0 || e.Kind == Lost) {
				continue // nothing is promised, or nothing was seen
			}
			op := porcupine.Operation{
				ClientId: e.Client, Input: e.Op, Call: int64(sent[e.Call].Seq), Return: int64(e.Seq),
				Output: registerOutput{Result: Result{Err: e.Result.Err, Data: e.Result.Data, Version: e.Result.Version}},
			}
			if read {
				op.Call = int64(e.Since)
			}
			if e.Kind == Lost {
				op.Output, op.Return = registerOutput{unknown: true}, math.MaxInt64
			}
			keys[e.Op.Path] = append(keys[e.Op.Path], op)
		}
	}
	var errs []error
	for _, path := range slices.Sorted(maps.Keys(keys)) {
		switch porcupine.CheckOperationsTimeout(registerModel, keys[path], registerTimeout) {
		case porcupine.Illegal:
			errs = append(errs, fmt.Errorf("register: the operations on %s are not linearizable", path))
		case porcupine.Unknown:
			errs = append(errs, fmt.Errorf("register: nobody knows whether the operations on %s are linearizable: the check took too long", path))
		}
	}
	return errs
}
