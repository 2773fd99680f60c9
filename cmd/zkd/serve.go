package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/internal/tlsconf"
	"github.com/zkd-project/zkd/internal/version"
	"github.com/zkd-project/zkd/server"
	"github.com/zkd-project/zkd/server/replication"
)

// flagKeys are the keys of zoo.cfg that have a flag of their own; --set reaches all others.
var flagKeys = []struct{ flag, key, help string }{
	{"client-port", "clientPort", "port for clients"},
	{"client-address", "clientPortAddress", "address that the port binds to"},
	{"data-dir", "dataDir", "folder for snapshots and, unless --log-dir is given, the log"},
	{"log-dir", "dataLogDir", "folder for the log"},
	{"log-level", "zkd.logLevel", "debug, info, warn or error"},
	{"log-format", "zkd.logFormat", "text or json"},
}

// sourceFlags are the flags from which serve and dev take their configuration.
type sourceFlags struct {
	file string
	set  []string
}

func (f *sourceFlags) register(c *cobra.Command, keys ...string) {
	for _, k := range flagKeys {
		for _, want := range keys {
			if k.key == want {
				c.Flags().String(k.flag, "", k.help+" ("+k.key+")")
			}
		}
	}
	c.Flags().StringArrayVar(&f.set, "set", nil, "any other key of zoo.cfg, as KEY=VALUE; may be repeated")
}

// sources turns the flags that were given into overrides.
func (f *sourceFlags) sources(c *cobra.Command, inMemory bool) (config.Sources, error) {
	src := config.Sources{File: f.file, Env: os.Environ(), InMemory: inMemory}
	for _, k := range flagKeys {
		if fl := c.Flags().Lookup(k.flag); fl != nil && fl.Changed {
			src.Overrides = append(src.Overrides, config.Override{Key: k.key, Value: fl.Value.String(), Origin: "flag --" + k.flag})
		}
	}
	for _, kv := range f.set {
		key, value, ok := strings.Cut(kv, "=")
		if !ok || strings.TrimSpace(key) == "" {
			return src, fmt.Errorf("--set %s: write it as KEY=VALUE, for example --set tickTime=2000", kv)
		}
		src.Overrides = append(src.Overrides, config.Override{Key: strings.TrimSpace(key), Value: value, Origin: "flag --set"})
	}
	return src, nil
}

func serveCommand() *cobra.Command {
	var f sourceFlags
	var majority bool
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run a durable server",
		Long: `Run a durable server.

Without --config it listens on 127.0.0.1:2181 and keeps its data in ./zkd-data. Flags win
over environment variables (ZKD_CLIENT_PORT for clientPort), these over the file.`,
		Example: "  zkd serve\n  zkd serve --config /etc/zookeeper/conf/zoo.cfg\n  zkd serve --client-port 2182 --data-dir /var/lib/zkd",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			src, err := f.sources(c, false)
			if err != nil {
				return err
			}
			return serve(src, majority)
		},
	}
	c.Flags().BoolVar(&majority, "bootstrap-majority", false,
		"form a new cluster although some of its servers do not answer: you know that their disks are empty")
	c.Flags().StringVarP(&f.file, "config", "c", "", "configuration file, a zoo.cfg")
	f.register(c, "clientPort", "clientPortAddress", "dataDir", "dataLogDir", "zkd.logLevel", "zkd.logFormat")
	return c
}

func devCommand() *cobra.Command {
	var f sourceFlags
	nodes := 1
	c := &cobra.Command{
		Use:     "dev",
		Short:   "Run a server or a cluster in memory, for trying things out: its data end with it",
		Example: "  zkd dev --client-port 2182\n  zkd dev --nodes 3",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			src, err := f.sources(c, true)
			if err != nil {
				return err
			}
			if nodes != 1 {
				return devCluster(src, nodes)
			}
			return serve(src, false)
		},
	}
	c.Flags().IntVar(&nodes, "nodes", 1, "servers of the cluster, all in this process; their client ports follow each other")
	f.register(c, "clientPort", "clientPortAddress", "zkd.logLevel", "zkd.logFormat")
	return c
}

