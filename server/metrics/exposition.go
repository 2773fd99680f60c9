package metrics

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A text is an exposition in Prometheus' text format, which is, for each metric,
//
//	# HELP name what it is
//	# TYPE name gauge
//	name{label="value"} 1.5
//
// The samples of one metric stand together.
type text struct {
	b    []byte
	last string // the metric that the last header was for
}

// A label is a name and a value; the zero label is none.
type label struct{ name, value string }

// header is written once for the samples that follow.
func (t *text) header(name, help, kind string) {
	if name == t.last {
		return
	}
	t.last = name
	t.b = append(t.b, "# HELP "+name+" "+escape(help, false)+"\n# TYPE "+name+" "+kind+"\n"...)
}

func (t *text) sample(name string, v float64, labels ...label) {
	t.b = append(t.b, name...)
	open := byte('{')
	for _, l := range labels {
		if l == (label{}) {
			continue
		}
		t.b = append(t.b, open)
		t.b = append(t.b, l.name+`="`+escape(l.value, true)+`"`...)
		open = ','
	}
	if open == ',' {
		t.b = append(t.b, '}')
	}
	t.b = append(t.b, ' ')
	t.b = appendNumber(t.b, v)
	t.b = append(t.b, '\n')
}

// single is a metric with one sample.
func (t *text) single(name, help, kind string, v float64, labels ...label) {
	t.header(name, help, kind)
	t.sample(name, v, labels...)
}

// appendNumber writes whole numbers in full: easier to read than Prometheus' own 1.8e+06.
func appendNumber(b []byte, v float64) []byte {
	switch {
	case math.IsInf(v, 1):
		return append(b, "+Inf"...)
	case v == math.Trunc(v) && math.Abs(v) < 1<<53:
		return strconv.AppendInt(b, int64(v), 10)
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}

// escape makes a text fit for one line. Labels hold names that clients chose: what is no
// UTF-8 would make a scraper refuse everything.
func escape(s string, quoted bool) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	if !strings.ContainsAny(s, "\\\n\"") {
		return s
	}
	s = strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(s)
	if quoted {
		s = strings.ReplaceAll(s, `"`, `\"`)
	}
	return s
}
