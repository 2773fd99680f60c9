package command

import (
	"slices"
	"strings"
	"testing"
)

func TestSimAsksForTheSeeds(t *testing.T) {
	for _, c := range []struct {
		args string
		want []string
	}{
		{"", []string{"-seed=1", "-seeds=1", "-virtual=1m0s", "-timeout=6m15s"}},
		{"--seed 7 --virtual 10m", []string{"-seed=7", "-seeds=1", "-virtual=10m0s"}},
		{"--seeds 3-500 --shrink 60", []string{"-seed=3", "-seeds=498", "-shrink=60"}},
		{"--seed 7 --skip 1,2 --without watch --history h", []string{"-skip=1,2", "-without=watch", "-history=h"}},
	} {
		cmd, err := Sim(t.Context(), strings.Fields(c.args))
		if err != nil {
			t.Errorf("%q: %v", c.args, err)
			continue
		}
		for _, w := range c.want {
			if !slices.Contains(cmd.Args, w) {
				t.Errorf("%q becomes %q, without %q", c.args, cmd.Args, w)
			}
		}
	}
}

func TestSimRefusesWhatItDoesNotUnderstand(t *testing.T) {
	for _, args := range []string{"--seeds 5", "--seeds 9-3", "--seeds a-b", "--seed 0", "--exact", "--virtual x"} {
		if cmd, err := Sim(t.Context(), strings.Fields(args)); err == nil {
			t.Errorf("%q becomes %q", args, cmd.Args)
		}
	}
}
