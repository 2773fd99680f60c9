package tlsconf

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/config"
)

// expiresSoon is when a certificate that is loaded is worth a warning: it takes a person to
// renew it.
const expiresSoon = 30 * 24 * time.Hour

// Peer is the TLS of the port between the servers of a cluster, where each side shows a
// certificate that names its member.
//
// A renewed certificate is taken up by itself, and so are authorities: Config does not change,
// Roots says whom to trust now. Whatever is in use has been checked against what is in use: a
// certificate that the trusted ones have not signed is never taken up, nor are authorities that
// do not vouch for the certificate of this server.
type Peer struct {
	watcher
	id     int
	folder string // zkd.peerTLSDir, "" with stores
	outer  *tls.Config

	trusted atomic.Pointer[trust]
	current atomic.Pointer[tls.Certificate]
}

// trust is whom this server believes. It is immutable.
type trust struct {
	certificates []*x509.Certificate
	pool         *x509.CertPool
}

// NewPeer reads the stores that a cluster's configuration names. Without TLS between servers
// it returns nil, whose methods do nothing. log gets a line for each reload; nil means
// slog.Default.
func NewPeer(cluster *config.Cluster, log *slog.Logger) (*Peer, error) {
	side, on := cluster.PeerTLS()
	if !on {
		return nil, nil
	}
	if log == nil {
		log = slog.Default()
	}
	p := &Peer{
		watcher: watcher{side: &side, log: log, now: time.Now},
		id:      cluster.ServerID,
		folder:  cluster.PeerTLSDir,
	}
	p.load = p.reload
	trusted, err := p.readTrusted()
	if err != nil {
		return nil, err
	}
	p.trusted.Store(trusted)
	if err := p.read(); err != nil {
		return nil, err
	}
	p.lastPoll.Store(p.now().UnixNano())
	p.warnOfKey()
	roots := p.trusted.Load().pool
	p.outer = &tls.Config{
		MinVersion:             side.MinVersion,
		RootCAs:                roots,
		ClientCAs:              roots,
		ClientAuth:             tls.RequireAndVerifyClientCert,
		SessionTicketsDisabled: true,
		GetCertificate:         func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return p.certificate(), nil },
		GetClientCertificate:   func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return p.certificate(), nil },
	}
	return p, nil
}

// Config returns what the peer port takes for both directions; nil without TLS. It is always
// the same, and follows the files by itself.
func (p *Peer) Config() *tls.Config {
	if p == nil {
		return nil
	}
	return p.outer
}

// Roots are the authorities that are trusted now; nil without TLS.
func (p *Peer) Roots() *x509.CertPool {
	if p == nil {
		return nil
	}
	p.poll()
	return p.trusted.Load().pool
}

// Reload reads the stores again now. After an error the old certificate stays in use.
func (p *Peer) Reload() error {
	if p == nil {
		return nil
	}
	return p.read()
}

// Expires is when the certificate in use ends; zero without TLS.
func (p *Peer) Expires() time.Time {
	if p == nil {
		return time.Time{}
	}
	return p.current.Load().Leaf.NotAfter
}

// certificate is asked for once per handshake and side.
func (p *Peer) certificate() *tls.Certificate {
	p.poll()
	return p.current.Load()
}

// reload replaces current and trusted. New authorities are judged together with the new
// certificate: both may come at once. If they do not fit each other the old ones stay, and the
// certificate has to fit those.
func (p *Peer) reload() error {
	keys, err := loadKeys(&p.side.KeyStore)
	if err != nil {
		return p.advise(fmt.Errorf("key store %q: %w", p.side.KeyStore.Location, err))
	}
	next, err := p.choose(keys)
	if err != nil {
		return fmt.Errorf("key store %q: %w", p.side.KeyStore.Location, err)
	}
	old := p.trusted.Load()
	trusted, trustErr := p.readTrusted()
	if trustErr != nil || sameCertificates(trusted.certificates, old.certificates) {
		trusted = old
	} else if err := p.check(next, trusted); err != nil {
		trusted, trustErr = old, err
	}
	if err := p.check(next, trusted); err != nil {
		return fmt.Errorf("key store %q: %w", p.side.KeyStore.Location, err)
	}
	p.trusted.Store(trusted)
	p.current.Store(next)
	level, text := slog.LevelInfo, "TLS keys of the peer port are loaded"
	if next.Leaf.NotAfter.Sub(p.now()) < expiresSoon {
		level, text = slog.LevelWarn, "TLS keys of the peer port are loaded, and expire soon: renew them"
	}
	p.log.Log(context.Background(), level, text, "subject", SubjectDN(next.Leaf), "expires", next.Leaf.NotAfter)
	switch {
	case trustErr != nil:
		p.log.Error("the changed trust store of the peer port cannot be used, the old one stays in use", "error", trustErr)
	case trusted != old:
		p.log.Info("other authorities are trusted at the peer port", "file", p.side.TrustStore.Location, "certificates", len(trusted.certificates))
	}
	return nil
}

