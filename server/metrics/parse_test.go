package metrics

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	nameForm   = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	sampleForm = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\"n])*",?)*)\})? (NaN|[+-]Inf|-?[0-9.]+(?:e[+-]?[0-9]+)?)$`)
)

// exposed is what a scrape says: the type of each metric and the value of each series.
type exposed struct {
	types  map[string]string
	series map[string]string
}

// parse reads an exposition as strictly as a scraper may: header lines first, one group of
// lines per metric, no series twice.
func parse(t *testing.T, text string) exposed {
	t.Helper()
	require.True(t, strings.HasSuffix(text, "\n"))
	e := exposed{map[string]string{}, map[string]string{}}
	current, help := "", ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "# HELP "); ok {
			help, _, _ = strings.Cut(rest, " ")
			continue
		}
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(rest, " ")
			require.Equal(t, help, name, "HELP and TYPE belong together")
			require.Regexp(t, nameForm, name)
			require.Contains(t, []string{"gauge", "counter", "summary"}, kind)
			require.NotContains(t, e.types, name, "the lines of %s do not stand together", name)
			e.types[name], current = kind, name
			continue
		}
		m := sampleForm.FindStringSubmatch(line)
		require.NotNil(t, m, "%q", line)
		allowed := []string{current}
		if e.types[current] == "summary" {
			allowed = append(allowed, current+"_count", current+"_sum")
		}
		require.Contains(t, allowed, m[1], "%q has no header", line)
		key := m[1] + "{" + m[2] + "}"
		require.NotContains(t, e.series, key)
		e.series[key] = m[3]
	}
	return e
}

// names are those that a query may ask for.
func (e exposed) names() map[string]bool {
	all := map[string]bool{}
	for key := range e.series {
		name, _, _ := strings.Cut(key, "{")
		all[name] = true
	}
	return all
}
