package client

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"sync"
)

// TLSFiles is a TLS configuration in PEM files, read again when they change:
//
//	files := &client.TLSFiles{CAFile: "ca.pem", CertFile: "me.pem", KeyFile: "me.key"}
//	c, err := client.Dial(ctx, servers, client.WithTLSFrom(files.Config))
//
// The fields are not changed after the first use.
type TLSFiles struct {
	CAFile     string // who may sign the server's certificate; empty: the system's authorities
	CertFile   string // our certificate and its chain; empty: none
	KeyFile    string // its key
	ServerName string // to be verified instead of the name in the list of servers

	mu     sync.Mutex
	stamps [3]os.FileInfo // of the files that conf was read from; nil for a name that is empty
	conf   *tls.Config
}

// Config returns the configuration. Files that are being replaced and cannot be read as they
// are do not harm one that was read before.
func (f *TLSFiles) Config() (*tls.Config, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	stamps, err := f.look()
	if err == nil && (f.conf == nil || !slices.EqualFunc(stamps[:], f.stamps[:], sameFile)) {
		var conf *tls.Config
		if conf, err = f.load(); err == nil {
			f.conf, f.stamps = conf, stamps
		}
	}
	if f.conf == nil {
		return nil, err
	}
	return f.conf, nil
}

func (f *TLSFiles) look() (stamps [3]os.FileInfo, err error) {
	for i, name := range []string{f.CAFile, f.CertFile, f.KeyFile} {
		if name == "" {
			continue
		}
		if stamps[i], err = os.Stat(name); err != nil {
			return stamps, err
		}
	}
	return stamps, nil
}

// sameFile says that a file has not changed. The time alone does not tell: file systems count it in
// milliseconds, and a certificate that takes another's place is often of its size.
func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

func (f *TLSFiles) load() (*tls.Config, error) {
	conf := &tls.Config{ServerName: f.ServerName, MinVersion: tls.VersionTLS12}
	if f.CAFile != "" {
		pem, err := os.ReadFile(f.CAFile)
		if err != nil {
			return nil, err
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate in PEM form", f.CAFile)
		}
	}
	if f.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(f.CertFile, f.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("%s and %s: %w", f.CertFile, f.KeyFile, err)
		}
		conf.Certificates = []tls.Certificate{cert}
	}
	return conf, nil
}
