package admin

import (
	"html"
	"io"
	"net/http"
	"net/http/pprof"
	"net/url"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/internal/httpport"
)

// maxRequests are answered at a time; the two pages for supervisors do not count.
const maxRequests = 32

// pprofURL is where the profiles are, with zkd.pprof.
const pprofURL = "/debug/pprof/"

// A handler answers all paths of the port.
type handler struct {
	commands *commands
	gate     *gate
	operator *operator // nil: there are only ZooKeeper's commands
	prefix   string    // of the commands, without the last slash
	pprof    bool
	super    *superUser
	backups  *backupGate
	rest     http.Handler // all but the pages for supervisors
}

func newHandler(c *commands, g *gate) *handler {
	a := &c.config.Admin
	h := &handler{
		commands: c, gate: g, prefix: "/" + strings.Trim(a.CommandURL, "/"), pprof: a.PProf,
		super: &superUser{auth: &c.config.Auth, stats: c.stats}, backups: newBackupGate(c.config),
	}
	h.rest = httpport.Limit(maxRequests, http.HandlerFunc(h.guarded))
	return h
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	methods := []string{http.MethodGet, http.MethodHead}
	if r.URL.Path == h.below()+shedName || h.isRestore(r.URL.Path) {
		methods = []string{http.MethodPost}
	}
	if op := h.operation(r.URL.Path); op != nil {
		methods = op.methods()
	}
	switch {
	case !slices.Contains(methods, r.Method):
		w.Header().Set("Allow", strings.Join(methods, ", "))
		http.Error(w, "this is answered to "+strings.Join(methods, " and ")+" only", http.StatusMethodNotAllowed)
	case r.URL.Path == "/livez":
		h.probe(w, r, nil)
	case r.URL.Path == "/readyz":
		h.probe(w, r, h.readiness())
	default:
		h.rest.ServeHTTP(w, r)
	}
}

// guarded is what the gate stands before.
func (h *handler) guarded(w http.ResponseWriter, r *http.Request) {
	if h.isBackup(r.URL.Path) { // they have a gate of their own
		h.backup(w, r)
		return
	}
	if status, why := h.gate.refuses(r); status != 0 {
		if status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Bearer realm="zkd"`)
		}
		http.Error(w, why, status)
		return
	}
	name, below := strings.CutPrefix(r.URL.Path, h.below())
	switch {
	case below && name == shedName:
		h.shed(w, r)
	case h.operation(r.URL.Path) != nil:
		h.operator.operate(w, r, h.operation(r.URL.Path))
	case h.pprof && strings.HasPrefix(r.URL.Path, pprofURL):
		h.profile(w, r)
	case r.URL.Path == h.prefix, below && name == "":
		h.index(w)
	case below:
		h.command(w, r, name)
	case r.URL.Path == "/":
		h.home(w)
	default:
		http.NotFound(w, r)
	}
}

// operation is the one of zkd's own commands that a path names, or nil.
func (h *handler) operation(path string) *operation {
	name, below := strings.CutPrefix(path, h.below())
	if !below || h.operator == nil {
		return nil
	}
	return findOperation(name)
}

// below is what stands before the name of a command.
func (h *handler) below() string { return strings.TrimSuffix(h.prefix, "/") + "/" }

// index is ZooKeeper's page of links, to the byte.
func (h *handler) index(w http.ResponseWriter) {
	var b strings.Builder
	for i := range table {
		link(&b, h.below()+table[i].name, table[i].name)
	}
	page(w, b.String())
}

// home says what there is.
func (h *handler) home(w http.ResponseWriter) {
	var b strings.Builder
	paths := []string{h.prefix, "/livez?verbose", "/readyz?verbose"}
	if h.pprof {
		paths = append(paths, pprofURL)
	}
	for _, p := range paths {
		link(&b, p, p)
	}
	page(w, b.String())
}

func link(b *strings.Builder, path, text string) {
	b.WriteString(`<a href="` + html.EscapeString(path) + `">` + html.EscapeString(text) + "</a>\n<br/>\n")
}

func page(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, body) // a client that is gone needs no answer
}

func (h *handler) command(w http.ResponseWriter, r *http.Request, name string) {
	cmd := find(name)
	if cmd != nil && cmd.changes && fromElsewhere(r) {
		http.Error(w, "this command changes something: a page of another site may not ask for it", http.StatusForbidden)
		return
	}
	// A query that cannot be parsed counts as far as it can.
	query, _ := url.ParseQuery(r.URL.RawQuery)
	w.Header().Set("Content-Type", "application/json")
	_ = h.commands.answer(w, name, cmd, query) // the client is gone
}

// A check is one condition of a page for supervisors.
type check struct {
	name    string
	problem string // "": it holds
}

// readiness says whether clients should be sent here. It takes no lock: a server that hangs
// must still answer.
func (h *handler) readiness() []check {
	serving := check{name: "serving"}
	if !h.commands.source.Serving() {
		serving.problem = "the data are being loaded, there is no leader, or the server stops"
	}
	return []check{serving}
}

// probe answers 200 or, when a check fails, 503. That there is an answer is a check, too.
func (h *handler) probe(w http.ResponseWriter, r *http.Request, checks []check) {
	status, text := http.StatusOK, "ok"
	for _, c := range checks {
		if c.problem != "" {
			status, text = http.StatusServiceUnavailable, "not "+c.name+": "+c.problem
		}
	}
	if !r.URL.Query().Has("verbose") {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text+"\n")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	o := newObject(w)
	o.boolean("ok", status == http.StatusOK)
	o.list("checks", func(element func(func()) bool) {
		for _, c := range append([]check{{name: "ping"}}, checks...) {
			element(func() {
				o.str("name", c.name)
				o.boolean("ok", c.problem == "")
				if c.problem != "" {
					o.str("problem", c.problem)
				}
			})
		}
	})
	_ = o.finish()
}

// profile serves net/http/pprof, but for the command line: it may hold secrets.
func (h *handler) profile(w http.ResponseWriter, r *http.Request) {
	if fromElsewhere(r) {
		http.Error(w, "profiles cost time: a page of another site may not ask for one", http.StatusForbidden)
		return
	}
	httpport.LongAnswer(r.Context())
	switch strings.TrimPrefix(r.URL.Path, pprofURL) {
	case "profile":
		pprof.Profile(w, r)
	case "trace":
		pprof.Trace(w, r)
	case "symbol":
		pprof.Symbol(w, r)
	case "cmdline":
		http.NotFound(w, r)
	default:
		pprof.Index(w, r)
	}
}
