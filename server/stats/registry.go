package stats

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"unicode"
)

// Kind says what a metric is, which decides how it is rendered.
type Kind uint8

// The kinds, in the order in which a Registry lists them (ZooKeeper's).
const (
	KindGauge    Kind = iota // a value that rises and falls
	KindCounter              // a number that only grows (but see View)
	KindSummary              // a distribution: avg_, min_, max_, cnt_, sum_ in mntr
	KindAdvanced             // the same with p50_, p95_, p99_, p999_
	kinds
)

// A Metric describes what is measured.
type Metric struct {
	Name string // ZooKeeper's name, without the "zk_" of mntr; ours begin with "zkd_"
	Help string // one line for people
	Kind Kind
	Set  bool // one value for each key, such as a namespace
}

// A Value is what a metric has at one moment.
type Value struct {
	Int     int64     // counters and gauges, unless IsFloat
	Float   float64   // gauges with a fraction
	IsFloat bool      // Float holds the value, not Int
	Summary *Snapshot // summaries; valid during the call it is passed to
}

// A Registry lists the metrics of one server. All methods may be called by any number of
// goroutines at once.
type Registry struct {
	mu      sync.RWMutex
	names   map[string]bool // guarded by mu
	metrics [kinds][]metric // guarded by mu; append only, so a copied slice stays valid
}

// emitFunc receives the value of one key of a metric ("" unless it is a set).
type emitFunc func(key string, v Value)

// A metric is an entry of the registry.
type metric struct {
	Metric
	read func(v View, emit emitFunc)
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry {
	return &Registry{names: map[string]bool{}}
}

// Gauge lists a value that f computes when it is asked. It is left out while f says false,
// as what only a leader has on a follower. f must not block: people look when things hang.
func (r *Registry) Gauge(name, help string, f func() (int64, bool)) {
	r.add(Metric{Name: name, Help: help, Kind: KindGauge}, func(_ View, emit emitFunc) {
		if n, ok := f(); ok {
			emit("", Value{Int: n})
		}
	})
}

// FloatGauge is Gauge for a value with a fraction.
func (r *Registry) FloatGauge(name, help string, f func() (float64, bool)) {
	r.add(Metric{Name: name, Help: help, Kind: KindGauge}, func(_ View, emit emitFunc) {
		if x, ok := f(); ok {
			emit("", Value{Float: x, IsFloat: true})
		}
	})
}

// GaugeSet lists one value for each key that f returns.
func (r *Registry) GaugeSet(name, help string, f func() map[string]int64) {
	r.add(Metric{Name: name, Help: help, Kind: KindGauge, Set: true}, func(_ View, emit emitFunc) {
		m := f()
		for _, key := range slices.Sorted(maps.Keys(m)) {
			emit(key, Value{Int: m[key]})
		}
	})
}

// Counter lists a counter.
func (r *Registry) Counter(name, help string, c *Counter) {
	r.CounterFunc(name, help, c.Value)
}

// CounterFunc lists a counter that f computes when it is asked.
func (r *Registry) CounterFunc(name, help string, f func(View) int64) {
	r.add(Metric{Name: name, Help: help, Kind: KindCounter}, func(v View, emit emitFunc) {
		emit("", Value{Int: f(v)})
	})
}

// CounterSet lists a set of counters.
func (r *Registry) CounterSet(name, help string, s *CounterSet) {
	r.add(Metric{Name: name, Help: help, Kind: KindCounter, Set: true}, func(v View, emit emitFunc) {
		s.keys.each(func(key string, c *Counter) { emit(key, Value{Int: c.Value(v)}) })
	})
}

// Summary lists a histogram, as KindSummary or KindAdvanced.
func (r *Registry) Summary(name, help string, k Kind, h *Histogram) {
	r.SummaryFunc(name, help, k, h.Read)
}

// SummaryFunc lists a summary that f adds up in s when it is asked.
func (r *Registry) SummaryFunc(name, help string, k Kind, f func(v View, s *Snapshot)) {
	r.add(Metric{Name: name, Help: help, Kind: k}, func(v View, emit emitFunc) {
		s := new(Snapshot)
		f(v, s)
		emit("", Value{Summary: s})
	})
}

// add panics when the name is taken: names are constants of the program.
func (r *Registry) add(m Metric, read func(View, emitFunc)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.names[m.Name] {
		panic(fmt.Sprintf("stats: metric %q is registered twice", m.Name))
	}
	r.names[m.Name] = true
	r.metrics[m.Kind] = append(r.metrics[m.Kind], metric{m, read})
}

// Visit calls fn with every value of every metric, by kind and in the order in which they
// were registered, the keys of a set in their order. No lock is held meanwhile.
func (r *Registry) Visit(v View, fn func(m Metric, key string, val Value)) {
	r.mu.RLock()
	all := r.metrics
	r.mu.RUnlock()
	for _, ms := range all {
		for _, m := range ms {
			m.read(v, func(key string, val Value) { fn(m.Metric, key, val) })
		}
	}
}

// Monitor calls fn with every line of mntr, without its "zk_": a key of ZooKeeper and a
// value as mntr prints it, so a whole number unless it has a fraction by nature.
func (r *Registry) Monitor(fn func(key, value string)) {
	r.Visit(SinceReset, func(m Metric, key string, v Value) {
		name := m.Name
		if m.Set {
			name = monitorKey(key) + "_" + name
		}
		switch {
		case v.Summary != nil:
			monitorSummary(name, m.Kind, v.Summary, fn)
		case v.IsFloat:
			fn(name, FormatFloat(v.Float))
		default:
			fn(name, strconv.FormatInt(v.Int, 10))
		}
	})
}

// monitorQuantiles are the percentiles of an advanced summary.
var monitorQuantiles = []struct {
	prefix string
	q      float64
}{{"p50_", 0.5}, {"p95_", 0.95}, {"p99_", 0.99}, {"p999_", 0.999}}

func monitorSummary(name string, k Kind, s *Snapshot, fn func(key, value string)) {
	whole := func(prefix string, n int64) { fn(prefix+name, strconv.FormatInt(n, 10)) }
	fn("avg_"+name, FormatFloat(s.Avg()))
	whole("min_", s.Min())
	whole("max_", s.Max())
	whole("cnt_", s.Count)
	whole("sum_", s.Total())
	if k != KindAdvanced {
		return
	}
	for _, p := range monitorQuantiles {
		whole(p.prefix, int64(s.Quantile(p.q)+0.5)) // rounded as ZooKeeper does
	}
}

// monitorKey makes the key of a set fit for a line of mntr. A namespace may contain blanks
// and anything else that clients put into a name, and collectors give up on the whole
// output when one line is not a word, white space and a value.
func monitorKey(key string) string {
	fit := func(c rune) bool {
		return c == '_' || c == '-' || c == '.' || c < unicode.MaxASCII && (unicode.IsLetter(c) || unicode.IsDigit(c))
	}
	out := []rune(key)
	for i, c := range out {
		if !fit(c) {
			out[i] = '_'
		}
	}
	return string(out)
}
