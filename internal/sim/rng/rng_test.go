package rng

import "testing"

// The first numbers of seed 1234567, from the reference implementation of SplitMix64.
func TestNumbersAreThoseOfSplitMix64(t *testing.T) {
	r := New(1234567)
	for i, want := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423} {
		if got := r.Uint64(); got != want {
			t.Errorf("number %d: got %d, want %d", i, got, want)
		}
	}
}

func TestForksAreIndependentAndRepeatable(t *testing.T) {
	a, b := New(7), New(7)
	if a.Fork("x").Uint64() != b.Fork("x").Uint64() {
		t.Error("equal forks of equal seeds differ")
	}
	if a.Fork("x").Uint64() == a.Fork("y").Uint64() {
		t.Error("forks for different purposes are equal")
	}
	if a.Uint64() != b.Uint64() {
		t.Error("forking has shifted the parent")
	}
}

func TestWeightedKeepsItsProportions(t *testing.T) {
	r := New(1)
	var count [3]int
	for range 10000 {
		count[r.Weighted([]int{1, 0, 3})]++
	}
	if count[1] != 0 || count[0] < 2200 || count[0] > 2800 {
		t.Errorf("got %v of 10000, want about 2500, 0, 7500", count)
	}
}
