package main

import (
	"errors"
	"log/slog"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/server"
	"github.com/zkd-project/zkd/server/admin"
	"github.com/zkd-project/zkd/server/metrics"
)

// faces are the ports for operators: each may be nil.
type faces struct {
	admin   *admin.Server
	metrics *metrics.Server
}

// openFaces opens what the configuration asks for. They are open before the server serves,
// so that supervisors can wait for /readyz.
//
// As in ZooKeeper the admin server is a convenience, on by default: that it cannot be opened
// keeps no client waiting. Metrics are there because somebody asked for them, so a port that
// nothing would ever scrape stops the start.
func openFaces(cfg *config.Config, srv *server.Server, log *slog.Logger, level *slog.LevelVar) (*faces, error) {
	f := &faces{}
	var err error
	if cfg.Metrics.Prometheus {
		o := metrics.Options{Config: &cfg.Metrics, Stats: srv.Stats(), Source: srv.Face(), Log: log}
		if f.metrics, err = metrics.Start(o); err != nil {
			return nil, err
		}
	}
	if cfg.Admin.Enabled {
		o := admin.Options{Config: cfg, Stats: srv.Stats(), Source: srv.Face(), Log: log, Operator: srv.Face(), LogLevel: level}
		if f.admin, err = admin.Start(o); err != nil {
			log.Warn("the server goes on without its admin server; admin.enableServer=false ends this warning", "error", err)
		}
	}
	return f, nil
}

// reloadTLS reads the certificates of all ports again.
func (f *faces) reloadTLS() error {
	var errs []error
	if f.admin != nil {
		errs = append(errs, f.admin.ReloadTLS())
	}
	if f.metrics != nil {
		errs = append(errs, f.metrics.ReloadTLS())
	}
	return errors.Join(errs...)
}

// close ends them; last, so that until then they tell how the server stops.
func (f *faces) close() {
	if f.admin != nil {
		f.admin.Close()
	}
	if f.metrics != nil {
		f.metrics.Close()
	}
}
