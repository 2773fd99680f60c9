package cluster

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/jepsen/check"
	"github.com/zkd-project/zkd/wire"
)

// Check returns what in a history breaks a promise.
func Check(entries []Entry) []error {
	var errs []error
	for _, c := range checkers {
		errs = append(errs, c.run(entries)...)
	}
	return errs
}

// A checker looks for one kind of broken promises.
type checker struct {
	name string
	run  func([]Entry) []error
}

var checkers = []checker{
	{"protocol", checkProtocol},
	{"witness", checkWitness},
	{"session", checkSession},
	{"register", checkRegister},
	{"order", checkOrder},
	{"sequence", checkSequence},
	{"ephemeral", checkEphemeral},
	{"watch", checkWatch},
	{"stream", checkStream},
	{"zxids", shared(check.Zxids)},
	{"names", shared(check.Sequence)},
	{"append", shared(check.Append)},
	{"set", shared(check.Set)},
}

// shared makes a checker of one that judges clusters of real processes, too.
func shared(c check.Checker) func([]Entry) []error {
	return func(entries []Entry) []error {
		r := c(operations(entries))
		var errs []error
		for _, v := range r.Violations {
			text := v.What
			for i := range v.Ops {
				text += "\n" + v.Ops[i].String()
			}
			errs = append(errs, fmt.Errorf("%s: %s", r.Checker, text))
		}
		if r.Undecided > 0 {
			errs = append(errs, fmt.Errorf("%s: %d keys could not be judged in time", r.Checker, r.Undecided))
		}
		return errs
	}
}

// checkProtocol repeats what the clients found wrong with the conversation itself.
func checkProtocol(entries []Entry) []error {
	var errs []error
	for i := range entries {
		if e := &entries[i]; e.Kind == Broken {
			errs = append(errs, fmt.Errorf("protocol: %s\n%v", e.Note, e))
		}
	}
	return errs
}

// A change is a write that was acknowledged.
type change struct {
	e       *Entry
	invoked int // Seq of the Sent
}

func isWrite(op wire.OpCode) bool {
	return op == wire.OpCreate2 || op == wire.OpSetData || op == wire.OpDelete || op == wire.OpCloseSession || op == wire.OpMulti
}

// refused says whether a write was not even tried, because a disk is nearly full.
func refused(e *Entry) bool {
	return e.Kind == Replied && e.Result.Err == wire.SystemError && isWrite(e.Op.Code)
}

// checkWitness demands that the zxid is an order in which all acknowledged writes can have
// happened: none has that of another, and one that was acknowledged before another was sent
// has the lower one. The reply itself and the node's stat must agree.
func checkWitness(entries []Entry) []error {
	var errs []error
	var writes []change
	sent := map[int]int{}
	for i := range entries {
		e := &entries[i]
		switch {
		case e.Kind == Sent:
			sent[e.Call] = e.Seq
		case e.Kind == Replied && isWrite(e.Op.Code) && e.Result.Err == wire.OK:
			writes = append(writes, change{e, sent[e.Call]})
			if e.Op.Code == wire.OpSetData && e.Result.Mzxid != e.Result.Zxid {
				errs = append(errs, fmt.Errorf("witness: the stat has zxid %x, the reply %x\n%v", e.Result.Mzxid, e.Result.Zxid, e))
			}
		}
	}
	slices.SortFunc(writes, func(a, b change) int { return cmp.Compare(a.e.Result.Zxid, b.e.Result.Zxid) })
	last := 0 // the latest invocation of those with lower zxids
	var of *Entry
	for i, w := range writes {
		if i > 0 && w.e.Result.Zxid == writes[i-1].e.Result.Zxid {
			errs = append(errs, fmt.Errorf("witness: two writes have one zxid\n%v\n%v", writes[i-1].e, w.e))
		}
		if w.e.Seq < last {
			errs = append(errs, fmt.Errorf("witness: it was acknowledged before the other was sent, and has a higher zxid\n%v\n%v", w.e, of))
		}
		if w.invoked > last {
			last, of = w.invoked, w.e
		}
	}
	return errs
}

// checkSession demands of every session: what it sees never goes back, over all its connections,
// and a fresh read shows every write to that node which was acknowledged before.
func checkSession(entries []Entry) []error {
	type key struct {
		session int64
		path    string
	}
	type write struct {
		seq  int
		zxid int64
	}
	var errs []error
	header := map[int64]int64{}
	node := map[key]int64{}
	writes := map[string][]write{}
	for i := range entries {
		e := &entries[i]
		if e.Kind != Replied {
			continue
		}
		r := &e.Result
		if r.Zxid > 0 && r.Zxid < header[e.Session] {
			errs = append(errs, fmt.Errorf("session: it has seen zxid %x before\n%v", header[e.Session], e))
		}
		header[e.Session] = max(header[e.Session], r.Zxid)
		if r.Err != wire.OK || e.Op.Code == wire.OpGetChildren2 {
			continue
		}
		if isWrite(e.Op.Code) {
			writes[e.Op.Path] = append(writes[e.Op.Path], write{e.Seq, r.Zxid})
		}
		if r.Mzxid == 0 {
			continue
		}
		k := key{e.Session, e.Op.Path}
		if r.Mzxid < node[k] {
			errs = append(errs, fmt.Errorf("session: it has seen this node at zxid %x before\n%v", node[k], e))
		}
		node[k] = max(node[k], r.Mzxid)
		if e.Since == 0 {
			continue
		}
		for _, w := range slices.Backward(writes[e.Op.Path]) {
			if w.seq < e.Since && w.zxid > r.Mzxid {
				errs = append(errs, fmt.Errorf("session: a fresh read misses the write with zxid %x\n%v", w.zxid, e))
				break
			}
			if w.seq < e.Since-10_000 {
				break
			}
		}
	}
	return errs
}
