package main

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Options say what a run is. All that a run draws follows from them.
type Options struct {
	Workload string        `json:"workload"`
	Nemeses  []string      `json:"nemeses"`
	Nodes    int           `json:"nodes"`
	Time     time.Duration `json:"time"`
	Seed     uint64        `json:"seed"`
	Driver   string        `json:"driver"`
	Mutant   string        `json:"mutant,omitempty"`
	Race     bool          `json:"race,omitempty"`

	Binary string `json:"-"` // built if ""
	Store  string `json:"-"`
	// Quiet keeps the folder of a run that found nothing from being kept.
	Quiet bool `json:"-"`
}

func (o *Options) check() error {
	switch {
	case o.Nodes < 1 || o.Nodes > 9:
		return fmt.Errorf("--nodes %d: 1 to 9", o.Nodes)
	case o.Time <= 0:
		return errors.New("--time must be more than 0")
	case o.Driver != "" && o.Driver != "loopback" && o.Driver != "netns":
		return fmt.Errorf("--driver %s: loopback or netns", o.Driver)
	}
	return nil
}

// command is what runs the same plan again.
func (o *Options) command() string {
	b := fmt.Sprintf("go run ./jepsen run %s --nodes %d --time %v --seed %d --driver %s", o.Workload, o.Nodes, o.Time, o.Seed, o.Driver)
	if len(o.Nemeses) > 0 {
		b += " --nemesis " + strings.Join(o.Nemeses, ",")
	}
	if o.Mutant != "" {
		b += " --mutant " + o.Mutant
	}
	if o.Race {
		b += " --race"
	}
	return b
}

// name is that of the folder of results.
func (o *Options) name(now time.Time) string {
	parts := []string{now.UTC().Format("20060102-150405.000"), o.Workload}
	if len(o.Nemeses) > 0 {
		parts = append(parts, strings.Join(o.Nemeses, "+"))
	}
	if o.Mutant != "" {
		parts = append(parts, o.Mutant)
	}
	return strings.Join(append(parts, fmt.Sprint(o.Seed)), "-")
}
