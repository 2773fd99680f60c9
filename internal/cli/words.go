package cli

import (
	"strconv"
	"strings"
	"unicode"
)

// splitLine cuts a line into words as zkCli does: a word that begins with a quote goes to the
// next quote of the same kind, which is left out with it; any other word ends at white space,
// and quotes inside it are letters. zkCli drops a quote that is never closed; here it is an error.
func splitLine(line string) ([]string, error) {
	var words []string
	for {
		line = strings.TrimLeftFunc(line, unicode.IsSpace)
		if line == "" {
			return words, nil
		}
		if q := line[0]; q == '"' || q == '\'' {
			end := strings.IndexByte(line[1:], q)
			if end < 0 {
				return nil, usagef("a word begins with %c and has no %c at its end", q, q) // not the word: it may be a password
			}
			words = append(words, line[1:1+end])
			line = line[end+2:]
			continue
		}
		end := strings.IndexFunc(line, unicode.IsSpace)
		if end < 0 {
			end = len(line)
		}
		words = append(words, line[:end])
		line = line[end:]
	}
}

// quoteWord writes a word so that splitLine reads it back, if that can be done.
func quoteWord(w string) string {
	switch {
	case w != "" && w[0] != '"' && w[0] != '\'' && !strings.ContainsFunc(w, unicode.IsSpace):
		return w
	case !strings.Contains(w, `"`):
		return `"` + w + `"`
	}
	return "'" + w + "'"
}

// An option is one that a command takes.
type option struct {
	names []string // the first is the key in options; one letter or a word
	value bool     // takes a value
}

// parseSpec reads "s w v: recursive|r file:": names separated by spaces, other names of the
// same option behind a bar, a colon behind those with a value.
func parseSpec(spec string) []option {
	var out []option
	for word := range strings.FieldsSeq(spec) {
		name, hasValue := strings.CutSuffix(word, ":")
		out = append(out, option{names: strings.Split(name, "|"), value: hasValue})
	}
	return out
}

// options are those that were given, by their first name.
type options map[string]string

func (o options) has(name string) bool { _, ok := o[name]; return ok }

// parseOptions takes the options out of args, wherever they stand: -s, -sw, -v 3, -v3, -v=3,
// --recursive. What follows -- is no option, nor is a negative number.
func parseOptions(known []option, args []string) (options, []string, error) {
	given := options{}
	var rest []string
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			return given, append(rest, args[i+1:]...), nil
		}
		if len(a) < 2 || a[0] != '-' {
			rest = append(rest, a)
			continue
		}
		need, ok := readOption(known, given, a)
		switch {
		case !ok && isNegativeNumber(a):
			rest = append(rest, a)
		case !ok:
			return nil, nil, usagef("unknown option %s", a)
		case need != "" && (i+1 == len(args) || isOptionLike(args[i+1])):
			return nil, nil, usagef("option -%s needs a value", need)
		case need != "":
			i++
			given[need] = args[i]
		}
	}
	return given, rest, nil
}

// readOption reads one word of options into given. need is the key of one whose value is the
// next word.
func readOption(known []option, given options, word string) (need string, ok bool) {
	name, value, hasValue := strings.Cut(strings.TrimPrefix(word[1:], "-"), "=")
	if o := find(known, name); o != nil && (o.value || !hasValue) {
		if o.value && !hasValue {
			return o.names[0], true
		}
		given[o.names[0]] = value
		return "", true
	}
	if strings.HasPrefix(word, "--") {
		return "", false
	}
	// Letters in one word; one that takes a value takes the rest of it.
	set := options{}
	letters := word[1:]
	for i := range len(letters) {
		o := find(known, letters[i:i+1])
		switch {
		case o == nil:
			return "", false
		case o.value && i+1 < len(letters):
			set[o.names[0]] = letters[i+1:]
		case o.value:
			need = o.names[0]
		default:
			set[o.names[0]] = ""
			continue
		}
		break
	}
	for k, v := range set {
		given[k] = v
	}
	return need, true
}

func find(known []option, name string) *option {
	for i := range known {
		for _, n := range known[i].names {
			if n == name {
				return &known[i]
			}
		}
	}
	return nil
}

func isOptionLike(a string) bool { return len(a) > 1 && a[0] == '-' && !isNegativeNumber(a) }

func isNegativeNumber(a string) bool {
	_, err := strconv.ParseFloat(a, 64)
	return err == nil && len(a) > 1 && a[0] == '-' && a[1] >= '0' && a[1] <= '9'
}
