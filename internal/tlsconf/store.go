package tlsconf

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	pkcs12 "software.sslmate.com/src/go-pkcs12"

	"github.com/zkd-project/zkd/config"
)

// maxStoreBytes bounds a store or password file. Key stores have kilobytes, trust stores
// with every public authority some hundred of them.
const maxStoreBytes = 16 << 20

// loadKeys returns every key of a store with its chain, at least one.
func loadKeys(s *config.Store) ([]tls.Certificate, error) {
	file, password, err := open(s)
	if err != nil {
		return nil, err
	}
	switch format, err := formatOf(s.Type, file); {
	case err != nil:
		return nil, err
	case format == config.StorePEM:
		return pemKeys(file, password)
	case format == config.StoreJKS:
		return jksKeys(file, password)
	}
	key, leaf, others, err := pkcs12.DecodeChain(file, password)
	if err != nil {
		return nil, pkcs12Error(err)
	}
	certificate, err := keyAndChain(key, append([]*x509.Certificate{leaf}, others...))
	return []tls.Certificate{certificate}, err
}

// loadTrust returns the trusted certificates of a store.
func loadTrust(s *config.Store) ([]*x509.Certificate, error) {
	file, password, err := open(s)
	if err != nil {
		return nil, err
	}
	switch format, err := formatOf(s.Type, file); {
	case err != nil:
		return nil, err
	case format == config.StorePEM:
		return pemCertificates(file)
	case format == config.StoreJKS:
		return jksTrust(file, password)
	}
	certificates, err := pkcs12.DecodeTrustStore(file, password)
	if err != nil {
		return nil, pkcs12Error(err)
	}
	return certificates, nil
}

func pkcs12Error(err error) error {
	if errors.Is(err, pkcs12.ErrIncorrectPassword) {
		return errWrongPassword
	}
	return fmt.Errorf("%w (a trust store is made by keytool -importcert, a key store by openssl pkcs12 -export)", err)
}

var errWrongPassword = errors.New("the password is wrong, or the file is damaged")

// open reads a store and its password.
func open(s *config.Store) (file []byte, password string, err error) {
	if s.Location == "" {
		return nil, "", errors.New("no location is set")
	}
	if file, err = readFile(s.Location); err != nil {
		return nil, "", err
	}
	password = s.Password.Reveal()
	if s.PasswordPath == "" {
		return file, password, nil
	}
	text, err := readFile(s.PasswordPath)
	if err != nil {
		return nil, "", fmt.Errorf("its password: %w", err)
	}
	return file, strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"), nil
}

func readFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxStoreBytes {
		return nil, fmt.Errorf("%s has %d bytes, more than the %d that are read", name, info.Size(), maxStoreBytes)
	}
	return os.ReadFile(name)
}

// formatOf looks into a file that is called JKS or PKCS12: keytool has long written PKCS12
// into files named .jks, and Java reads either under both names.
func formatOf(declared config.StoreType, file []byte) (config.StoreType, error) {
	const derSequence = 0x30
	switch {
	case declared == config.StorePEM:
		return declared, nil
	case bytes.HasPrefix(file, jksMagic):
		return config.StoreJKS, nil
	case bytes.HasPrefix(file, jceksMagic):
		return "", errors.New("it is a JCEKS store; change it with keytool -importkeystore -deststoretype PKCS12")
	case len(file) > 0 && file[0] == derSequence:
		return config.StorePKCS12, nil
	}
	return "", fmt.Errorf("it is not a %s file", declared)
}

// keyAndChain joins a key with its certificate and those that have signed it, whatever order
// they come in. What does not belong to the chain is left out.
func keyAndChain(key any, certificates []*x509.Certificate) (tls.Certificate, error) {
	signer, ok := key.(crypto.Signer)
	if !ok {
		return tls.Certificate{}, fmt.Errorf("a key of type %T cannot sign; allowed: RSA, ECDSA, Ed25519", key)
	}
	public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok {
		return tls.Certificate{}, fmt.Errorf("a key of type %T is unknown; allowed: RSA, ECDSA, Ed25519", key)
	}
	i := slices.IndexFunc(certificates, func(x *x509.Certificate) bool { return public.Equal(x.PublicKey) })
	if i < 0 {
		return tls.Certificate{}, errors.New("no certificate belongs to the key")
	}
	c := tls.Certificate{PrivateKey: key, Leaf: certificates[i]}
	for next := certificates[i]; next != nil; {
		c.Certificate = append(c.Certificate, next.Raw)
		next = issuer(next, certificates)
		if len(c.Certificate) > len(certificates) { // two that signed each other
			break
		}
	}
	return c, nil
}

// issuer returns who signed c, nil if that is c itself or not there.
func issuer(c *x509.Certificate, certificates []*x509.Certificate) *x509.Certificate {
	if bytes.Equal(c.RawIssuer, c.RawSubject) {
		return nil
	}
	for _, candidate := range certificates {
		if bytes.Equal(candidate.RawSubject, c.RawIssuer) && c.CheckSignatureFrom(candidate) == nil {
			return candidate
		}
	}
	return nil
}
