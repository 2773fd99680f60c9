package config

import (
	"fmt"
	"strings"
)

// An Origin says where a value was found. The zero Origin is a default.
type Origin struct {
	File string // path of the file as it was given; empty if Name says it
	Line int    // 1 is the first; 0 if the whole file is meant
	Name string // for example "environment ZKD_TICK_TIME" or "flag --client-port"
}

// String is "FILE:LINE", "FILE", the name, or "default".
func (o Origin) String() string {
	switch {
	case o.File != "" && o.Line > 0:
		return fmt.Sprintf("%s:%d", o.File, o.Line)
	case o.File != "":
		return o.File
	case o.Name != "":
		return o.Name
	}
	return "default"
}

// variable says whether the value came from the environment.
func (o Origin) variable() bool { return strings.HasPrefix(o.Name, environmentOrigin) }

// environmentOrigin is the start of Origin.Name for an environment variable.
const environmentOrigin = "environment "

// A Problem keeps the server from starting.
type Problem struct {
	Origin Origin
	Key    string // as it was written; empty if no key is to blame
	Text   string // what is wrong, and what is allowed
}

// String is "FILE:LINE: key: what is wrong".
func (p Problem) String() string { return located(p.Origin, p.Key, p.Text) }

// A Warning tells of something that was found and does not do what one may expect.
type Warning struct {
	Origin Origin // zero if the warning is about several places
	Key    string // as it was written; empty if the warning is about several keys
	Text   string
	Keys   []string // the keys that have no meaning here; nil in any other warning
}

// String is "FILE:LINE: key: text", or the text alone if there is no one place.
func (w Warning) String() string { return located(w.Origin, w.Key, w.Text) }

func located(o Origin, key, text string) string {
	var b strings.Builder
	if o != (Origin{}) {
		b.WriteString(o.String() + ": ")
	}
	if key != "" {
		b.WriteString(key + ": ")
	}
	b.WriteString(text)
	return b.String()
}

// Error is what Load returns when the configuration cannot be used: all that is wrong, file
// by file in the order of the lines.
type Error struct{ Problems []Problem }

// Error returns one line per problem.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}
