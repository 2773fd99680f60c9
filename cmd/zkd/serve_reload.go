package main

import (
	"errors"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/internal/tlsconf"
	"github.com/zkd-project/zkd/server"
)

// An instance is a server that runs, and what signals change about it.
type instance struct {
	sources config.Sources
	first   *config.Config // with which it was started
	last    *config.Config // which was read last without an error
	log     *logging
	srv     *server.Server
	peerTLS *tlsconf.Peer
	faces   *faces
}

// reload is SIGHUP: it reads certificates and configuration again. What cannot be read leaves
// the old in force, and what cannot be changed while the server runs is named.
func (i *instance) reload() {
	if err := errors.Join(i.srv.ReloadTLS(), i.peerTLS.Reload(), i.faces.reloadTLS()); err != nil {
		i.log.Error("certificates not reloaded; the old ones stay", "error", err)
	} else {
		i.log.Info("certificates reloaded")
	}
	next, warnings, err := config.Load(i.sources)
	if err != nil {
		i.log.Error("configuration not reloaded; the old one stays", "error", err)
		return
	}
	for _, w := range warnings {
		i.log.Warn(w.String())
	}
	if err := i.srv.Reload(next); err != nil {
		i.log.Error("a part of the configuration was not taken over", "error", err)
	}
	changed := 0
	for _, c := range config.Changes(i.last, next) {
		if c.Changeable {
			changed++
			i.log.Info("a setting has changed", "key", c.Name, "from", c.From, "to", c.To)
		}
	}
	waiting := 0
	for _, c := range config.Changes(i.first, next) {
		if !c.Changeable {
			waiting++
			i.log.Warn("a setting is in force after a restart only", "key", c.Name, "from", c.From, "to", c.To)
		}
	}
	i.last = next
	i.log.Info("configuration reloaded", "changed", changed, "need_restart", waiting)
	i.log.level.Set(levelOf(next)) // last, so that the lines above are seen
}

// reopen is SIGUSR1: the files of the log and of the audit log were moved away.
func (i *instance) reopen() {
	if err := errors.Join(i.log.reopen(), i.srv.ReopenAudit()); err != nil {
		i.log.Error("a log file was not opened anew; the old one is still written to", "error", err)
		return
	}
	i.log.Info("log files opened anew")
}
