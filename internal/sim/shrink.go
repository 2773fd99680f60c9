package sim

import "slices"

// Shrink leaves out of a failing history whatever it fails without, and returns what is
// left. It stops after so many runs.
func Shrink(cfg Config, h *History, runs int) *History {
	s := shrinker{cfg: cfg, runs: runs, best: h}
	f, ok := s.fails(h)
	if !ok {
		return h
	}
	s.kind = f.Kind
	s.try(&History{Batches: h.Batches[:min(f.Batch+1, len(h.Batches))]}) // what came later does not matter
	for before := -1; s.runs > 0 && before != s.size(); {
		before = s.size()
		s.batches()
		s.parts()
	}
	return s.best
}

type shrinker struct {
	cfg  Config
	runs int
	kind string // of the failure: another one is another story
	best *History
}

// size counts everything that can be left out.
func (s *shrinker) size() int {
	n := len(s.best.Batches)
	for i := range s.best.Batches {
		b := &s.best.Batches[i]
		n += len(b.Actions) + len(b.Steps) + len(b.Reads)
		for j := range b.Steps {
			n += len(b.Steps[j].Op.Multi)
		}
	}
	return n
}

func (s *shrinker) fails(h *History) (*Failure, bool) {
	s.runs--
	_, err := Run(s.cfg, h)
	f, ok := err.(*Failure)
	return f, ok
}

// try keeps h if it still fails.
func (s *shrinker) try(h *History) bool {
	if s.runs <= 0 {
		return false
	}
	if f, ok := s.fails(h); !ok || f.Kind != s.kind {
		return false
	}
	s.best = h
	return true
}

// batches leaves out runs of batches, long ones first.
func (s *shrinker) batches() {
	for size := len(s.best.Batches) / 2; size > 0; size /= 2 {
		for at := 0; at+size <= len(s.best.Batches) && s.runs > 0; {
			h := &History{Batches: slices.Delete(slices.Clone(s.best.Batches), at, at+size)}
			if !s.try(h) {
				at += size
			}
		}
	}
}

// parts leaves out what is inside batches, one thing at a time.
func (s *shrinker) parts() {
	for i := range s.best.Batches {
		s.each(func(b *Batch) int { return len(b.Actions) }, i,
			func(b *Batch, j int) { b.Actions = without(b.Actions, j) })
		s.each(func(b *Batch) int { return len(b.Reads) }, i,
			func(b *Batch, j int) { b.Reads = without(b.Reads, j) })
		s.each(func(b *Batch) int { return len(b.Steps) }, i,
			func(b *Batch, j int) { b.Steps = without(b.Steps, j) })
		for k := range s.best.Batches[i].Steps {
			s.each(func(b *Batch) int { return len(b.Steps[k].Op.Multi) }, i, func(b *Batch, j int) {
				b.Steps = slices.Clone(b.Steps)
				b.Steps[k].Op.Multi = without(b.Steps[k].Op.Multi, j)
			})
		}
	}
}

// each tries to leave out every one of count things in batch i.
func (s *shrinker) each(count func(*Batch) int, i int, drop func(b *Batch, j int)) {
	for j := count(&s.best.Batches[i]) - 1; j >= 0 && s.runs > 0; j-- {
		h := &History{Batches: slices.Clone(s.best.Batches)}
		drop(&h.Batches[i], j)
		s.try(h)
	}
}

func without[T any](list []T, i int) []T {
	return slices.Delete(slices.Clone(list), i, i+1)
}
