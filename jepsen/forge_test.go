package main

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/jepsen/history"
)

// forgeries change a recorded history of each workload so that a checker must object. They
// return false where they find nothing to change; what they have changed then is of no use.
var forgeries = map[string]map[string]func(ops []history.Op) bool{
	"register": {
		"a read after a sync shows the value before": staleRead,
		"two writes with one zxid": func(ops []history.Op) bool {
			var before int64
			return first(ops, func(o *history.Op) bool {
				if o.F != "set" || o.Zxid == 0 {
					return false
				}
				if before == 0 {
					before = o.Zxid
					return false
				}
				o.Zxid = before
				return true
			})
		},
	},
	"session-order": {
		"a write was done twice": func(ops []history.Op) bool {
			settled := map[string]bool{} // by node: its newest operation was answered
			return slices.ContainsFunc(refs(ops), func(o *history.Op) bool {
				before := settled[o.Key]
				settled[o.Key] = o.Kind == history.OK
				if o.F != "set" || o.Kind != history.OK || o.Stat == nil || !before {
					return false
				}
				o.Stat.Version++
				return true
			})
		},
	},
	"append": {
		"a multi-read shows half a multi": func(ops []history.Op) bool {
			return first(ops, func(o *history.Op) bool {
				if o.F != "multi" || o.Code != 0 || len(o.Parts) < 2 || o.Parts[1].Value == "" {
					return false
				}
				read := *o
				read.F, read.Begin, read.End = "multi-read", o.End+1, o.End+2
				read.Parts = []history.Part{{Key: o.Parts[0].Key, Value: o.Parts[0].Value, Version: o.Parts[0].Version + 1}, o.Parts[1]}
				read.Parts[1].Value = ""
				*o = read // the multi itself is taken away: its values come from nowhere
				return true
			})
		},
	},
	"set": {
		"an acknowledged node is missing": missingInTheLastList,
	},
	"sequence": {
		"a number is given twice": func(ops []history.Op) bool {
			name := map[string]string{}
			return first(ops, func(o *history.Op) bool {
				if o.F != "create" || o.Note == "" {
					return false
				}
				other, ok := name[o.Key]
				name[o.Key] = o.Note
				if ok {
					o.Note = other
				}
				return ok
			})
		},
	},
	"ephemeral": {
		"a node is gone while its session lives": func(ops []history.Op) bool {
			made := map[string]int64{}
			return first(ops, func(o *history.Op) bool {
				if o.F == "create" && o.Code == 0 {
					made[strings.TrimPrefix(o.Key, "/ephemeral/")] = o.End
				}
				if o.F != "children" {
					return false
				}
				at := slices.IndexFunc(o.Parts, func(p history.Part) bool { return made[p.Key] > 0 && o.End-made[p.Key] < int64(500*time.Millisecond) })
				if at < 0 {
					return false
				}
				o.Parts = slices.Delete(o.Parts, at, at+1)
				return true
			})
		},
	},
	"lock": {
		"a holder believes in it for too long": heldTooLong,
	},
	"counter": {
		"an increment was done twice": func(ops []history.Op) bool {
			return first(ops, func(o *history.Op) bool {
				if o.F != "set" || o.Stat == nil || o.Stat.Version < 2 {
					return false
				}
				o.Stat.Version++
				return true
			})
		},
	},
	"queue": {"a receipt is missing": missingInTheLastList},
	"bulk":  {"a node of a multi is missing": missingInTheLastList},
	"restart-all": {
		"an acknowledged node is missing in between": func(ops []history.Op) bool {
			made := map[string]bool{}
			return first(ops, func(o *history.Op) bool {
				if o.F == "create" && o.Code == 0 {
					made[o.Key] = true
				}
				if o.F != "children" {
					return false
				}
				at := slices.IndexFunc(o.Parts, func(p history.Part) bool { return made[o.Key+"/"+p.Key] })
				if at < 0 {
					return false
				}
				o.Parts = slices.Delete(o.Parts, at, at+1)
				return true
			})
		},
	},
	"ttl-container": {
		"a node is gone before anybody has used it": func(ops []history.Op) bool {
			until := map[string]int64{} // by the name of the node
			for i := range ops {
				o := &ops[i]
				name, below := strings.CutPrefix(o.Key, "/kept/")
				parent, _, child := strings.Cut(name, "/")
				switch {
				case !below:
				case o.F == "create-container" && o.Code == 0:
					until[name] = math.MaxInt64
				case o.F == "create-ttl" && o.Code == 0:
					until[name] = o.Begin + o.Arg/2
				case child:
					until[parent] = min(until[parent], o.Begin)
				}
			}
			return first(ops, func(o *history.Op) bool {
				if o.F != "children" || o.Key != "/kept" {
					return false
				}
				at := slices.IndexFunc(o.Parts, func(p history.Part) bool { return o.End < until[p.Key] })
				if at < 0 {
					return false
				}
				o.Parts = slices.Delete(o.Parts, at, at+1)
				return true
			})
		},
		"a node that a session does not own has an owner": func(ops []history.Op) bool {
			return first(ops, func(o *history.Op) bool {
				if !strings.HasPrefix(o.F, "create-") || o.Stat == nil {
					return false
				}
				o.Stat.Owner = 7
				return true
			})
		},
	},
	"acl": {
		"what was permitted is refused, and the other way round": func(ops []history.Op) bool {
			n := 0
			for i := range ops {
				if o := &ops[i]; o.F == "probe" && o.Kind == history.OK {
					o.Code, n = -102-o.Code, n+1
				}
			}
			return n > 0
		},
	},
	"election": {"a leader leads for too long": heldTooLong},
	"mutex":    {"a holder believes in it for too long": heldTooLong},
	"watch": {
		"no event ever comes": func(ops []history.Op) bool {
			n := 0
			for i := range ops {
				if ops[i].Kind == history.Event {
					ops[i].Kind, n = history.Fail, n+1
				}
			}
			return n > 0
		},
	},
}

