package check

import (
	"slices"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/jepsen/history"
)

// Queue checks queues of sequential nodes below PATH/items. An item is taken by one multi that
// deletes its node and creates a receipt of the same name below PATH/receipts.
//
// Every item that was put is at the end either queued or receipted, and one whose fate is
// unknown at most one of the two; two takes of one item never both succeed, and there is no
// receipt without a take. The lists at the end are of different moments, and a take whose answer was
// lost may still happen between them: their zxids say which may be compared. Where there is one consumer, it gets the items of each producer in the
// order in which they were put.
func Queue(ops []history.Op) Result {
	r := Result{Checker: "queue"}
	queues := map[string]*queue{}
	at := func(path string) *queue {
		q := queues[path]
		if q == nil {
			q = &queue{path: path, put: map[string]*history.Op{}, sent: map[string]bool{}, took: map[string]*history.Op{}, maybe: map[string]bool{}, consumers: map[int]bool{}}
			queues[path] = q
		}
		return q
	}
	for i := range ops {
		o := &ops[i]
		if o.Kind == history.Fail || o.Kind == history.OK && o.Code != codeOK {
			continue
		}
		switch {
		case o.F == opCreate && strings.HasSuffix(o.Key, "/items/i-"):
			at(strings.TrimSuffix(o.Key, "/items/i-")).wasPut(o)
		case o.F == opTake:
			path, name, _ := strings.Cut(o.Key, "/items/")
			r.taken(at(path), o, name)
		case o.F == opChildren && o.Kind == history.OK && o.Note == "final":
			if path, ok := strings.CutSuffix(o.Key, "/items"); ok {
				at(path).items = append(at(path).items, o)
			} else if path, ok := strings.CutSuffix(o.Key, "/receipts"); ok {
				at(path).receipts = append(at(path).receipts, o)
			}
		}
	}
	for _, q := range queues {
		r.settled(q)
		if len(q.consumers) == 1 {
			r.inOrder(q)
		}
	}
	return r
}

// queue is what is known of one.
type queue struct {
	path            string
	put             map[string]*history.Op // answered, by the name of the node
	sent            map[string]bool        // values that may have been put
	took            map[string]*history.Op // answered takes, by name
	maybe           map[string]bool        // names that unanswered takes were after
	takes           []*history.Op
	consumers       map[int]bool
	items, receipts []*history.Op // lists at the end
}

func (q *queue) wasPut(o *history.Op) {
	q.sent[o.Value] = true
	if o.Kind == history.OK {
		q.put[strings.TrimPrefix(o.Note, q.path+"/items/")] = o
	}
}

func (r *Result) taken(q *queue, o *history.Op, name string) {
	r.Checked++
	q.consumers[o.Proc] = true
	if o.Kind == history.Unknown {
		q.maybe[name] = true
		return
	}
	if other := q.took[name]; other != nil {
		r.add([]history.Op{*other, *o}, "the item %s was taken twice", name)
	}
	q.took[name] = o
	q.takes = append(q.takes, o)
	if !q.sent[o.Value] {
		r.add([]history.Op{*o}, "the item %s was taken, and nobody has put %q", name, o.Value)
	}
	if p := q.put[name]; p != nil && p.Value != o.Value {
		r.add([]history.Op{*p, *o}, "the item %s was taken with another value than it was put with", name)
	}
}

// settled compares what was done with what is left.
func (r *Result) settled(q *queue) {
	if q.items == nil || q.receipts == nil {
		r.add(nil, "nobody has read at the end what is left of %s", q.path)
		return
	}
	r.Checked += len(q.put)
	for _, items := range q.items {
		queued := names(items)
		for name, o := range q.took {
			if queued[name] && o.Zxid <= items.Zxid {
				r.add([]history.Op{*o, short(items)}, "the item %s was taken, and is still queued", name)
			}
		}
		for _, receipts := range q.receipts {
			r.left(q, items, receipts, queued, names(receipts))
		}
	}
	for _, receipts := range q.receipts {
		receipted := names(receipts)
		for name, o := range q.took {
			if !receipted[name] && o.Zxid <= receipts.Zxid {
				r.add([]history.Op{*o, short(receipts)}, "the item %s was taken, and has no receipt", name)
			}
		}
		for name := range receipted {
			if q.took[name] == nil && !q.maybe[name] {
				r.add([]history.Op{short(receipts)}, "the item %s has a receipt, and nobody has taken it", name)
			}
		}
	}
}

// left compares two lists: what was not queued any more must have a receipt in every later state,
// and what had a receipt must not be queued in any.
func (r *Result) left(q *queue, items, receipts *history.Op, queued, receipted map[string]bool) {
	if items.Zxid <= receipts.Zxid {
		for name, o := range q.put {
			if o.Zxid <= items.Zxid && !queued[name] && !receipted[name] {
				r.add([]history.Op{*o, short(items), short(receipts)}, "the item %s was put and is lost", name)
			}
		}
	}
	if items.Zxid >= receipts.Zxid {
		for name := range receipted {
			if queued[name] {
				r.add([]history.Op{short(items), short(receipts)}, "the item %s is queued and has a receipt: half a take", name)
			}
		}
	}
}

func names(list *history.Op) map[string]bool {
	m := map[string]bool{}
	for _, p := range list.Parts {
		m[p.Key] = true
	}
	return m
}

// inOrder checks what the only consumer got from each producer. Values are PRODUCER.NUMBER.
func (r *Result) inOrder(q *queue) {
	slices.SortFunc(q.takes, func(a, b *history.Op) int { return int(a.Zxid - b.Zxid) })
	newest := map[string]*history.Op{}
	numberOf := func(o *history.Op) (string, int) {
		producer, text, _ := strings.Cut(o.Value, ".")
		n, _ := strconv.Atoi(text)
		return producer, n
	}
	for _, o := range q.takes {
		producer, n := numberOf(o)
		if before := newest[producer]; before != nil {
			if _, m := numberOf(before); m >= n {
				r.add([]history.Op{*before, *o}, "an item was taken after a later one of the same producer")
			}
		}
		newest[producer] = o
	}
}
