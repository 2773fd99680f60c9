package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zkd-project/zkd/internal/httpport"
	"github.com/zkd-project/zkd/server/fourletter"
	"github.com/zkd-project/zkd/server/stats"
)

// An Operator is what an operator may do to a server beyond ZooKeeper's commands.
type Operator interface {
	// SessionList are all sessions of the ensemble, by id.
	SessionList() []fourletter.KnownSession
	// KillSession ends a session and returns when its ephemeral nodes are gone; known is false
	// if there is no such session.
	KillSession(ctx context.Context, id int64) (known bool, err error)
	// Top counts requests until the time is over or ctx ends.
	Top(ctx context.Context, d time.Duration, depth, limit int) (stats.TopReport, error)
}

// An operation is a command of zkd's own. They stand beside ZooKeeper's table, whose index is
// a page that its users know to the byte, and each decides about its status and its fields.
type operation struct {
	name string
	get  func(o *operator, r *http.Request) answer
	post func(o *operator, r *http.Request) answer // for the super user alone
}

var operations = []operation{
	{"kill_session", nil, (*operator).kill},
	{"log_level", (*operator).level, (*operator).setLevel},
	{"sessions", (*operator).sessions, nil},
	{"top", (*operator).top, nil},
}

func findOperation(name string) *operation {
	for i := range operations {
		if operations[i].name == name {
			return &operations[i]
		}
	}
	return nil
}

func (o *operation) methods() (m []string) {
	if o.get != nil {
		m = append(m, http.MethodGet, http.MethodHead)
	}
	if o.post != nil {
		m = append(m, http.MethodPost)
	}
	return m
}

// An answer is a status and either fields or what was wrong.
type answer struct {
	status  int
	problem string
	fields  func(o *object)
}

func refuse(status int, problem string) answer { return answer{status: status, problem: problem} }

// operator answers operations. All fields are immutable.
type operator struct {
	do       Operator
	source   Source
	logLevel *slog.LevelVar // nil: it cannot be changed
	log      *slog.Logger
	gate     *gate
	super    *superUser
}

// maxOrder is more than anybody needs for {"session": "0x1"}.
const maxOrder = 1 << 10

// operate answers a request for an operation.
func (o *operator) operate(w http.ResponseWriter, r *http.Request, op *operation) {
	run := op.get
	if r.Method == http.MethodPost {
		run = op.post
		if fromElsewhere(r) {
			http.Error(w, "this command changes something: a page of another site may not ask for it", http.StatusForbidden)
			return
		}
		if status, why := o.refuses(r); why != "" {
			w.Header().Set("WWW-Authenticate", `Digest realm="zkd"`)
			http.Error(w, why, status)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxOrder)
	}
	a := run(o, r)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.status)
	out := newObject(w)
	if a.fields != nil {
		a.fields(out)
	}
	out.str("command", op.name)
	if a.problem == "" {
		out.null("error")
	} else {
		out.str("error", a.problem)
	}
	_ = out.finish() // the client is gone
}

// refuses says why a request may change nothing, "" if it may: the token of this port is as good
// as the super user.
func (o *operator) refuses(r *http.Request) (status int, why string) {
	if o.gate.hasToken(r) {
		return 0, ""
	}
	return o.super.refuses(r)
}

// order decodes the body of a request that changes something.
func order(r *http.Request, to any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is something behind it")
	}
	return nil
}

func (o *operator) level(*http.Request) answer {
	if o.logLevel == nil {
		return refuse(http.StatusNotFound, "the program that runs this server keeps its log")
	}
	return answer{status: http.StatusOK, fields: func(out *object) {
		out.str("level", strings.ToLower(o.logLevel.Level().String()))
	}}
}

// setLevel is POST {"level": "debug"}; it holds until the next start, or SIGHUP with another
// level in the configuration.
func (o *operator) setLevel(r *http.Request) answer {
	if o.logLevel == nil {
		return o.level(r)
	}
	var request struct {
		Level string `json:"level"`
	}
	if order(r, &request) != nil || !slices.Contains([]string{"debug", "info", "warn", "error"}, request.Level) {
		return refuse(http.StatusBadRequest, `send {"level": L} with L one of debug, info, warn and error`)
	}
	before := o.logLevel.Level()
	_ = o.logLevel.UnmarshalText([]byte(request.Level)) // one of those above
	// At the level of an error, so that it stands in the log whatever the level is.
	o.log.Error("the level of the log was changed on demand", "from", before, "to", o.logLevel.Level())
	return o.level(r)
}