// staleRead has a read after a sync show what was there before a write that was answered before it
// began. Values are written once, so it cannot come back.
func staleRead(ops []history.Op) bool {
	old := map[string]history.Op{} // the newest read of a value
	overwritten := map[string]*history.Op{}
	return first(ops, func(o *history.Op) bool {
		switch before, ok := old[o.Key], overwritten[o.Key]; {
		case o.Code != 0:
			return false
		case o.F == "set" && before.F != "" && o.Begin > before.End && ok == nil:
			overwritten[o.Key] = o
		case o.F == "sync-get" && ok != nil && ok.End < o.Begin:
			o.Value, o.Stat = before.Value, before.Stat
			return true
		case o.F == "sync-get" && ok == nil:
			old[o.Key] = *o
		}
		return false
	})
}

// heldTooLong has a holder whom another one follows believe in its lease for another minute.
func heldTooLong(ops []history.Op) bool {
	newest := map[string]int64{}
	for i := range ops {
		if o := &ops[i]; o.F == "held" {
			newest[o.Key] = max(newest[o.Key], o.Begin)
		}
	}
	return first(ops, func(o *history.Op) bool {
		if o.F != "held" || newest[o.Key] <= o.End {
			return false
		}
		o.End += int64(time.Minute)
		return true
	})
}

// missingInTheLastList takes a node that somebody was told to have made out of the last list that
// has one.
func missingInTheLastList(ops []history.Op) bool {
	made := map[string]bool{}
	for i := range ops {
		switch o := &ops[i]; {
		case o.Kind != history.OK || o.Code != 0:
		case o.F == "create":
			made[o.Key] = true
		case o.F == "take":
			made[strings.Replace(o.Key, "/items/", "/receipts/", 1)] = true
		case o.F == "multi":
			for _, p := range o.Parts {
				made[p.Key] = true
			}
		}
	}
	return last(ops, func(o *history.Op) bool {
		if o.F != "children" {
			return false
		}
		at := slices.IndexFunc(o.Parts, func(p history.Part) bool { return made[o.Key+"/"+p.Key] })
		if at < 0 {
			return false
		}
		o.Parts = slices.Delete(o.Parts, at, at+1)
		return true
	})
}

// refs are the operations, to be changed.
func refs(ops []history.Op) (all []*history.Op) {
	for i := range ops {
		all = append(all, &ops[i])
	}
	return all
}

// first applies f to answered operations until it changes one.
func first(ops []history.Op, f func(o *history.Op) bool) bool {
	for i := range ops {
		if o := &ops[i]; (o.Kind == history.OK || o.F == "held") && f(o) {
			return true
		}
	}
	return false
}

// last is first from the end.
func last(ops []history.Op, f func(o *history.Op) bool) bool {
	for i := len(ops) - 1; i >= 0; i-- {
		if ops[i].Kind == history.OK && f(&ops[i]) {
			return true
		}
	}
	return false
}
