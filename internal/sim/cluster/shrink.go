package cluster

import (
	"slices"
	"time"
)

// Shrink looks for a smaller run that fails in the same way: a shorter one, without some rounds
// of faults, without parts of the work. How goroutines take turns is not part of a seed, so fails
// has to run more than once what does not fail at first; it returns the kind of the failure, ""
// for none, and the rounds that there were. At most so many runs are tried.
func Shrink(o Options, tries int, fails func(Options) (kind string, rounds int)) Options {
	s := shrinker{best: o, tries: tries, fails: fails}
	if s.kind, s.rounds = fails(o); s.kind == "" {
		return o
	}
	s.shorten()
	s.dropRounds()
	s.dropWork()
	s.shorten()
	return s.best
}

type shrinker struct {
	best   Options
	kind   string
	rounds int
	tries  int
	fails  func(Options) (string, int)
}

// try keeps o if it fails in the same way.
func (s *shrinker) try(o Options) bool {
	if s.tries <= 0 {
		return false
	}
	s.tries--
	kind, rounds := s.fails(o)
	if kind != s.kind {
		return false
	}
	s.best, s.rounds = o, rounds
	return true
}

func (s *shrinker) shorten() {
	for s.best.Virtual > 2*time.Second {
		o := s.best
		if o.Virtual = (o.Virtual / 2).Round(time.Second); !s.try(o) {
			break
		}
	}
	for s.best.Virtual > 4*time.Second {
		o := s.best
		if o.Virtual = (o.Virtual * 4 / 5).Round(time.Second); !s.try(o) {
			return
		}
	}
}

// dropRounds leaves out runs of rounds, long ones first. Round 0 is the birth.
func (s *shrinker) dropRounds() {
	for size := s.rounds + 1; size > 0; size /= 2 {
		for first := 0; first <= s.rounds; first += size {
			o := s.best
			o.Skip = slices.Clone(o.Skip)
			for r := first; r < first+size && r <= s.rounds; r++ {
				if !slices.Contains(o.Skip, r) {
					o.Skip = append(o.Skip, r)
				}
			}
			if len(o.Skip) > len(s.best.Skip) {
				slices.Sort(o.Skip)
				rounds := s.rounds
				s.try(o)
				s.rounds = rounds // what is left out at the end is not there any more
			}
		}
	}
}

func (s *shrinker) dropWork() {
	for _, p := range parts {
		if !slices.Contains(s.best.Without, p.name) {
			o := s.best
			o.Without = append(slices.Clone(o.Without), p.name)
			s.try(o)
		}
	}
}