// serve runs until a signal asks it to stop, or it can no longer keep its promises.
func serve(src config.Sources, bootstrapMajority bool) error {
	began := time.Now()
	cfg, warnings, err := config.Load(src)
	if err != nil {
		return err
	}
	log, err := openLog(cfg)
	if err != nil {
		return fmt.Errorf("zkd.logFile: %w", err)
	}
	slog.SetDefault(log.Logger)
	for _, w := range warnings {
		log.Warn(w.String())
	}
	i := &instance{sources: src, first: cfg, last: cfg, log: log}
	return log.last(i.serve(began, bootstrapMajority))
}

// serve runs the server of an instance.
func (i *instance) serve(began time.Time, bootstrapMajority bool) (err error) {
	cfg, log, fatal := i.first, i.log, make(chan error, 1)
	if i.peerTLS, err = tlsconf.NewPeer(&cfg.Cluster, log.Logger); err != nil {
		return err
	}
	i.srv, err = server.New(server.Options{
		Config: cfg, Memory: cfg.InMemory, Logger: log.Logger, PeerTLS: i.peerTLS.Config(), BootstrapMajority: bootstrapMajority,
		Fatal: func(err error) { fatal <- err },
	})
	if err != nil {
		return err
	}
	if i.faces, err = openFaces(cfg, i.srv, log.Logger, log.level); err != nil {
		return err
	}
	defer i.faces.close()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGUSR1)
	defer signal.Stop(signals)
	notify := newNotifier(os.Getenv, log.Logger)
	defer notify.close()
	attended, endAttention := attendTo(ctx, notify, i.srv, cfg.Cluster.Ensemble)
	defer func() { <-attended }()
	defer endAttention()

	info, err := i.srv.Start(ctx)
	if stoppedBySignal(ctx, err) {
		log.Info("stopped before it served; nothing is lost")
		return nil
	}
	if err != nil {
		return startError(err)
	}
	announce(log.Logger, cfg, i.srv, &info, time.Since(began))
	notify.ready()
	for {
		select {
		case <-ctx.Done():
			log.Info("stopping; sessions stay for their clients to come back")
			endAttention()
			<-attended
			notify.stopping()
			return i.srv.Close()
		case err := <-fatal:
			// No orderly end: what the process believes may not be what the disk holds.
			return &brokenError{errors.Join(err, i.srv.EndAudit())}
		case s := <-signals:
			if s == syscall.SIGUSR1 {
				i.reopen()
				continue
			}
			notify.reloading()
			i.reload()
			notify.ready()
		}
	}
}

// attendTo has systemd told of the server, in the background, until end is called; done is
// closed then.
func attendTo(ctx context.Context, n *notifier, srv *server.Server, member bool) (done chan struct{}, end context.CancelFunc) {
	done = make(chan struct{})
	ctx, end = context.WithCancel(ctx)
	go func() {
		defer close(done)
		n.attend(ctx, srv, member)
	}()
	return done, end
}

// stoppedBySignal says whether a start came to nothing because it was told to stop, as a server
// is that waits for the others of its cluster. That is how it should end; damage is told all the same.
func stoppedBySignal(ctx context.Context, err error) bool {
	var broken *brokenError
	return err != nil && ctx.Err() != nil && !errors.As(startError(err), &broken) &&
		(errors.Is(err, context.Cause(ctx)) || errors.Is(err, context.Canceled))
}

// hostErrors are what a disk says that does not work, or has no room, and a system that opens no more
// files. A file system that has found an error in itself can only be read.
var hostErrors = []error{syscall.EIO, syscall.EROFS, syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE}

// startError tells damage and broken disks from a wrong configuration.
func startError(err error) error {
	var damage *replication.DamageError
	if errors.As(err, &damage) || errors.Is(err, replication.ErrFailed) || slices.ContainsFunc(hostErrors, func(e error) bool { return errors.Is(err, e) }) {
		return &brokenError{err}
	}
	return err
}

// announce says that the server is ready, where, and with what.
func announce(log *slog.Logger, cfg *config.Config, srv *server.Server, info *server.Info, took time.Duration) {
	var addrs []string
	for _, a := range srv.Addrs() {
		addrs = append(addrs, a.String())
	}
	data := "memory"
	if !cfg.InMemory {
		data = cfg.DataDir
	}
	found := "new"
	if !info.New {
		found = "existing"
	}
	log.Info("ready",
		"version", version.Get().String(), "clients", strings.Join(addrs, ","), "data", data, "found", found,
		"znodes", srv.NodeCount(), "sessions", srv.SessionCount(), "took", took.Round(time.Millisecond))
}