// kill is POST {"session": "0x1"}.
func (o *operator) kill(r *http.Request) answer {
	var request struct {
		Session string `json:"session"`
	}
	err := order(r, &request)
	digits, hexadecimal := strings.CutPrefix(request.Session, "0x")
	id, numErr := strconv.ParseUint(digits, 16, 64)
	if err != nil || !hexadecimal || numErr != nil {
		return refuse(http.StatusBadRequest, `send {"session": "0x…"} with the id of a session, as the command sessions shows it`)
	}
	if !o.source.Serving() {
		return refuse(http.StatusServiceUnavailable, notServing)
	}
	known, err := o.do.KillSession(r.Context(), int64(id))
	switch {
	case err != nil:
		return refuse(http.StatusInternalServerError, "the session may still be there: "+err.Error())
	case !known:
		return refuse(http.StatusNotFound, "there is no session "+request.Session)
	}
	return answer{status: http.StatusOK, fields: func(out *object) { out.str("session_killed", request.Session) }}
}

// sessions lists all sessions, and of those that are connected here their connection.
func (o *operator) sessions(*http.Request) answer {
	if !o.source.Serving() {
		return refuse(http.StatusServiceUnavailable, notServing)
	}
	owned := map[int64]int{}
	if e := o.source.Ephemerals(); e.Each != nil {
		for id, paths := range e.Each {
			owned[id] = len(paths)
		}
	}
	here := map[int64]fourletter.Connection{}
	for c := range o.source.Connections() {
		if c.SessionID != 0 {
			here[c.SessionID] = c
		}
	}
	return answer{status: http.StatusOK, fields: func(out *object) {
		out.list("sessions", func(element func(func()) bool) {
			for _, s := range o.do.SessionList() {
				c, connected := here[s.ID]
				more := element(func() {
					out.str("session", "0x"+hex(s.ID))
					integer(out, "timeout_ms", s.TimeoutMs)
					integer(out, "ephemerals", owned[s.ID])
					out.boolean("connected_here", connected)
					if connected {
						connectionOf(out, &c)
					}
				})
				if !more {
					return
				}
			}
		})
	}}
}

func connectionOf(out *object, c *fourletter.Connection) {
	out.str("address", address(c.Remote))
	out.boolean("secure", c.Secure)
	integer(out, "established_ms", c.Stats.EstablishedMs)
	out.str("last_operation", c.Stats.LastOp)
	integer(out, "outstanding", c.Stats.Queued)
	integer(out, "received", c.Stats.Received)
	integer(out, "sent", c.Stats.Sent)
	integer(out, "avg_latency_ms", c.Stats.AvgLatencyMs)
	integer(out, "max_latency_ms", c.Stats.MaxLatencyMs)
}

// The bounds of top.
const (
	maxTopMs    = 10_000
	maxTopLimit = 1000
)

// top is GET ?ms=1000&depth=2&limit=20: who asks for what during so many milliseconds.
func (o *operator) top(r *http.Request) answer {
	q, _ := url.ParseQuery(r.URL.RawQuery)
	ms, ok1 := number(q, "ms", 1000, 1, maxTopMs)
	depth, ok2 := number(q, "depth", 2, 1, math.MaxInt32)
	limit, ok3 := number(q, "limit", 20, 1, maxTopLimit)
	if !ok1 || !ok2 || !ok3 {
		return refuse(http.StatusBadRequest, "ask with ms from 1 to "+strconv.Itoa(maxTopMs)+", depth, the names of a path that count, and limit from 1 to "+strconv.Itoa(maxTopLimit))
	}
	httpport.LongAnswer(r.Context())
	began := time.Now()
	report, err := o.do.Top(r.Context(), time.Duration(ms)*time.Millisecond, depth, limit)
	if err != nil {
		return refuse(http.StatusTooManyRequests, err.Error())
	}
	took := time.Since(began).Milliseconds()
	return answer{status: http.StatusOK, fields: func(out *object) {
		integer(out, "interval_ms", took)
		integer(out, "requests", report.Total.Requests)
		integer(out, "bytes", report.Total.Bytes)
		integer(out, "uncounted", report.Dropped)
		for d, list := range report.Busiest {
			out.list("by_"+stats.Dimension(d).String(), func(element func(func()) bool) {
				for i := range list {
					if !element(func() { tally(out, &list[i]) }) {
						return
					}
				}
			})
		}
	}}
}

func tally(out *object, t *stats.Tally) {
	out.str("name", t.Name)
	integer(out, "requests", t.Requests)
	integer(out, "bytes", t.Bytes)
}

// number is a parameter, or its default.
func number(q url.Values, name string, def, low, high int) (n int, ok bool) {
	if !q.Has(name) {
		return def, true
	}
	n, err := strconv.Atoi(q.Get(name))
	return n, err == nil && n >= low && n <= high
}
