package main

import (
	"bufio"
	"errors"
	"fmt"
	"html"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/jepsen/history"
	"github.com/zkd-project/zkd/jepsen/nemesis"
)

// The charts show a run second by second: how long answers took, and how many there were.
// Faults are bands behind the lines.
const (
	chartWidth, chartHeight = 1200, 300
	chartMargin             = 40
)

// A curve is a line of a chart, a value for each second. NaN leaves a gap.
type curve struct {
	name, colour string
	values       []float64
}

// writeCharts writes latency.svg and rate.svg.
func writeCharts(dir string, ops []history.Op, faults []nemesis.Fault) error {
	var end int64
	for i := range ops {
		end = max(end, ops[i].End)
	}
	seconds := int(end/int64(time.Second)) + 1
	took := make([][]float64, seconds)
	rates := map[history.Kind][]float64{history.OK: make([]float64, seconds), history.Unknown: make([]float64, seconds), history.Fail: make([]float64, seconds)}
	for i := range ops {
		o := &ops[i]
		second := max(0, int(o.End/int64(time.Second)))
		if r := rates[o.Kind]; r != nil {
			r[second]++
		}
		if o.Kind == history.OK {
			took[second] = append(took[second], float64(o.End-o.Begin)/1e6)
		}
	}
	lines := []curve{{"p50", "#36c", nil}, {"p99", "#c63", nil}, {"longest", "#d00", nil}}
	for _, list := range took {
		slices.Sort(list)
		for i, share := range []float64{0.5, 0.99, 1} {
			lines[i].values = append(lines[i].values, quantile(list, share))
		}
	}
	err := writeChart(filepath.Join(dir, "latency.svg"), "ms from request to answer, logarithmic", true, lines, faults)
	return errors.Join(err, writeChart(filepath.Join(dir, "rate.svg"), "operations a second", false, []curve{
		{"answered", "#393", rates[history.OK]}, {"without an answer", "#c3c", rates[history.Unknown]}, {"not done", "#999", rates[history.Fail]},
	}, faults))
}

// quantile of a sorted list; NaN of an empty one.
func quantile(sorted []float64, share float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}

func writeChart(path, title string, logarithmic bool, lines []curve, faults []nemesis.Fault) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	drawChart(w, title, logarithmic, lines, faults)
	return errors.Join(w.Flush(), f.Close())
}

func drawChart(w io.Writer, title string, logarithmic bool, lines []curve, faults []nemesis.Fault) {
	scale := func(v float64) float64 {
		if logarithmic {
			return math.Log10(math.Max(v, 0.01)) + 2 // from 10 µs on
		}
		return v
	}
	most, seconds := 1.0, 1
	for _, l := range lines {
		seconds = max(seconds, len(l.values))
		for _, v := range l.values {
			if !math.IsNaN(v) {
				most = math.Max(most, scale(v))
			}
		}
	}
	x := func(second float64) float64 {
		return chartMargin + second/float64(seconds)*(chartWidth-2*chartMargin)
	}
	y := func(v float64) float64 { return chartHeight - chartMargin - v/most*(chartHeight-2*chartMargin) }
	fmt.Fprintf(w, "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' font-family='sans-serif' font-size='11'>\n<rect width='100%%' height='100%%' fill='#fff'/>\n", chartWidth, chartHeight)
	for _, b := range faults {
		from, to := x(float64(b.Begin)/1e9), x(float64(b.End)/1e9)
		fmt.Fprintf(w, "<rect x='%.1f' y='%d' width='%.1f' height='%d' fill='#fa0' opacity='.25'><title>%s</title></rect>\n",
			from, chartMargin, math.Max(1, to-from), chartHeight-2*chartMargin, html.EscapeString(b.Kind+" "+b.What))
	}
	for _, l := range lines {
		var b strings.Builder
		pen := "M"
		for i, v := range l.values {
			if math.IsNaN(v) {
				pen = "M"
				continue
			}
			fmt.Fprintf(&b, "%s%.1f %.1f", pen, x(float64(i)+0.5), y(scale(v)))
			pen = "L"
		}
		fmt.Fprintf(w, "<path d='%s' fill='none' stroke='%s'/>\n", b.String(), l.colour)
	}
	fmt.Fprintf(w, "<text x='%d' y='20'>%s</text>\n", chartMargin, html.EscapeString(title))
	for i, l := range lines {
		fmt.Fprintf(w, "<text x='%d' y='20' fill='%s'>%s</text>\n", 400+i*150, l.colour, html.EscapeString(l.name))
	}
	for i := range 5 {
		v := most * float64(i) / 4
		label := v
		if logarithmic {
			label = math.Pow(10, v-2)
		}
		fmt.Fprintf(w, "<text x='2' y='%.1f'>%.3g</text>\n", y(v)+4, label)
	}
	fmt.Fprintf(w, "<text x='%d' y='%d'>0 s</text><text x='%d' y='%d'>%d s</text>\n</svg>\n", chartMargin, chartHeight-15, chartWidth-chartMargin-20, chartHeight-15, seconds)
}

// gaps are the longest times without an answered write that fall into each fault, by kind.
func gaps(ops []history.Op, faults []nemesis.Fault) map[string][]time.Duration {
	ends := answered(ops)
	longest := map[string][]time.Duration{}
	for _, f := range faults {
		var gap int64
		at, _ := slices.BinarySearch(ends, f.Begin)
		last := f.Begin
		if at > 0 {
			last = ends[at-1]
		}
		for ; at < len(ends) && last <= f.End; at++ {
			gap = max(gap, ends[at]-last)
			last = ends[at]
		}
		longest[f.Kind] = append(longest[f.Kind], time.Duration(gap))
	}
	return longest
}
