package check

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/zkd-project/zkd/jepsen/history"
)

// timePerKey bounds the search for an order; running out of it is a failure of the run.
const timePerKey = 60 * time.Second

// register is a znode as a linearizable object.
type register struct {
	exists  bool
	value   string
	version int32
}

// Register checks that writes, and reads after a sync, are linearizable on every key: there is
// an order of them in which each is answered as it was, and which keeps the order of those
// that did not overlap. It looks at no zxid. A write without an answer may have happened at any
// time after its beginning, or never: the latter is the same as at the end of time, when nobody
// looks any more.
func Register(ops []history.Op) Result {
	r := Result{Checker: "register"}
	byKey := registerOps(ops)
	for _, list := range byKey {
		r.Checked += len(list)
	}
	keys := make([]string, 0, len(byKey))
	for k := range byKey {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		switch verdict, info := porcupine.CheckOperationsVerbose(registerModel, byKey[k], timePerKey); verdict {
		case porcupine.Ok:
		case porcupine.Unknown:
			r.Undecided++
		default:
			r.add(stuck(info, byKey[k]), "no order of the %d operations on %s explains their answers", len(byKey[k]), k)
		}
	}
	return r
}

// registerOps are the operations that Register judges, by key.
func registerOps(ops []history.Op) map[string][]porcupine.Operation {
	byKey := map[string][]porcupine.Operation{}
	for i := range ops {
		o := &ops[i]
		switch o.F {
		case opSet, opCreate, opDelete, opSyncGet:
		default:
			continue
		}
		if o.Kind != history.OK && (o.Kind != history.Unknown || o.F == opSyncGet) {
			continue
		}
		end := o.End
		if o.Kind == history.Unknown {
			end = math.MaxInt64
		}
		byKey[o.Key] = append(byKey[o.Key], porcupine.Operation{ClientId: o.Proc, Input: o, Call: o.Begin, Output: o, Return: end})
	}
	return byKey
}

// DrawRegister writes a page that shows how far an order of the operations on a key goes.
func DrawRegister(w io.Writer, ops []history.Op, key string) error {
	_, info := porcupine.CheckOperationsVerbose(registerModel, registerOps(ops)[key], timePerKey)
	return porcupine.Visualize(registerModel, info, w)
}

// stuck are the operations just beyond the longest order that was found.
func stuck(info porcupine.LinearizationInfo, ops []porcupine.Operation) []history.Op {
	longest := 0
	for _, partials := range info.PartialLinearizationsOperations() {
		for _, p := range partials {
			longest = max(longest, len(p))
		}
	}
	var found []history.Op
	for _, o := range ops[max(0, longest-3):min(len(ops), longest+7)] {
		found = append(found, *o.Input.(*history.Op))
	}
	return found
}

var registerModel = porcupine.Model{
	Init: func() any { return register{} },
	Step: func(state, input, output any) (bool, any) {
		return stepRegister(state.(register), input.(*history.Op))
	},
	Equal: func(a, b any) bool { return a == b },
	DescribeOperation: func(input, _ any) string {
		o := input.(*history.Op)
		return fmt.Sprintf("%s %q version %d: %s %d", o.F, o.Value, o.Arg, o.Kind, o.Code)
	},
	DescribeState: func(state any) string { return fmt.Sprintf("%+v", state) },
}

// stepRegister says whether the answer fits the state, and what the state is then.
func stepRegister(s register, o *history.Op) (bool, register) {
	if o.F == opSyncGet {
		if o.Code == codeNoNode {
			return !s.exists, s
		}
		return o.Code == codeOK && s.exists && o.Value == s.value && o.Stat != nil && o.Stat.Version == s.version, s
	}
	code, next := applyRegister(s, o)
	if o.Kind == history.Unknown {
		return true, next
	}
	if o.Code != code {
		return false, s
	}
	if o.F == opSet && code == codeOK && (o.Stat == nil || o.Stat.Version != next.version) {
		return false, s
	}
	return true, next
}

// applyRegister is what a correct server does with a write.
func applyRegister(s register, o *history.Op) (code int32, next register) {
	fits := o.Arg == -1 || int32(o.Arg) == s.version
	switch {
	case o.F == opCreate && s.exists:
		return codeExists, s
	case o.F == opCreate:
		return codeOK, register{exists: true, value: o.Value}
	case !s.exists:
		return codeNoNode, s
	case !fits:
		return codeBadVersion, s
	case o.F == opDelete:
		return codeOK, register{}
	}
	return codeOK, register{exists: true, value: o.Value, version: s.version + 1}
}

// Describe lists operations, one a line.
func Describe(ops []history.Op) string {
	var b strings.Builder
	for i := range ops {
		fmt.Fprintf(&b, "    %s\n", &ops[i])
	}
	return b.String()
}
