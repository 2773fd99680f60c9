package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/jepsen/foreign"
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
	// Scale is how many times as large the workload bulk may be as it is by itself; 0: once.
	Scale int `json:"scale,omitempty"`
	// Client is whose client the workload drives; "": that of these tests.
	Client string `json:"client,omitempty"`

	Binary string `json:"-"` // built if ""
	// Built is the commit from which Binary was built; "" where that was done before.
	Built string `json:"-"`
	Store string `json:"-"`
	// Patience is how long the cluster may take to serve again after the last fault; 0: what is
	// promised on a machine that has nothing else to do.
	Patience time.Duration `json:"-"`
	// Quiet keeps the folder of a run that found nothing from being kept.
	Quiet bool `json:"-"`
}

func (o *Options) check() error {
	switch {
	case o.Nodes < 1 || o.Nodes > 9:
		return fmt.Errorf("--nodes %d: 1 to 9", o.Nodes)
	case o.Time <= 0:
		return errors.New("--time must be more than 0")
	case o.Scale < 0 || o.Scale > 10:
		return fmt.Errorf("--scale %d: 1 to 10", o.Scale)
	case o.Scale > 1 && o.Workload != "bulk":
		return fmt.Errorf("--scale is for the workload bulk, and %s has none", o.Workload)
	case o.Scale > 1 && slices.ContainsFunc(o.Nemeses, func(n string) bool { return slices.Contains(withDisks, n) }):
		return fmt.Errorf("--scale: the file systems that %s need are too small for it", strings.Join(withDisks, ", "))
	case o.Driver != "" && o.Driver != "loopback" && o.Driver != "netns":
		return fmt.Errorf("--driver %s: loopback or netns", o.Driver)
	}
	if o.Client == "" {
		return nil
	}
	l, err := foreign.Find(o.Client)
	if err == nil && l.Unavailable() != "" {
		err = errors.New(l.Unavailable())
	}
	if err != nil {
		return fmt.Errorf("--client: %w", err)
	}
	return nil
}

// unavailable says why this machine cannot have the run's driver or client; "" if it can.
func (o *Options) unavailable() string {
	if o.Driver == "netns" && noNetns() != "" {
		return noNetns()
	}
	if l, err := foreign.Find(o.Client); err == nil {
		return l.Unavailable()
	}
	return ""
}

// promisedRecovery is how long a cluster may take to serve again after the last fault.
const promisedRecovery = 30 * time.Second

func (o *Options) recovery() time.Duration { return cmp.Or(o.Patience, promisedRecovery) }

// command is what runs the same plan again.
func (o *Options) command() string {
	b := fmt.Sprintf("go run ./jepsen run %s --nodes %d --time %v --seed %d --driver %s", o.Workload, o.Nodes, o.Time, o.Seed, o.Driver)
	if len(o.Nemeses) > 0 {
		b += " --nemesis " + strings.Join(o.Nemeses, ",")
	}
	if o.Mutant != "" {
		b += " --mutant " + o.Mutant
	}
	if o.Client != "" {
		b += " --client " + o.Client
	}
	if o.Scale > 1 {
		b += fmt.Sprintf(" --scale %d", o.Scale)
	}
	if o.Race {
		b += " --race"
	}
	return b
}

// name is that of the folder of results.
func (o *Options) name(now time.Time) string {
	parts := []string{now.UTC().Format("20060102-150405.000"), o.Workload}
	if o.Client != "" {
		parts = append(parts, o.Client)
	}
	if len(o.Nemeses) > 0 {
		parts = append(parts, strings.Join(o.Nemeses, "+"))
	}
	if o.Mutant != "" {
		parts = append(parts, o.Mutant)
	}
	return strings.Join(append(parts, fmt.Sprint(o.Seed)), "-")
}
