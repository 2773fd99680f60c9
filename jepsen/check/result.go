package check

import (
	"fmt"
	"strings"

	"github.com/zkd-project/zkd/jepsen/history"
)

// A Result is the verdict of one checker.
type Result struct {
	Checker    string      `json:"checker"`
	Checked    int         `json:"checked"`           // operations that were judged
	Undecided  int         `json:"undecided"`         // keys on which the time ran out: a failure of the run
	Violations []Violation `json:"violations"`        // the first ones
	More       int         `json:"more,omitempty"`    // violations beyond those
	Figures    []Figure    `json:"figures,omitempty"` // what else is worth reporting
}

// A Figure is a number that a report shows.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// A Violation is something that must not have happened.
type Violation struct {
	What string       `json:"what"`
	Ops  []history.Op `json:"ops"`
}

// violationsKept of one checker are enough to see what is wrong.
const violationsKept = 10

// OK says whether nothing was found.
func (r *Result) OK() bool { return len(r.Violations) == 0 && r.Undecided == 0 }

func (r *Result) add(ops []history.Op, format string, args ...any) {
	if len(r.Violations) >= violationsKept {
		r.More++
		return
	}
	r.Violations = append(r.Violations, Violation{What: fmt.Sprintf(format, args...), Ops: ops})
}

func (r *Result) figure(name string, value float64) {
	r.Figures = append(r.Figures, Figure{name, value})
}

// A Checker judges a history, which is in the order of the operations' beginning.
type Checker func(ops []history.Op) Result

// Codes of ZooKeeper that mean something to checkers.
const (
	codeOK         = 0
	codeNoNode     = -101
	codeNoAuth     = -102
	codeBadVersion = -103
	codeExists     = -110
	codeNotEmpty   = -111
)

// Operations as workloads name them.
const (
	opSet      = "set"
	opCreate   = "create"
	opDelete   = "delete"
	opGet      = "get"
	opSyncGet  = "sync-get"
	opMulti    = "multi"
	opRead     = "multi-read"
	opChildren = "children"
	opTake     = "take" // a multi that takes an item out of a queue
)

// parent is the path of the node above.
func parent(path string) string { return path[:strings.LastIndexByte(path, '/')] }

// isWrite says whether an operation takes a zxid.
func isWrite(f string) bool {
	switch f {
	case opSet, opCreate, opDelete, opMulti, opTake, "create-ttl", "create-container", "acl-create", "acl-set":
		return true
	}
	return false
}

// deletes says whether it takes its key away.
func deletes(f string) bool { return f == opDelete || f == opTake }

// Flags of a creation.
const (
	ephemeral  = 1
	sequential = 2
)
