// Package rng is the random source of the simulations: small, seeded, and the same in
// every version of Go, so that a seed printed today replays next year.
package rng

// Rand draws numbers by SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom
// number generators): a counter that goes through a mixing function. The zero value is
// the generator of seed 0. Not safe for concurrent use.
type Rand struct {
	state uint64
}

// New returns the generator of a seed.
func New(seed uint64) *Rand { return &Rand{state: seed} }

// Fork returns a generator of its own for the part of a simulation that purpose names, so
// that what one part draws does not shift what the others draw.
func (r *Rand) Fork(purpose string) *Rand {
	h := r.state
	for i := range len(purpose) {
		h = mix(h ^ uint64(purpose[i]))
	}
	return &Rand{state: h}
}

// Uint64 draws 64 bits.
func (r *Rand) Uint64() uint64 {
	r.state += 0x9e3779b97f4a7c15
	return mix(r.state)
}

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Intn draws from 0 to n-1. It panics if n is not positive. The bias of the remainder is
// far below what a test could see.
func (r *Rand) Intn(n int) int {
	if n <= 0 {
		panic("rng: Intn of a number that is not positive")
	}
	return int((r.Uint64() >> 1) % uint64(n))
}

// OneIn is true once in n times on average.
func (r *Rand) OneIn(n int) bool { return r.Intn(n) == 0 }

// Weighted draws an index with the probability of its weight.
func (r *Rand) Weighted(weights []int) int {
	total := 0
	for _, w := range weights {
		total += w
	}
	n := r.Intn(total)
	for i, w := range weights {
		if n < w {
			return i
		}
		n -= w
	}
	panic("rng: unreachable")
}

// Fill fills b with random bytes.
func (r *Rand) Fill(b []byte) {
	for i := range b {
		b[i] = byte(r.Uint64())
	}
}

// Pick draws one element of a list that is not empty.
func Pick[T any](r *Rand, list []T) T { return list[r.Intn(len(list))] }
