package cli

import (
	"slices"
	"strconv"
	"strings"
)

// An Entry is a line of a reference: what is written, and what it does.
type Entry struct{ Name, About string }

// A Reference is what a manual says of `zkd cli`.
type Reference struct {
	Options   []Entry // before the command
	Commands  []Entry // with their usage, in the order of their names
	ExitCodes []Entry
}

// Describe returns the reference, from the tables that the shell works with.
func Describe() Reference {
	var r Reference
	for _, f := range flags() {
		r.Options = append(r.Options, Entry{strings.TrimRight("-"+f.name+" "+f.value, " "), f.about})
	}
	t := newTable()
	for _, name := range t.names() {
		r.Commands = append(r.Commands, Entry{t[name].usage(), t[name].about})
	}
	for _, e := range exitHelp {
		r.ExitCodes = append(r.ExitCodes, Entry{strconv.Itoa(e.code), e.text})
	}
	return r
}

// completeWord lists the fixed words that an argument of a command may be.
func completeWord(before []string, word string) []string {
	var words []string
	switch {
	case before[0] == "session" && len(before) == 1:
		words = []string{"kill", "list"}
	case before[0] == "log-level" && len(before) == 1:
		words = slices.Clone(logLevels)
	case before[0] == "top" && before[len(before)-1] == "-b":
		for _, l := range new(topAnswer).by() {
			words = append(words, l.name)
		}
	case before[0] == "printwatches" && len(before) == 1:
		words = []string{"off", "on"}
	case before[len(before)-1] == "-o":
		words = []string{"json", "raw", "table"}
	}
	words = slices.DeleteFunc(words, func(w string) bool { return !strings.HasPrefix(w, word) })
	slices.Sort(words)
	return words
}
