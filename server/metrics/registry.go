package metrics

import (
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/zkd-project/zkd/server/stats"
)

// windowTime is how old a reading is, at least, before percentiles are computed against the
// one after it: they are of the time between once and twice this.
const windowTime = 5 * time.Minute

// A window holds the two latest readings of a summary that were kept.
type window struct{ older, newer *stats.Snapshot }

// windows are the older readings of all summaries. Their number is bounded: summaries by
// namespace, whose names clients choose, have none.
type windows struct {
	now func() time.Time

	mu      sync.Mutex
	byName  map[[2]string]*window // guarded by mu; by metric and key
	rotated time.Time             // guarded by mu
}

func newWindows(now func() time.Time) *windows {
	return &windows{now: now, byName: map[[2]string]*window{}, rotated: now()}
}

// appendRegistry appends every metric of r.
func (w *windows) appendRegistry(t *text, r *stats.Registry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	rotate := now.Sub(w.rotated) >= windowTime
	if rotate {
		w.rotated = now
	}
	r.Visit(stats.SinceStart, func(m stats.Metric, key string, v stats.Value) {
		var of label
		if m.Set {
			of = label{"key", key}
		}
		switch {
		case v.Summary != nil:
			recent := v.Summary
			if m.Kind == stats.KindAdvanced || !m.Set {
				recent = w.recent([2]string{m.Name, key}, v.Summary, rotate)
			}
			appendSummary(t, m, of, v.Summary, recent)
		case v.IsFloat:
			t.header(m.Name, m.Help, kindName(m.Kind))
			t.sample(m.Name, v.Float, of)
		default:
			t.header(m.Name, m.Help, kindName(m.Kind))
			t.sample(m.Name, float64(v.Int), of)
		}
	})
}

// recent is the part of s that is new since the older of the readings kept; mu is held.
func (w *windows) recent(name [2]string, s *stats.Snapshot, rotate bool) *stats.Snapshot {
	kept := w.byName[name]
	if kept == nil {
		// Nothing is known of what came before: as if it were recent.
		kept = &window{older: &stats.Snapshot{Unit: s.Unit}, newer: &stats.Snapshot{Unit: s.Unit}}
		w.byName[name] = kept
	}
	if rotate {
		reading := *s
		kept.older, kept.newer = kept.newer, &reading
	}
	return s.Since(kept.older)
}

func kindName(k stats.Kind) string {
	switch k {
	case stats.KindGauge:
		return "gauge"
	case stats.KindCounter:
		return "counter"
	}
	return "summary"
}

// ZooKeeper's percentiles of a basic and of an advanced summary.
var (
	basic    = []float64{0.5}
	advanced = []float64{0.5, 0.9, 0.99}
)

func appendSummary(t *text, m stats.Metric, of label, s, recent *stats.Snapshot) {
	t.header(m.Name, m.Help, "summary")
	quantiles := basic
	if m.Kind == stats.KindAdvanced {
		quantiles = advanced
	}
	for _, q := range quantiles {
		v := recent.Quantile(q)
		if recent.Count == 0 {
			v = math.NaN() // as Prometheus' libraries say that there was nothing
		}
		t.sample(m.Name, v, of, label{"quantile", strconv.FormatFloat(q, 'g', -1, 64)})
	}
	t.sample(m.Name+"_count", float64(s.Count), of)
	t.sample(m.Name+"_sum", s.TotalExact(), of)
}
