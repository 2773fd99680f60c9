package metrics

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/zkd-project/zkd/internal/local"
)

// notMetrics are the words of PromQL that are no metrics, and what every scrape has.
var notMetrics = strings.Fields("sum by and or unless on max min rate increase changes time label_values up")

var (
	braces    = regexp.MustCompile(`\{[^}]*\}`)
	ranges    = regexp.MustCompile(`\[[^]]*\]`)
	groupings = regexp.MustCompile(`\b(by|on|without) *\([^)]*\)`)
	words     = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*`)
)

// metricsIn are the metrics that a query asks for.
func metricsIn(t *testing.T, query string) []string {
	t.Helper()
	require.Equal(t, strings.Count(query, "("), strings.Count(query, ")"), "%s", query)
	bare := groupings.ReplaceAllString(ranges.ReplaceAllString(braces.ReplaceAllString(query, ""), ""), "")
	var names []string
	for _, w := range words.FindAllString(bare, -1) {
		if !slices.Contains(notMetrics, w) {
			names = append(names, w)
		}
	}
	require.NotEmpty(t, query)
	return names
}

// checkQueries says which queries ask for what no server has, or nobody counts.
func checkQueries(t *testing.T, queries []string) {
	t.Helper()
	c, err := local.Start(t.Context(), local.Options{Nodes: 3})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	o := options(c.Server(c.Leader()).Stats())
	o.Source = fakeSource{true} // in memory there may be no snapshot yet
	e := scrape(t, Handler(o))
	have := e.names()
	require.Equal(t, "3", e.series["quorum_size{}"])
	have["zkd_op_latency_ms"], have["zkd_op_latency_ms_count"] = true, true // from the first request on
	var asked []string
	for _, q := range queries {
		for _, name := range metricsIn(t, q) {
			asked = append(asked, name)
			require.True(t, have[name], "%s is no metric of zkd; in: %s", name, q)
		}
	}
	require.Greater(t, len(asked), 15)
	checkWritten(t, asked)
}

func TestDashboardAsksForWhatThereIs(t *testing.T) {
	b, err := os.ReadFile("../../deploy/grafana.json")
	require.NoError(t, err)
	var d struct {
		Title  string
		Panels []struct {
			ID      int
			Type    string
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr, RefID string }
		}
		Templating struct {
			List []struct{ Name, Type, Query string }
		}
	}
	require.NoError(t, json.Unmarshal(b, &d))
	var queries []string
	ids := map[int]bool{}
	for _, p := range d.Panels {
		require.False(t, ids[p.ID], "two panels have the id %d", p.ID)
		ids[p.ID] = true
		require.NotEmpty(t, p.Title)
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, "%s", p.Title)
		require.Equal(t, p.Type == "row", len(p.Targets) == 0, "%s", p.Title)
		for _, target := range p.Targets {
			queries = append(queries, target.Expr)
		}
	}
	for _, v := range d.Templating.List {
		if v.Type == "query" {
			require.Contains(t, v.Query, "zkd_serving")
		}
	}
	checkQueries(t, queries)
}

func TestAlertsAskForWhatThereIs(t *testing.T) {
	b, err := os.ReadFile("../../deploy/alerts.yaml")
	require.NoError(t, err)
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	d := yaml.NewDecoder(strings.NewReader(string(b)))
	d.KnownFields(true)
	require.NoError(t, d.Decode(&file))
	var queries []string
	names := map[string]bool{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			require.False(t, names[r.Alert], "%s twice", r.Alert)
			names[r.Alert] = true
			require.Contains(t, []string{"critical", "warning"}, r.Labels["severity"], "%s", r.Alert)
			require.NotEmpty(t, r.Annotations["summary"], "%s", r.Alert)
			require.NotEmpty(t, r.Annotations["description"], "%s", r.Alert)
			require.Regexp(t, `^([0-9]+[smh])?$`, r.For, "%s", r.Alert)
			queries = append(queries, r.Expr)
		}
	}
	checkQueries(t, queries)
}

// The check above must see what is wrong.
func TestUnknownMetricIsNoticed(t *testing.T) {
	require.Equal(t, []string{"a_sum", "b_count"}, metricsIn(t, `sum by (job, state) (rate(a_sum{x="c(d)",y=~"e.*"}[5m])) / on (f) b_count > 1`))
}
