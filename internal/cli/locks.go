package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

func lockCommands() []command {
	return []command{
		{name: "locks", syntax: "path", about: "show the queue of a lock or an election: who holds it, who waits, since when and from where, and who does not belong", min: 1, max: 1, paths: []int{0}, run: runLocks},
	}
}

// A family is a form of names that clients sort among themselves. Who waits for a lock in one
// family does not see the holders of another.
type family struct {
	name    string
	pattern *regexp.Regexp // the first group is the sequence number
	shared  bool           // several hold at a time: a semaphore's leases
	read    bool           // readers hold together
	group   string         // families of one group share a queue
}

var families = []family{
	{name: "read", group: "Curator read/write lock", read: true, pattern: regexp.MustCompile(`__READ__(-?\d{10,})$`)},
	{name: "write", group: "Curator read/write lock", pattern: regexp.MustCompile(`__WRIT__(-?\d{10,})$`)},
	{name: "lock", group: "Curator or Go lock", pattern: regexp.MustCompile(`(?:^|-)lock-(-?\d{10,})$`)},
	{name: "latch", group: "Curator leader latch", pattern: regexp.MustCompile(`(?:^|-)latch-(-?\d{10,})$`)},
	{name: "lease", group: "Curator semaphore", shared: true, pattern: regexp.MustCompile(`(?:^|-)lease-(-?\d{10,})$`)},
	{name: "write", group: "kazoo lock", pattern: regexp.MustCompile(`__lock__(-?\d{10,})$`)},
	{name: "read", group: "kazoo lock", read: true, pattern: regexp.MustCompile(`__rlock__(-?\d{10,})$`)},
	{name: "lock", group: "ZooKeeper WriteLock", pattern: regexp.MustCompile(`^x-\d+-(-?\d{10,})$`)},
	{name: "election", group: "ZooKeeper election", pattern: regexp.MustCompile(`^n_(-?\d{10,})$`)},
}

// unknownFamily is of names that no client of a lock writes.
var unknownFamily = family{name: "?", group: "unknown", pattern: regexp.MustCompile(`(\d{10})$`)}

// A contender is one child of a lock.
type contender struct {
	State   string `json:"state"` // holds, waits, or foreign: in the way of nobody, or of all
	Kind    string `json:"kind"`
	Group   string `json:"group"`
	Seq     *int32 `json:"sequence"` // nil: the name has none
	Owner   string `json:"owner"`    // the session; 0x0: not ephemeral
	Since   string `json:"since"`
	AgeMs   int64  `json:"ageMs"`
	Address string `json:"address,omitempty"`
	Data    string `json:"data,omitempty"`
	Path    string `json:"path"`

	family *family
	number int64 // for sorting
}

// contenderOf reads a name.
func contenderOf(path string) *contender {
	_, name := split(path)
	c := &contender{Path: path, family: &unknownFamily, number: 1 << 40}
	for i := range families {
		if families[i].pattern.MatchString(name) {
			c.family = &families[i]
			break
		}
	}
	if m := c.family.pattern.FindStringSubmatch(name); m != nil {
		// The number wraps to negative ones after 2147483647; clients compare it as it is.
		if n, err := strconv.ParseInt(m[1], 10, 32); err == nil {
			seq := int32(n)
			c.Seq, c.number = &seq, n
		}
	}
	c.Kind, c.Group = c.family.name, c.family.group
	return c
}

