package cluster

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

// A failure that needs round 3, the clients of "order" and seven seconds is told to need just that.
func TestShrinkLeavesWhatMatters(t *testing.T) {
	runs := 0
	fails := func(o Options) (string, int) {
		runs++
		rounds := int(o.Virtual / (2 * time.Second))
		if rounds < 3 || slices.Contains(o.Skip, 3) || slices.Contains(o.Without, "order") || o.Virtual < 7*time.Second {
			return "", rounds
		}
		return "session", rounds
	}
	got := Shrink(Options{Seed: 9, Virtual: time.Minute}, 200, fails)
	if got.Seed != 9 || got.Virtual != 7*time.Second && got.Virtual != 8*time.Second {
		t.Errorf("seed %d, %v", got.Seed, got.Virtual)
	}
	if want := []int{0, 1, 2}; !reflect.DeepEqual(got.Skip[:3], want) || slices.Contains(got.Skip, 3) {
		t.Errorf("without rounds %v", got.Skip)
	}
	if len(got.Without) != len(parts)-1 || slices.Contains(got.Without, "order") {
		t.Errorf("without %v", got.Without)
	}
	if runs > 60 {
		t.Errorf("%d runs", runs)
	}
}

// Who asks for few runs gets few.
func TestShrinkEndsAfterItsTries(t *testing.T) {
	runs := 0
	Shrink(Options{Virtual: time.Hour}, 5, func(Options) (string, int) { runs++; return "x", 1000 })
	if runs != 6 { // the first shows what the failure is
		t.Errorf("%d runs", runs)
	}
}
