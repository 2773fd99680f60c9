package stats

import "testing"

func TestSinceForgetsWhatWasThereBefore(t *testing.T) {
	h := NewHistogram(Count)
	for range 1000 {
		h.Record(5)
	}
	var before, now Snapshot
	h.Read(SinceStart, &before)
	for range 10 {
		h.Record(20)
	}
	h.Read(SinceStart, &now)
	if d := now.Since(&before); d.Count != 10 || d.Sum != 200 || d.Quantile(0.5) != 20 {
		t.Errorf("got %d values, sum %d, median %v", d.Count, d.Sum, d.Quantile(0.5))
	}
	if now.Count != 1010 || now.Quantile(0.5) != 5 {
		t.Errorf("the snapshot itself changed: %d values, median %v", now.Count, now.Quantile(0.5))
	}
	if d := now.Since(&now); d.Count != 0 || d.Quantile(0.99) != 0 {
		t.Errorf("nothing was recorded since, got %d values", d.Count)
	}
}
