package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A topAnswer is what an admin port says to top.
type topAnswer struct {
	IntervalMs  int64    `json:"interval_ms"`
	Requests    int64    `json:"requests"`
	Bytes       int64    `json:"bytes"`
	BySession   []topRow `json:"by_session"`
	ByUser      []topRow `json:"by_user"`
	ByAddress   []topRow `json:"by_address"`
	ByPath      []topRow `json:"by_path"`
	ByOperation []topRow `json:"by_operation"`
}

type topRow struct {
	Name     string `json:"name"`
	Requests int64  `json:"requests"`
	Bytes    int64  `json:"bytes"`
}

// by returns the lists with their names, in the order in which they are shown.
func (a *topAnswer) by() []topList {
	return []topList{
		{"operation", &a.ByOperation}, {"path", &a.ByPath}, {"address", &a.ByAddress}, {"user", &a.ByUser}, {"session", &a.BySession},
	}
}

type topList struct {
	name string
	rows *[]topRow
}

// topOptions are what top was asked for.
type topOptions struct {
	times int // 0: until Ctrl-C
	every time.Duration
	rows  int
	depth int
	by    string // "": all
}

func (c *call) topOptions() (o topOptions, err error) {
	number := func(name string, def, low, high int) int {
		v, given := c.opts[name]
		if !given {
			return def
		}
		n, e := strconv.Atoi(v)
		if e != nil || n < low || n > high {
			err = cmp.Or(err, c.wrong(fmt.Sprintf("-%s %s: it is a number from %d to %d", name, v, low, high)))
		}
		return n
	}
	live := c.sh.terminalOut()
	once := 1
	if live {
		once = 0
	}
	o.times = number("n", once, 1, 1_000_000)
	o.every = time.Duration(number("d", 1, 1, 10)) * time.Second
	o.depth = number("p", 2, 1, 1000)
	rows := 20
	if o.by = c.opts["b"]; o.by == "" {
		rows = 5
	}
	o.rows = number("k", rows, 1, 1000)
	known := func(l topList) bool { return l.name == o.by }
	if o.by != "" && !slices.ContainsFunc(new(topAnswer).by(), known) {
		err = cmp.Or(err, c.wrong("-b "+o.by+": it is session, user, address, path or operation"))
	}
	return o, err
}

// runTop asks all servers at once, again and again. On a terminal each picture replaces the one
// before.
func runTop(ctx context.Context, c *call) error {
	o, err := c.topOptions()
	if err != nil {
		return err
	}
	urls, err := c.sh.settings.adminURLs()
	if err != nil {
		return err
	}
	if err := c.sh.settings.checkPrivate(urls, false); err != nil {
		return err
	}
	a, err := c.sh.settings.adminClient()
	if err != nil {
		return err
	}
	live := c.sh.terminalOut() && c.format == formatTable && o.times != 1
	for i := 0; o.times == 0 || i < o.times; i++ {
		sum, silent, err := a.top(ctx, urls, &o)
		if err != nil {
			return err
		}
		if live {
			c.printf("\x1b[H\x1b[2J") // to the corner, and clear
		} else if i > 0 && c.format == formatTable {
			c.printf("\n")
		}
		if err := c.printTop(sum, &o, len(urls)-silent, len(urls)); err != nil {
			return err
		}
		if err := c.sh.out.Flush(); err != nil {
			return &exitError{exitLocal, err.Error()}
		}
	}
	return nil
}

// top adds up what all admin ports say; silent did not answer.
func (a *adminClient) top(ctx context.Context, urls []string, o *topOptions) (sum *topAnswer, silent int, err error) {
	limited, cancel := context.WithTimeout(ctx, o.every+adminLimit)
	defer cancel()
	q := url.Values{"ms": {strconv.FormatInt(o.every.Milliseconds(), 10)}, "depth": {strconv.Itoa(o.depth)}, "limit": {"1000"}}
	answers := make([]topAnswer, len(urls))
	errs := make([]error, len(urls))
	parallel(len(urls), func(i int) {
		errs[i] = a.ask(limited, http.MethodGet, urls[i]+"/top?"+q.Encode(), nil, &answers[i])
	})
	sum = &topAnswer{}
	for i := range answers {
		if errs[i] != nil {
			silent++
			continue
		}
		sum.add(&answers[i])
	}
	if silent == len(urls) {
		return nil, silent, adminError("top", errors.Join(errs...))
	}
	return sum, silent, nil
}

