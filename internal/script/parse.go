package script

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Cmd is one command of a script.
type Cmd struct {
	Name  string
	Args  []string // the words after the name, unquoted
	Input []string // the lines between { and }, without surrounding space
}

// Has says whether word is among the arguments.
func (c *Cmd) Has(word string) bool {
	for _, a := range c.Args {
		if a == word {
			return true
		}
	}
	return false
}

// Value returns what follows name= among the arguments.
func (c *Cmd) Value(name string) (value string, ok bool) {
	for _, a := range c.Args {
		if v, ok := strings.CutPrefix(a, name+"="); ok {
			return v, true
		}
	}
	return "", false
}

// ParseCmd reads one command without input and output.
func ParseCmd(line string) (*Cmd, error) {
	words, err := splitWords(line)
	if err != nil {
		return nil, err
	}
	if len(words) == 0 {
		return nil, fmt.Errorf("no command in %q", line)
	}
	return &Cmd{Name: words[0], Args: words[1:]}, nil
}

// splitWords cuts a line at spaces that are not inside a Go string.
func splitWords(line string) ([]string, error) {
	var words []string
	for {
		line = strings.TrimLeftFunc(line, unicode.IsSpace)
		if line == "" {
			return words, nil
		}
		var word strings.Builder
		for line != "" {
			r, n := utf8.DecodeRuneInString(line)
			if unicode.IsSpace(r) {
				break
			}
			if r != '"' {
				word.WriteString(line[:n])
				line = line[n:]
				continue
			}
			quoted, err := strconv.QuotedPrefix(line)
			if err != nil {
				return nil, fmt.Errorf("unfinished string in %q", line)
			}
			text, err := strconv.Unquote(quoted)
			if err != nil {
				return nil, fmt.Errorf("bad string %s: %w", quoted, err)
			}
			word.WriteString(text)
			line = line[len(quoted):]
		}
		words = append(words, word.String())
	}
}

const (
	arrow  = "→"
	dashes = "----"
)

// item is a piece of a file: a comment or an empty line (cmd is nil), or a command.
type item struct {
	line   int // number of its first line, from 1
	text   string
	input  []string // lines between { and }, as they stand there
	cmd    *Cmd
	output string // without final newline; lines separated by newlines
}

// parse takes a file apart.
func parse(data string) ([]*item, error) {
	lines := strings.Split(strings.TrimSuffix(data, "\n"), "\n")
	var items []*item
	for i := 0; i < len(lines); i++ {
		it := &item{line: i + 1, text: strings.TrimRight(lines[i], " \t")}
		items = append(items, it)
		if it.text == "" || strings.HasPrefix(it.text, "#") {
			continue
		}
		last := it.text // the line that may carry an arrow
		if strings.HasSuffix(it.text, " {") && !strings.Contains(it.text, arrow) {
			it.input = []string{} // not nil, even if there is no line
			for i++; i < len(lines) && !strings.HasPrefix(lines[i], "}"); i++ {
				it.input = append(it.input, strings.TrimRight(lines[i], " \t"))
			}
			if i == len(lines) {
				return nil, fmt.Errorf("line %d: no } ends the input of this command", it.line)
			}
			last = lines[i]
		}
		last, output, found := strings.Cut(last, arrow)
		if it.input == nil {
			it.text = strings.TrimRight(last, " \t")
		}
		it.output = strings.TrimSpace(output)
		if found && it.output == "" {
			return nil, fmt.Errorf("line %d: nothing stands behind the arrow", it.line)
		}
		if !found && i+1 < len(lines) && strings.TrimSpace(lines[i+1]) == dashes {
			var out []string
			for i += 2; i < len(lines) && strings.TrimSpace(lines[i]) != ""; i++ {
				out = append(out, strings.TrimRight(lines[i], " \t"))
			}
			i-- // the empty line is an item of its own
			it.output = clean(strings.Join(out, "\n"))
		}
		if err := it.parseCmd(); err != nil {
			return nil, fmt.Errorf("line %d: %w", it.line, err)
		}
	}
	return items, nil
}

func (it *item) parseCmd() error {
	text := it.text
	if it.input != nil {
		text = strings.TrimSuffix(text, "{")
	}
	cmd, err := ParseCmd(text)
	if err != nil {
		return err
	}
	if cmd.Name == dashes {
		return fmt.Errorf("no command stands before %s", dashes)
	}
	for _, line := range it.input {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			cmd.Input = append(cmd.Input, line)
		}
	}
	it.cmd = cmd
	return nil
}

// arrowColumn is the furthest that arrows are moved to the right to stand below each other.
const arrowColumn = 72

// format is the inverse of parse: it writes items with their outputs.
func format(items []*item) string {
	var b strings.Builder
	for i := 0; i < len(items); {
		if items[i].cmd == nil {
			b.WriteString(items[i].text + "\n")
			i++
			continue
		}
		end := i // commands up to the next empty line or comment share a column
		width := 0
		for ; end < len(items) && items[end].cmd != nil; end++ {
			it := items[end]
			w := utf8.RuneCountInString(it.text)
			if it.input == nil && it.oneLine() && w <= arrowColumn {
				width = max(width, w)
			}
		}
		for ; i < end; i++ {
			items[i].format(&b, width)
			if !items[i].oneLine() && (i+1 == len(items) || items[i+1].text != "") && i+1 < len(items) {
				b.WriteString("\n")
			}
		}
	}
	return b.String()
}

// oneLine says whether the output fits behind an arrow.
func (it *item) oneLine() bool { return !strings.Contains(it.output, "\n") }

func (it *item) format(b *strings.Builder, width int) {
	last := it.text
	if it.input != nil {
		b.WriteString(it.text + "\n")
		for _, line := range it.input {
			b.WriteString(line + "\n")
		}
		last = "}"
	}
	switch {
	case it.output == "":
		b.WriteString(last + "\n")
	case it.oneLine():
		pad := 3
		if it.input == nil {
			pad = max(width-utf8.RuneCountInString(last), 0) + 3
		}
		b.WriteString(last + strings.Repeat(" ", pad) + arrow + "  " + it.output + "\n")
	default:
		b.WriteString(last + "\n" + dashes + "\n" + it.output + "\n")
	}
}
