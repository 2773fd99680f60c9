package server

import (
	"crypto/tls"
	"errors"
	"slices"

	"github.com/zkd-project/zkd/internal/tlsconf"
	"github.com/zkd-project/zkd/wire"
)

var errWrongEnsemble = errors.New("the client wants another ensemble")

// setUpAuth prepares what the configuration says of identities.
func (s *Server) setUpAuth() error {
	s.enforcedSchemes = s.cfg.Auth.EnforceSchemes
	if s.cfg.SecureClientPort < 0 && !s.cfg.ClientPortUnification {
		return nil
	}
	t, err := tlsconf.New(&s.cfg.TLS, s.log)
	if err != nil {
		return err
	}
	s.tls = t
	return nil
}

// ReloadTLS reads the certificates again; new connections get them. If the files are bad
// the old ones stay and the error says why.
func (s *Server) ReloadTLS() error {
	if s.tls == nil {
		return nil
	}
	return s.tls.Reload()
}

// x509IDs is the identity that the client's certificate gives it, and super for the
// configured super user. The chain was verified in the handshake.
func (c *conn) x509IDs() []wire.ID {
	t, ok := c.nc.(*tls.Conn)
	if !ok {
		return nil
	}
	chain := t.ConnectionState().PeerCertificates
	if len(chain) == 0 {
		return nil
	}
	c.mutual.Store(true)
	dn := tlsconf.SubjectDN(chain[0])
	ids := []wire.ID{{Scheme: "x509", ID: dn}}
	if super := c.s.cfg.Auth.X509SuperUser; super != "" && dn == super {
		ids = append(ids, wire.ID{Scheme: "super", ID: dn})
	}
	return ids
}

// ensembleMatches says whether a client that names an ensemble means this one. One that names
// none is let in, as in ZooKeeper.
func (s *Server) ensembleMatches(name string) bool {
	names := s.cfg.Auth.EnsembleNames
	switch {
	case len(names) == 0 || name == "":
		s.stats.EnsembleAuthSkip.Add(1)
	case slices.Contains(names, name):
		s.stats.EnsembleAuthSuccess.Add(1)
	default:
		s.stats.EnsembleAuthFail.Add(1)
		return false
	}
	return true
}
