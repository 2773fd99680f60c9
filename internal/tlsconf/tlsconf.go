package tlsconf

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/config"
)

// pollInterval is how often handshakes look at the files at most.
const pollInterval = time.Second

// Config is the TLS side of a port.
type Config struct {
	side  *config.TLS
	log   *slog.Logger
	outer *tls.Config

	now    func() time.Time
	lookup func(addr string) (names []string, err error) // reverse DNS

	current  atomic.Pointer[tls.Config]
	lastPoll atomic.Int64 // Unix nanoseconds

	mu     sync.Mutex // held while the files are read: one reader is enough
	stamps []stamp    // guarded by mu; of the files as they were last tried
}

// New reads the stores. log gets a line for each reload; nil means slog.Default.
func New(side *config.TLS, log *slog.Logger) (*Config, error) {
	if log == nil {
		log = slog.Default()
	}
	c := &Config{side: side, log: log, now: time.Now, lookup: net.LookupAddr}
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
func (c *Config) Reload() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reload()
}

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

// poll reads the files if they have changed. Handshakes that find another at it go on with
// what there is.
func (c *Config) poll() {
	now, last := c.now().UnixNano(), c.lastPoll.Load()
	if !c.side.Reload || now-last < int64(pollInterval) || !c.lastPoll.CompareAndSwap(last, now) || !c.mu.TryLock() {
		return
	}
	defer c.mu.Unlock()
	if stampsEqual(c.stamps, stampAll(c.files())) {
		return
	}
	if err := c.reload(); err != nil {
		c.log.Error("changed TLS files cannot be used, the old ones stay in use", "error", err)
	}
}

// reload replaces current. The stamps are taken before the files are read: a change while
// they are read makes the next poll read them again. They are kept also after an error, so
// that it is logged once and not every second. c.mu is held.
func (c *Config) reload() error {
	c.stamps = stampAll(c.files())
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
		if next.ClientCAs, err = c.trusted(); err != nil {
			return fmt.Errorf("trust store %q: %w", c.side.TrustStore.Location, err)
		}
	}
	c.current.Store(next)
	leaf := certificates[0].Leaf
	level := slog.LevelInfo
	if c.now().After(leaf.NotAfter) {
		level = slog.LevelWarn
	}
	c.log.Log(context.Background(), level, "TLS keys are loaded", "subject", SubjectDN(leaf), "expires", leaf.NotAfter)
	return nil
}

func (c *Config) trusted() (*x509.CertPool, error) {
	certificates, err := loadTrust(&c.side.TrustStore)
	if err != nil {
		return nil, err
	}
	if len(certificates) == 0 {
		return nil, errors.New("no trusted certificate in it, so no client could connect")
	}
	pool := x509.NewCertPool()
	for _, certificate := range certificates {
		pool.AddCert(certificate)
	}
	return pool, nil
}

// files are those that the configuration is made of.
func (c *Config) files() []string {
	var names []string
	for _, s := range []*config.Store{&c.side.KeyStore, &c.side.TrustStore} {
		for _, name := range []string{s.Location, s.PasswordPath} {
			if name != "" {
				names = append(names, name)
			}
		}
	}
	return names
}

// A stamp tells whether a file has changed. A file that is missing has the zero stamp.
type stamp struct {
	modified time.Time
	size     int64
}

func stampAll(names []string) []stamp {
	stamps := make([]stamp, len(names))
	for i, name := range names {
		if info, err := os.Stat(name); err == nil {
			stamps[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	return stamps
}

func stampsEqual(a, b []stamp) bool {
	for i := range a {
		if a[i].size != b[i].size || !a[i].modified.Equal(b[i].modified) {
			return false
		}
	}
	return true
}
