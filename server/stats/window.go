package stats

// Since is the part of s that was recorded after base was read from the same histograms in
// the same view: for percentiles of the last minutes instead of all time. The smallest and
// largest value of that time are not known.
func (s *Snapshot) Since(base *Snapshot) *Snapshot {
	d := *s
	d.min, d.max = 0, 0
	d.subtract(base)
	return &d
}
