package main

import (
	"context"
	"log/slog"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/internal/local"
	"github.com/zkd-project/zkd/internal/version"
)

// devCluster runs a cluster in this process until a signal asks it to stop, or one of its
// servers can no longer keep its promises.
func devCluster(src config.Sources, nodes int) error {
	began := time.Now()
	cfg, warnings, err := config.Load(src)
	if err != nil {
		return err
	}
	log := newLogger(cfg)
	slog.SetDefault(log)
	for _, w := range warnings {
		log.Warn(w.String())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	fatal := make(chan error, nodes)
	c, err := local.Start(ctx, local.Options{
		Nodes: nodes, Settings: src.Overrides, Env: src.Env, FirstPort: cfg.ClientPort, Logger: log,
		Fatal: func(_ int, err error) { fatal <- err },
	})
	if stoppedBySignal(ctx, err) {
		log.Info("stopped before it served")
		return nil
	}
	if err != nil {
		return err
	}
	var addrs []string
	for i := range nodes {
		addrs = append(addrs, c.Addr(i+1))
	}
	log.Info("ready", "version", version.Get().String(), "clients", strings.Join(addrs, ","), "data", "memory",
		"leader", c.Leader(), "took", time.Since(began).Round(time.Millisecond))
	select {
	case <-ctx.Done():
		return c.Close()
	case err := <-fatal:
		return &brokenError{err}
	}
}
