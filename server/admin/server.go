package admin

import (
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/internal/httpport"
	"github.com/zkd-project/zkd/internal/tlsconf"
	"github.com/zkd-project/zkd/server/stats"
)

// Options say what a Server shows. Config, Source and Stats are required.
type Options struct {
	Config *config.Config
	Source Source
	Stats  *stats.Server
	Log    *slog.Logger // nil means slog.Default

	// Operator does what zkd has beyond ZooKeeper's commands: log_level, sessions, kill_session
	// and top. nil: they do not exist.
	Operator Operator
	// LogLevel is what log_level shows and changes; nil: it cannot.
	LogLevel *slog.LevelVar
}

// A Server is an open admin port.
type Server struct {
	port *httpport.Port
	tls  *tlsconf.Config // nil without HTTPS
}

// Start opens the port and answers from then on. A taken port is an *listen.BusyError.
func Start(o Options) (*Server, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	a := &o.Config.Admin
	s := &Server{}
	options := httpport.Options{
		Addr: net.JoinHostPort(a.Address, strconv.Itoa(a.Port)), Key: "admin.serverPort",
		AlsoPlain: !a.ForceHTTPS, TurnedOff: func() { o.Stats.InsecureAdmin.Add(1) },
		IdleTimeout: time.Duration(a.IdleTimeoutMs) * time.Millisecond, Log: o.Log,
	}
	if a.PortUnification || a.ForceHTTPS {
		var err error
		if s.tls, err = tlsconf.New(certificates(&o.Config.Cluster.TLS), o.Log); err != nil {
			return nil, fmt.Errorf("admin server: %w", err)
		}
		options.TLS = s.tls.ServerConfig()
	}
	var err error
	if s.port, err = httpport.Listen(options); err != nil {
		return nil, err
	}
	certs := s.tls != nil && o.Config.Cluster.TLS.TrustStore.Location != ""
	g := newGate(a, s.port.Addr().IP.IsLoopback(), certs)
	h := newHandler(newCommands(o), g)
	if o.Operator != nil {
		h.operator = &operator{
			do: o.Operator, source: o.Source, logLevel: o.LogLevel, log: o.Log, gate: g, super: h.super,
		}
	}
	s.port.Serve(h)
	s.announce(o.Log, a, g)
	return s, nil
}

// certificates is the TLS side of the port: a client may show a certificate where there is
// somebody to trust, and the gate decides who must, since /livez and /readyz are for all.
func certificates(side *config.TLS) *config.TLS {
	t := *side
	t.ClientAuth = config.ClientAuthNone
	if t.TrustStore.Location != "" {
		t.ClientAuth = config.ClientAuthWant
	}
	return &t
}

func (s *Server) announce(log *slog.Logger, a *config.Admin, g *gate) {
	log.Info("the admin server listens", "address", s.Addr().String(), "commands", a.CommandURL)
	if !g.local && g.token == "" && !g.certs {
		log.Warn("the admin server is open to the network, and answers nothing but /livez and /readyz: set zkd.adminToken, or admin.serverAddress=127.0.0.1")
	}
}

// Addr is where the port is bound.
func (s *Server) Addr() net.Addr { return s.port.Addr() }

// ReloadTLS reads keys and trusted certificates again. After an error the old ones stay.
func (s *Server) ReloadTLS() error {
	if s.tls == nil {
		return nil
	}
	return s.tls.Reload()
}

// Close ends the port; it returns when nothing of it is left.
func (s *Server) Close() { s.port.Close() }