// add adds what another server says.
func (a *topAnswer) add(b *topAnswer) {
	a.IntervalMs = max(a.IntervalMs, b.IntervalMs)
	a.Requests += b.Requests
	a.Bytes += b.Bytes
	theirs := b.by()
	for i, list := range a.by() {
		at := map[string]int{}
		for j, r := range *list.rows {
			at[r.Name] = j
		}
		for _, r := range *theirs[i].rows {
			j, known := at[r.Name]
			if !known {
				*list.rows = append(*list.rows, r)
				continue
			}
			(*list.rows)[j].Requests += r.Requests
			(*list.rows)[j].Bytes += r.Bytes
		}
		slices.SortFunc(*list.rows, func(x, y topRow) int {
			return cmp.Or(cmp.Compare(y.Requests, x.Requests), cmp.Compare(y.Bytes, x.Bytes), cmp.Compare(x.Name, y.Name))
		})
	}
}

// topJSON is one row of `top -o json`.
type topJSON struct {
	By                string  `json:"by"`
	Name              string  `json:"name"`
	RequestsPerSecond float64 `json:"requestsPerSecond"`
	BytesPerSecond    float64 `json:"bytesPerSecond"`
	Share             float64 `json:"share"` // of all requests
}

func (c *call) printTop(a *topAnswer, o *topOptions, answered, servers int) error {
	seconds := float64(max(a.IntervalMs, 1)) / 1000
	if c.format == formatTable {
		c.printf("%d requests/s, %s/s", int64(float64(a.Requests)/seconds+0.5), bytesText(float64(a.Bytes)/seconds))
		if answered < servers {
			c.printf("; %d of %d servers answered", answered, servers)
		}
		c.printf("\n")
	}
	for _, list := range a.by() {
		if o.by != "" && o.by != list.name {
			continue
		}
		rows := [][]string{{"REQUESTS/S", "SHARE", "BYTES/S", strings.ToUpper(list.name)}}
		for _, r := range (*list.rows)[:min(len(*list.rows), o.rows)] {
			share := float64(r.Requests) / float64(max(a.Requests, 1))
			switch c.format {
			case formatJSON:
				err := c.json(topJSON{list.name, r.Name, float64(r.Requests) / seconds, float64(r.Bytes) / seconds, share})
				if err != nil {
					return err
				}
			case formatRaw:
				c.printf("%s %d %d %s\n", list.name, r.Requests, r.Bytes, shownName(r.Name))
			default:
				rows = append(rows, []string{
					strconv.FormatFloat(float64(r.Requests)/seconds, 'f', 1, 64), strconv.FormatFloat(100*share, 'f', 1, 64) + "%",
					bytesText(float64(r.Bytes) / seconds), shownName(r.Name),
				})
			}
		}
		if c.format == formatTable && len(rows) > 1 {
			c.printf("\n")
			c.rows(rows)
		}
	}
	return nil
}

// shownName keeps a name that a client chose on its line.
func shownName(s string) string {
	q := strconv.Quote(s)
	if q[1:len(q)-1] == s {
		return s
	}
	return q
}

// bytesText is a number of bytes for people.
func bytesText(n float64) string {
	units := []string{"B", "KiB", "MiB", "GiB"}
	i := 0
	for n >= 1024 && i < len(units)-1 {
		n /= 1024
		i++
	}
	if i == 0 {
		return strconv.FormatFloat(n, 'f', 0, 64) + " " + units[i]
	}
	return strconv.FormatFloat(n, 'f', 1, 64) + " " + units[i]
}

// terminalOut says whether a person looks at the output.
func (sh *shell) terminalOut() bool { return isTerminal(sh.Stdin, sh.Stdout) }
