package cli

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

func sessionCommands() []command {
	return []command{
		{name: "session", syntax: "list | kill id...", about: "list all sessions with their owners' addresses, or end some (for the super user: -auth-file or -admin-token-file; over the admin port)", min: 1, max: -1, local: true, run: runSession},
		{name: "log-level", syntax: "[debug|info|warn|error]", about: "show the level of the servers' logs, or set it until the next start or SIGHUP (for the super user; over the admin port)", max: 1, local: true, run: runLogLevel},
		{name: "top", syntax: "[-n times] [-d seconds] [-k rows] [-p depth] [-b session|user|address|path|operation]", about: "show who asks for what: live on a terminal, once with -n 1 or into a pipe (over the admin port)", opts: "n: d: k: p: b:", max: 0, local: true, run: runTop},
	}
}

// A listedSession is a session as the admin ports of the servers show it.
type listedSession struct {
	Session       string `json:"session"`
	TimeoutMs     int64  `json:"timeout_ms"`
	Ephemerals    int    `json:"ephemerals"`
	ConnectedHere bool   `json:"connected_here"`
	Address       string `json:"address,omitempty"`
	Secure        bool   `json:"secure"`
	EstablishedMs int64  `json:"established_ms"`
	LastOperation string `json:"last_operation,omitempty"`
	Outstanding   int64  `json:"outstanding"`
	Received      int64  `json:"received"`
	Sent          int64  `json:"sent"`
	AvgLatencyMs  int64  `json:"avg_latency_ms"`
	MaxLatencyMs  int64  `json:"max_latency_ms"`
}

// shownSession is what `session list -o json` prints.
type shownSession struct {
	Session       string `json:"session"`
	TimeoutMs     int64  `json:"timeoutMs"`
	Ephemerals    int    `json:"ephemerals"`
	Address       string `json:"address,omitempty"`
	Established   string `json:"established,omitempty"`
	LastOperation string `json:"lastOperation,omitempty"`
	Outstanding   int64  `json:"outstanding"`
	Received      int64  `json:"received"`
	Sent          int64  `json:"sent"`
	AvgLatencyMs  int64  `json:"avgLatencyMs"`
	MaxLatencyMs  int64  `json:"maxLatencyMs"`
}

func runSession(ctx context.Context, c *call) error {
	switch what := c.args[0]; {
	case what == "list" && len(c.args) == 1:
		return c.listSessions(ctx)
	case what == "kill" && len(c.args) > 1:
		return c.killSessions(ctx, c.args[1:])
	}
	return &exitError{exitUsage, c.cmd.usage()}
}

// listSessions asks every admin port: all servers know all sessions, and each the connections
// that it has. Where none answers, the word cons tells of the connections alone.
func (c *call) listSessions(ctx context.Context) error {
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
	limited, cancel := context.WithTimeout(ctx, adminLimit)
	defer cancel()
	answers := make([][]listedSession, len(urls))
	errs := make([]error, len(urls))
	parallel(len(urls), func(i int) {
		var got struct{ Sessions []listedSession }
		errs[i] = a.ask(limited, http.MethodGet, urls[i]+"/sessions", nil, &got)
		answers[i] = got.Sessions
	})
	merged := map[string]listedSession{}
	silent := 0
	for i, list := range answers {
		if errs[i] != nil {
			silent++
			continue
		}
		for _, s := range list {
			if old, known := merged[s.Session]; !known || !old.ConnectedHere && s.ConnectedHere {
				merged[s.Session] = s
			}
		}
	}
	if silent == len(urls) {
		return c.listConnections(ctx, errors.Join(errs...))
	}
	all := make([]listedSession, 0, len(merged))
	for _, s := range merged {
		all = append(all, s)
	}
	slices.SortFunc(all, func(x, y listedSession) int { return compareID(x.Session, y.Session) })
	if err := c.printSessions(all); err != nil {
		return err
	}
	if silent > 0 {
		c.note("%d of %d admin ports did not answer: the addresses of sessions on their servers are missing", silent, len(urls))
	}
	return nil
}

