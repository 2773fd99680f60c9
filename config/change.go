package config

import (
	"cmp"
	"slices"
)

// A Change is a key that two configurations give different values.
type Change struct {
	Name     string // canonical
	From, To string // as they are shown: "***" for a secret; "" where nobody sets the key
	// Changeable: a running server can take the new value over; see Key.Changeable.
	Changeable bool
}

// Changes returns what is different between two configurations of one server, in the order of
// the names. Keys without a meaning in zkd are left out.
func Changes(from, to *Config) []Change {
	byName := map[string][2]*Setting{}
	for i, c := range []*Config{from, to} {
		for j := range c.Settings {
			pair := byName[c.Settings[j].Name]
			pair[i] = &c.Settings[j]
			byName[c.Settings[j].Name] = pair
		}
	}
	var all []Change
	for name, pair := range byName {
		k, known := Lookup(name)
		if !known || k.Status == NoMeaning {
			continue
		}
		text := func(s *Setting) (shown, value string) {
			if s == nil {
				return "", k.Default
			}
			return s.Value, s.Text.Reveal()
		}
		shownFrom, valueFrom := text(pair[0])
		shownTo, valueTo := text(pair[1])
		if valueFrom != valueTo {
			all = append(all, Change{Name: name, From: shownFrom, To: shownTo, Changeable: k.Changeable})
		}
	}
	slices.SortFunc(all, func(a, b Change) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
