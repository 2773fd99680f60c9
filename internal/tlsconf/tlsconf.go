package tlsconf

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/config"
)

// Config is the TLS side of a port.
type Config struct {
	watcher
	outer   *tls.Config
	lookup  func(addr string) (names []string, err error) // reverse DNS
	current atomic.Pointer[tls.Config]
}

// New reads the stores. log gets a line for each reload; nil means slog.Default.
func New(side *config.TLS, log *slog.Logger) (*Config, error) {
	if log == nil {
		log = slog.Default()
	}
	c := &Config{watcher: watcher{side: side, log: log, now: time.Now}, lookup: net.LookupAddr}
	c.load = c.reload
	c.outer = c.template()
	c.outer.GetConfigForClient = c.forClient
	if err := c.Reload(); err != nil {
		return nil, err
	}
	c.lastPoll.Store(c.now().UnixNano())
	return c, nil
}

// ServerConfig returns what tls.Server and tls.NewListener take. It is always the same, and
// follows the files by itself.
func (c *Config) ServerConfig() *tls.Config { return c.outer }

// Reload reads the stores again now. After an error the old ones stay in use.
func (c *Config) Reload() error { return c.read() }

// template is the part of the configuration that is not in files. There are no session
// tickets: a client that is no longer trusted must not come back with one, and connections
// live too long for them to save anything.
func (c *Config) template() *tls.Config {
	return &tls.Config{
		MinVersion:             c.side.MinVersion,
		MaxVersion:             c.side.MaxVersion,
		CipherSuites:           c.side.CipherSuites,
		SessionTicketsDisabled: true,
	}
}

// forClient is asked by crypto/tls once per handshake.
func (c *Config) forClient(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	c.poll()
	current := c.current.Load()
	if !c.side.VerifyClientHost {
		return current, nil
	}
	current = current.Clone()
	remote := hello.Conn.RemoteAddr()
	current.VerifyConnection = func(state tls.ConnectionState) error {
		if len(state.PeerCertificates) == 0 {
			return nil // ClientAuth has decided that this is allowed
		}
		return c.verifyHost(state.PeerCertificates[0], remote)
	}
	return current, nil
}

// reload replaces current.
func (c *Config) reload() error {
	next := c.template()
	certificates, err := loadKeys(&c.side.KeyStore)
	if err != nil {
		return fmt.Errorf("key store %q: %w", c.side.KeyStore.Location, err)
	}
	next.Certificates = certificates
	switch c.side.ClientAuth {
	case config.ClientAuthNone:
		next.ClientAuth = tls.NoClientCert
	case config.ClientAuthWant:
		next.ClientAuth = tls.VerifyClientCertIfGiven
	default:
		next.ClientAuth = tls.RequireAndVerifyClientCert
	}
	if next.ClientAuth != tls.NoClientCert {
		trusted, err := loadTrust(&c.side.TrustStore)
		if err == nil && len(trusted) == 0 {
			err = errors.New("no trusted certificate in it, so no client could connect")
		}
		if err != nil {
			return fmt.Errorf("trust store %q: %w", c.side.TrustStore.Location, err)
		}
		next.ClientCAs = pool(trusted)
	}
	c.current.Store(next)
	leaf := certificates[0].Leaf
	level, text := slog.LevelInfo, "TLS keys are loaded"
	switch left := leaf.NotAfter.Sub(c.now()); {
	case left < 0:
		level, text = slog.LevelWarn, "TLS keys are loaded, and have expired: clients will not trust them"
	case left < expiresSoon:
		level, text = slog.LevelWarn, "TLS keys are loaded, and expire soon: renew them"
	}
	c.log.Log(context.Background(), level, text, "subject", SubjectDN(leaf), "expires", leaf.NotAfter)
	return nil
}

func pool(certificates []*x509.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	for _, c := range certificates {
		p.AddCert(c)
	}
	return p
}
