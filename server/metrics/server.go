package metrics

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/internal/httpport"
	"github.com/zkd-project/zkd/internal/tlsconf"
	"github.com/zkd-project/zkd/server/stats"
)

const (
	// idleTime is for a scraper that keeps its connection: they come every 5 s to 2 minutes.
	idleTime = 3 * time.Minute
	// maxScrapes are gathered at a time.
	maxScrapes = 4
)

// Options say what is shown. All but Log and Now are required.
type Options struct {
	Config *config.Metrics
	Stats  *stats.Server
	Source Source
	Log    *slog.Logger     // nil means slog.Default
	Now    func() time.Time // nil means time.Now
}

// A Server is the open ports, one for HTTP and one for HTTPS at most.
type Server struct {
	ports []*httpport.Port
	tls   *tlsconf.Config // nil without HTTPS
}

// Start opens the ports that the configuration names and answers from then on. A taken port
// is an *listen.BusyError.
func Start(o Options) (*Server, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	s := &Server{}
	if err := s.open(&o); err != nil {
		s.Close()
		return nil, err
	}
	h := Handler(o)
	for _, p := range s.ports {
		p.Serve(h)
		o.Log.Info("metrics are served", "address", p.Addr().String(), "path", "/metrics")
	}
	return s, nil
}

func (s *Server) open(o *Options) error {
	c := o.Config
	listen := func(port int, key string, opts httpport.Options) error {
		opts.Addr, opts.Key = net.JoinHostPort(c.HTTPHost, strconv.Itoa(port)), key
		opts.IdleTimeout, opts.Log = idleTime, o.Log
		p, err := httpport.Listen(opts)
		if err == nil {
			s.ports = append(s.ports, p)
		}
		return err
	}
	if c.HTTPPort > 0 {
		if err := listen(c.HTTPPort, "metricsProvider.httpPort", httpport.Options{}); err != nil {
			return err
		}
	}
	if c.HTTPSPort <= 0 {
		return nil
	}
	var err error
	if s.tls, err = tlsconf.New(&c.TLS, o.Log); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	return listen(c.HTTPSPort, "metricsProvider.httpsPort", httpport.Options{TLS: s.tls.ServerConfig()})
}

// Handler answers /metrics.
func Handler(o Options) http.Handler {
	if o.Now == nil {
		o.Now = time.Now
	}
	w := newWindows(o.Now)
	scrape := httpport.Limit(maxScrapes, http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		t := &text{}
		w.appendRegistry(t, o.Stats.Registry())
		appendOwn(t, o.Source)
		if o.Config.ExportProcessInfo {
			appendRuntime(t)
			appendProcess(t)
		}
		rw.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		rw.Header().Set("Content-Length", strconv.Itoa(len(t.b)))
		_, _ = rw.Write(t.b) // a scraper that is gone needs no answer
	}))
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("X-Content-Type-Options", "nosniff")
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			rw.Header().Set("Allow", "GET, HEAD")
			http.Error(rw, "only GET is answered", http.StatusMethodNotAllowed)
		case r.URL.Path == "/metrics":
			scrape.ServeHTTP(rw, r)
		case r.URL.Path == "/":
			rw.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = io.WriteString(rw, "<a href=\"/metrics\">/metrics</a>\n")
		default:
			http.NotFound(rw, r)
		}
	})
}

// Addrs are where the ports are bound, HTTP first.
func (s *Server) Addrs() []net.Addr {
	var all []net.Addr
	for _, p := range s.ports {
		all = append(all, p.Addr())
	}
	return all
}

// ReloadTLS reads keys and trusted certificates again. After an error the old ones stay.
func (s *Server) ReloadTLS() error {
	if s.tls == nil {
		return nil
	}
	return s.tls.Reload()
}

// Close ends the ports; it returns when nothing of them is left.
func (s *Server) Close() {
	for _, p := range s.ports {
		p.Close()
	}
}
