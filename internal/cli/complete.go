package cli

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/zkd-project/zkd/client"
)

// completeLimit bounds the wait for a server while somebody has pressed Tab.
const completeLimit = time.Second

// maxCandidates bounds a list of candidates: nobody reads more.
const maxCandidates = 500

// complete returns what the word that ends at the end of line may become, and where it begins.
func (sh *shell) complete(line string) (start int, candidates []string) {
	start = wordStart(line)
	word := line[start:]
	before := strings.Fields(line[:start])
	switch {
	case len(before) == 0:
		for _, name := range sh.table.names() {
			if strings.HasPrefix(name, word) {
				candidates = append(candidates, name)
			}
		}
	case strings.HasPrefix(word, "-"):
		candidates = sh.completeOption(before[0], word)
	case before[0] == "help":
		for _, name := range sh.table.names() {
			if strings.HasPrefix(name, word) {
				candidates = append(candidates, name)
			}
		}
	case len(completeWord(before, word)) > 0:
		candidates = completeWord(before, word)
	case word == "":
		candidates = []string{"/"}
	case sh.conn != nil:
		ctx, cancel := context.WithTimeout(context.Background(), completeLimit)
		defer cancel()
		candidates = completePath(ctx, sh.conn.view, word)
	}
	return start, candidates
}

// wordStart is where the last word of a line begins; a quote keeps white space together.
func wordStart(line string) int {
	start, quote := 0, rune(0)
	for i, r := range line {
		switch {
		case quote != 0:
			if r == quote {
				quote, start = 0, i+1
			}
		case unicode.IsSpace(r):
			start = i + len(string(r))
		case (r == '"' || r == '\'') && i == start:
			quote = r
		}
	}
	return start
}

func (sh *shell) completeOption(command, word string) []string {
	cmd := sh.table[command]
	if cmd == nil {
		return nil
	}
	var out []string
	for _, o := range cmd.parsed {
		for _, name := range o.names {
			dashes := "-"
			if len(name) > 1 && len(o.names) > 1 {
				dashes = "--"
			}
			if strings.HasPrefix(dashes+name, word) {
				out = append(out, dashes+name)
			}
		}
	}
	slices.Sort(out)
	return out
}

// completePath lists the nodes that begin so. A word in quotes, or a path with white space, is
// completed in quotes.
func completePath(ctx context.Context, view *client.Client, word string) []string {
	quoted := strings.HasPrefix(word, `"`) || strings.HasPrefix(word, "'")
	path := strings.TrimLeft(word, `"'`)
	if !strings.HasPrefix(path, "/") || strings.Contains(path, "//") {
		return nil
	}
	i := strings.LastIndexByte(path, '/')
	dir := path[:max(i, 1)]
	if checkPath(dir) != nil {
		return nil
	}
	names, _, err := view.Children(ctx, dir)
	if err != nil {
		return nil
	}
	slices.Sort(names)
	var out []string
	for _, name := range names {
		if !strings.HasPrefix(name, path[i+1:]) || len(out) == maxCandidates {
			continue
		}
		full := join(dir, name)
		if quoted && !strings.ContainsFunc(full, unicode.IsSpace) && !strings.Contains(full, `"`) {
			full = `"` + full + `"`
		} else {
			full = quoteWord(full)
		}
		out = append(out, full)
	}
	return out
}

// Complete returns the candidates for the last word of a command line of `zkd cli`, for the
// completion of the user's shell: options, commands, and paths, for which it asks the server.
func Complete(args []string, word string) []string {
	sh := &shell{table: newTable()}
	i := 0
	known := flags()
	for ; i < len(args) && strings.HasPrefix(args[i], "-"); i++ {
		f := slices.IndexFunc(known, func(f flag) bool { return f.name == strings.TrimLeft(args[i], "-") })
		if f >= 0 && known[f].value != "" {
			i++
			if i == len(args) {
				return nil // the value of an option: we do not know it
			}
		}
	}
	before := args[min(i, len(args)):]
	if len(before) == 0 && strings.HasPrefix(word, "-") {
		var out []string
		for _, f := range known {
			if strings.HasPrefix("-"+f.name, word) {
				out = append(out, "-"+f.name)
			}
		}
		return out
	}
	line := strings.Join(append(slices.Clone(before), word), " ")
	if len(before) > 0 && strings.HasPrefix(word, "/") {
		s, err := parseSettings(args[:i])
		if err != nil {
			return nil
		}
		ctx, cancel := context.WithTimeout(context.Background(), completeLimit)
		defer cancel()
		conn, err := s.dial(ctx, s.servers)
		if err != nil {
			return nil
		}
		defer conn.close()
		return completePath(ctx, conn.view, word)
	}
	_, out := sh.complete(line)
	return out
}