// choose finds the certificate of this member. Most stores have one.
func (p *Peer) choose(keys []tls.Certificate) (*tls.Certificate, error) {
	want := strconv.Itoa(p.id)
	var others []string
	for i := range keys {
		ids := MembersOf(keys[i].Leaf)
		if slices.Contains(ids, want) {
			return &keys[i], nil
		}
		others = append(others, ids...)
	}
	if len(others) > 0 {
		return nil, fmt.Errorf("it is the certificate of server %s, and this is server %d; %s", others[0], p.id, p.remedy())
	}
	return nil, fmt.Errorf("the certificate of %s has no alternative name %s; %s", SubjectDN(keys[0].Leaf), MemberName(p.id), p.remedy())
}

// check refuses a certificate that no other member would take.
func (p *Peer) check(c *tls.Certificate, by *trust) error {
	now := p.now()
	switch {
	case now.Before(c.Leaf.NotBefore):
		return fmt.Errorf("its certificate begins on %s; is the clock of this machine right?", c.Leaf.NotBefore.UTC().Format(time.RFC3339))
	case now.After(c.Leaf.NotAfter):
		return fmt.Errorf("its certificate has expired on %s; %s --force", c.Leaf.NotAfter.UTC().Format(time.RFC3339), p.remedy())
	}
	o := x509.VerifyOptions{Roots: by.pool, Intermediates: x509.NewCertPool(), CurrentTime: now}
	for _, der := range c.Certificate[1:] {
		if between, err := x509.ParseCertificate(der); err == nil {
			o.Intermediates.AddCert(between)
		}
	}
	for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		o.KeyUsages = []x509.ExtKeyUsage{use}
		_, err := c.Leaf.Verify(o)
		var invalid x509.CertificateInvalidError
		switch {
		case err == nil:
		case errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage:
			return errors.New("its certificate must be good for servers and for clients (extended key usages serverAuth and clientAuth)")
		default:
			return fmt.Errorf("the certificates that this server trusts (%s) do not vouch for its own: %w", p.side.TrustStore.Location, err)
		}
	}
	return nil
}

// remedy is what makes a certificate that fits.
func (p *Peer) remedy() string {
	return "make one with zkd cert node --dir DIR --id " + strconv.Itoa(p.id)
}

// advise adds the remedy where a file of the folder is missing.
func (p *Peer) advise(err error) error {
	if p.folder != "" && errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w; %s, and copy it with ca.pem into %s", err, p.remedy(), p.folder)
	}
	return err
}

func (p *Peer) readTrusted() (*trust, error) {
	trusted, err := loadTrust(&p.side.TrustStore)
	if err == nil && len(trusted) == 0 {
		err = errors.New("no trusted certificate in it, so no server could connect")
	}
	if err != nil {
		return nil, p.advise(fmt.Errorf("trust store %q: %w", p.side.TrustStore.Location, err))
	}
	return &trust{trusted, pool(trusted)}, nil
}

// warnOfKey looks for what must not be on a server: who has the CA's key can be every member.
func (p *Peer) warnOfKey() {
	if p.folder == "" {
		return
	}
	name := filepath.Join(p.folder, CAKeyFile)
	if _, err := os.Stat(name); err == nil {
		p.log.Warn("the key of the cluster's CA is on this server: whoever takes it can be any server; keep it elsewhere", "file", name)
	}
}

func sameCertificates(a, b []*x509.Certificate) bool {
	return slices.EqualFunc(a, b, func(x, y *x509.Certificate) bool { return bytes.Equal(x.Raw, y.Raw) })
}