func runLocks(ctx context.Context, c *call) error {
	path := c.args[0]
	names, _, err := c.view().Children(ctx, path)
	if err != nil {
		return err
	}
	queue := make([]*contender, len(names))
	errs := make([]error, len(names))
	for chunk := range slices.Chunk(indexes(len(names)), readAhead) {
		parallel(len(chunk), func(i int) {
			queue[chunk[i]], errs[chunk[i]] = c.contender(ctx, join(path, names[chunk[i]]))
		})
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	queue = slices.DeleteFunc(queue, func(k *contender) bool { return k == nil })
	judge(queue)
	c.findAddresses(ctx, queue)
	return c.printQueue(path, queue)
}

func indexes(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// contender reads one child; nil if it has gone.
func (c *call) contender(ctx context.Context, path string) (*contender, error) {
	data, stat, err := c.view().Get(ctx, path)
	if isGone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	k := contenderOf(path)
	k.Owner, k.Since = hex(stat.EphemeralOwner), isoTime(stat.CtimeMs)
	k.AgeMs = max(time.Now().UnixMilli()-stat.CtimeMs, 0) // by two clocks
	k.Data = printable(data)
	return k, nil
}

// judge sorts the queue and says who holds, who waits and who does not belong. The largest
// group is the lock's; where two are equal, that of the first in the queue.
func judge(queue []*contender) {
	slices.SortStableFunc(queue, func(a, b *contender) int {
		if a.number != b.number {
			return int(max(min(a.number-b.number, 1), -1))
		}
		return strings.Compare(a.Path, b.Path)
	})
	sizes := map[string]int{}
	for _, k := range queue {
		sizes[k.Group]++
	}
	main := ""
	for _, k := range queue {
		if k.family != &unknownFamily && (main == "" || sizes[k.Group] > sizes[main]) {
			main = k.Group
		}
	}
	first, writer := true, false // nobody before; a writer before
	for _, k := range queue {
		switch {
		case k.Group != main:
			k.State = "foreign"
			continue
		case k.family.shared, k.family.read && !writer, first:
			k.State = "holds"
		default:
			k.State = "waits"
		}
		first = false
		writer = writer || !k.family.read
	}
}

// printable is the beginning of data that is text.
func printable(b []byte) string { return printableUpTo(b, 40) }

// printableUpTo is printable with most runes at most.
func printableUpTo(b []byte, most int) string {
	if !utf8.Valid(b) {
		return fmt.Sprintf("%d bytes", len(b))
	}
	s := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, string(b))
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return s
}

// askLimit bounds the question for addresses: they are an extra.
const askLimit = 500 * time.Millisecond

// findAddresses asks the servers for their connections (the four-letter word cons, where it is
// allowed); else an address in the data, as Curator puts it there, has to do.
func (c *call) findAddresses(ctx context.Context, queue []*contender) {
	if len(queue) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	hosts := strings.Split(c.sh.conn.hosts(), ",")
	found := make([]map[string]string, len(hosts))
	if c.sh.settings.tls == nil {
		parallel(len(hosts), func(i int) { found[i] = askConnections(ctx, hosts[i]) })
	}
	for _, k := range queue {
		for _, m := range found {
			if a := m[k.Owner]; a != "" {
				k.Address = a
			}
		}
		if k.Address == "" && net.ParseIP(k.Data) != nil {
			k.Address = k.Data
		}
	}
}

// hosts is the list of servers without the chroot.
func (conn *connection) hosts() string {
	hosts, _, _ := strings.Cut(conn.servers, "/")
	return hosts
}

var consLine = regexp.MustCompile(`^\s*/(\S+?)\[\d+\]\(.*\bsid=(0x[0-9a-f]+)`)

// askConnections returns the address of each session of one server; nothing if it does not say.
func askConnections(ctx context.Context, host string) map[string]string {
	if _, _, err := net.SplitHostPort(host); err != nil {
		host = net.JoinHostPort(strings.Trim(host, "[]"), "2181")
	}
	nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", host)
	if err != nil {
		return nil
	}
	defer nc.Close()
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	defer stop()
	if _, err := io.WriteString(nc, "cons"); err != nil {
		return nil
	}
	return parseConnections(nc)
}

// parseConnections reads the answer to cons.
func parseConnections(r io.Reader) map[string]string {
	out := map[string]string{}
	for in := bufio.NewScanner(r); in.Scan(); {
		if m := consLine.FindStringSubmatch(in.Text()); m != nil {
			out[m[2]] = m[1]
		}
	}
	return out
}

func (c *call) printQueue(path string, queue []*contender) error {
	foreign := 0
	rows := [][]string{{"STATE", "SEQUENCE", "KIND", "OWNER", "AGE", "ADDRESS", "DATA", "NODE"}}
	for _, k := range queue {
		if k.State == "foreign" {
			foreign++
		}
		_, name := split(k.Path)
		seq := "-"
		if k.Seq != nil {
			seq = strconv.Itoa(int(*k.Seq))
		}
		age := (time.Duration(k.AgeMs) * time.Millisecond).Round(time.Second / 10).String()
		switch c.format {
		case formatJSON:
			if err := c.json(k); err != nil {
				return err
			}
		case formatRaw:
			c.printf("%s %s %s %s\n", k.State, k.Owner, seq, k.Path)
		default:
			rows = append(rows, []string{k.State, seq, k.Kind, k.Owner, age, orDash(k.Address), orDash(k.Data), name})
		}
	}
	if c.format == formatTable && len(queue) > 0 {
		c.rows(rows)
	}
	switch {
	case len(queue) == 0:
		c.note("nobody holds or awaits %s", path)
	case foreign > 0:
		c.note("%d contenders do not belong to the queue: other clients do not respect them, so two may hold the lock at once", foreign)
	}
	return nil
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
