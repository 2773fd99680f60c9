package main

import (
	"bufio"
	"fmt"
	"html"
	"os"
	"slices"

	"github.com/zkd-project/zkd/jepsen/history"
	"github.com/zkd-project/zkd/jepsen/nemesis"
)

// The timeline is a page with a lane for each client, a band for each fault and a bar for each
// operation; those of violations are red. It needs nothing but itself.
const (
	laneHeight = 16
	// perSecond is the width of a second.
	perSecond = 120
	// barsAtMost keeps the page small enough for a browser; violations are always shown.
	barsAtMost = 20_000
)

func writeTimeline(path string, v *Verdict, ops []history.Op, faults []nemesis.Fault) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	guilty := map[int64]bool{} // by beginning
	for _, r := range v.Results {
		for _, x := range r.Violations {
			for i := range x.Ops {
				guilty[x.Ops[i].Begin] = true
			}
		}
	}
	var procs []int
	var end int64
	for i := range ops {
		end = max(end, ops[i].End)
		if !slices.Contains(procs, ops[i].Proc) {
			procs = append(procs, ops[i].Proc)
		}
	}
	slices.Sort(procs)
	width := at(end) + 100
	height := (len(procs) + 2) * laneHeight
	fmt.Fprintf(w, "<!doctype html><meta charset=utf-8><title>%s</title><style>body{font:12px sans-serif}svg{background:#fff}text{font:10px monospace}</style>\n", html.EscapeString(v.Options.command()))
	fmt.Fprintf(w, "<p>%s</p><div style='overflow:auto'><svg width=%d height=%d>\n", html.EscapeString(v.Options.command()), width, height)
	for _, x := range faults {
		fmt.Fprintf(w, "<rect x=%d y=0 width=%d height=%d fill='#fa0' opacity=.25><title>%s</title></rect><text x=%d y=11>%s</text>\n",
			at(x.Begin), max(1, at(x.End)-at(x.Begin)), height, html.EscapeString(fmt.Sprintf("%s %s %v", x.Kind, x.What, x.Targets)), at(x.Begin), html.EscapeString(x.Kind))
	}
	every := max(1, len(ops)/barsAtMost)
	for i := range ops {
		o := &ops[i]
		if i%every != 0 && !guilty[o.Begin] {
			continue
		}
		lane := slices.Index(procs, o.Proc) + 1
		fmt.Fprintf(w, "<rect x=%d y=%d width=%d height=%d fill='%s'><title>%s</title></rect>\n", at(o.Begin), lane*laneHeight,
			max(1, at(o.End)-at(o.Begin)), laneHeight-3, colour(o, guilty[o.Begin]), html.EscapeString(o.String()))
	}
	for i, p := range procs {
		fmt.Fprintf(w, "<text x=0 y=%d>%d</text>\n", (i+2)*laneHeight-5, p)
	}
	fmt.Fprint(w, "</svg></div>\n<ul>\n")
	for _, r := range v.Results {
		for _, x := range r.Violations {
			fmt.Fprintf(w, "<li>%s: %s\n", html.EscapeString(r.Checker), html.EscapeString(x.What))
		}
	}
	for _, t := range v.Troubles {
		fmt.Fprintf(w, "<li>%s\n", html.EscapeString(t))
	}
	fmt.Fprint(w, "</ul>\n")
	if err := w.Flush(); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

func at(ns int64) int { return int(ns * perSecond / 1e9) }

func colour(o *history.Op, guilty bool) string {
	switch {
	case guilty:
		return "#d00"
	case o.Kind == history.OK && o.Code == 0:
		return "#6b6"
	case o.Kind == history.OK:
		return "#9c9"
	case o.Kind == history.Unknown:
		return "#c6c"
	case o.Kind == history.Event:
		return "#36c"
	}
	return "#bbb"
}