// compareID orders hexadecimal numbers of any length.
func compareID(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// listConnections is what can be said without an admin port.
func (c *call) listConnections(ctx context.Context, why error) error {
	limited, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	var all []listedSession
	if c.sh.settings.tls == nil {
		hosts, _, _ := strings.Cut(c.sh.settings.servers, "/")
		for _, h := range strings.Split(hosts, ",") {
			for id, address := range askConnections(limited, h) {
				all = append(all, listedSession{Session: id, Address: address, ConnectedHere: true})
			}
		}
	}
	if len(all) == 0 {
		return adminError("session list", why)
	}
	slices.SortFunc(all, func(x, y listedSession) int { return compareID(x.Session, y.Session) })
	if err := c.printSessions(all); err != nil {
		return err
	}
	c.note("no admin port answers: these are the connections that the four-letter word cons shows")
	return nil
}

func (c *call) printSessions(all []listedSession) error {
	rows := [][]string{{"SESSION", "ADDRESS", "SINCE", "TIMEOUT", "EPHEMERALS", "LAST", "WAITING", "RECEIVED", "SENT", "AVG", "MAX"}}
	for _, s := range all {
		since := ""
		if s.EstablishedMs > 0 {
			since = isoTime(s.EstablishedMs)
		}
		switch c.format {
		case formatJSON:
			err := c.json(shownSession{
				s.Session, s.TimeoutMs, s.Ephemerals, s.Address, since, s.LastOperation, s.Outstanding, s.Received, s.Sent, s.AvgLatencyMs, s.MaxLatencyMs,
			})
			if err != nil {
				return err
			}
		case formatRaw:
			c.printf("%s\n", s.Session)
		default:
			ms := func(n int64) string { return (time.Duration(n) * time.Millisecond).String() }
			row := []string{s.Session, orDash(s.Address), orDash(since), ms(s.TimeoutMs), strconv.Itoa(s.Ephemerals)}
			if s.ConnectedHere {
				row = append(row, orDash(s.LastOperation), dec(s.Outstanding), dec(s.Received), dec(s.Sent), ms(s.AvgLatencyMs), ms(s.MaxLatencyMs))
			} else {
				row = append(row, "-", "-", "-", "-", "-", "-")
			}
			rows = append(rows, row)
		}
	}
	if c.format == formatTable {
		c.rows(rows)
	}
	return nil
}

func dec(n int64) string { return strconv.FormatInt(n, 10) }

// killSessions ends sessions, one after the other, over the first admin port that can.
func (c *call) killSessions(ctx context.Context, ids []string) error {
	for _, id := range ids {
		digits, ok := strings.CutPrefix(id, "0x")
		if _, err := strconv.ParseUint(digits, 16, 64); !ok || err != nil {
			return usagef("session kill %s: it is an id as session list shows it, for example 0x1000a2b4c5d0001", id)
		}
	}
	urls, err := c.sh.settings.adminURLs()
	if err != nil {
		return err
	}
	if !c.sh.settings.proves() {
		return usagef("session kill is for the super user: give its password with -auth-file, the token of the admin port with -admin-token-file, or its certificate with -tls-cert")
	}
	if err := c.sh.settings.checkPrivate(urls, true); err != nil {
		return err
	}
	a, err := c.sh.settings.adminClient()
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := a.kill(ctx, urls, id); err != nil {
			return err
		}
		switch c.format {
		case formatJSON:
			err = c.json(map[string]string{"killed": id})
		case formatRaw:
			c.printf("%s\n", id)
		default:
			c.printf("session %s is over\n", id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// kill asks one admin port after the other until one has heard of it. A port that was asked and
// did not answer may have done it all the same, and to ask the next does no harm: an id is not
// given twice.
func (a *adminClient) kill(ctx context.Context, urls []string, id string) error {
	ctx, cancel := context.WithTimeout(ctx, adminLimit)
	defer cancel()
	var errs []error
	for _, u := range urls {
		var got struct{}
		err := a.ask(ctx, http.MethodPost, u+"/kill_session", map[string]string{"session": id}, &got)
		var no *refusal
		if err == nil || errors.As(err, &no) && no.status != http.StatusServiceUnavailable {
			return wrapAdmin("session kill "+id, err)
		}
		errs = append(errs, err)
	}
	return wrapAdmin("session kill "+id, errors.Join(errs...))
}

func wrapAdmin(what string, err error) error {
	if err == nil {
		return nil
	}
	return adminError(what, err)
}
