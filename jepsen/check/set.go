package check

import (
	"strings"

	"github.com/zkd-project/zkd/jepsen/history"
)

// Set checks that what was created and never deleted is there at the end, and nothing that was
// never asked for or certainly refused. The end are all lists with the note "final": each server
// is asked for one.
func Set(ops []history.Op) Result {
	r := Result{Checker: "set"}
	created := map[string]*history.Op{}
	var final []*history.Op
	for i := range ops {
		o := &ops[i]
		switch {
		case o.F == opCreate:
			created[o.Key] = o
		case o.F == opChildren && o.Kind == history.OK && o.Code == codeOK && o.Note == "final":
			final = append(final, o)
		}
	}
	for _, list := range final {
		parent, there := list.Key, map[string]bool{}
		for _, p := range list.Parts {
			path := parent + "/" + p.Key
			there[path] = true
			r.Checked++
			if o := created[path]; o == nil || o.Kind == history.Fail {
				r.add([]history.Op{short(list)}, "%s is there, and nobody can have created it", path)
			}
		}
		for path, o := range created {
			if strings.HasPrefix(path, parent+"/") && o.Kind == history.OK && o.Code == codeOK && !there[path] {
				r.add([]history.Op{*o, short(list)}, "%s was acknowledged and is lost", path)
			}
		}
	}
	if len(final) == 0 && len(created) > 0 {
		r.add(nil, "nobody has read at the end what was created")
	}
	return r
}
