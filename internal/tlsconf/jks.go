package tlsconf

import (
	"bytes"
	"crypto/sha1"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"unicode/utf16"

	"github.com/pavlo-v-chernykh/keystore-go/v4"
)

var (
	jksMagic   = []byte{0xfe, 0xed, 0xfe, 0xed}
	jceksMagic = []byte{0xce, 0xce, 0xce, 0xce}
)

// openJKS checks the digest at the end of the file before anything is decoded: the decoder
// believes the lengths in it, and those of a damaged file could ask for any amount of memory.
func openJKS(file []byte, password string) (keystore.KeyStore, error) {
	store := keystore.New(keystore.WithOrderedAliases(), keystore.WithCaseExactAliases())
	body := len(file) - sha1.Size
	if body < 0 || !bytes.Equal(jksDigest(file[:body], password), file[body:]) {
		return store, errWrongPassword
	}
	return store, store.Load(bytes.NewReader(file), []byte(password))
}

// jksDigest is SHA-1 over the password in UTF-16, a fixed text and the file.
func jksDigest(body []byte, password string) []byte {
	h := sha1.New()
	for _, unit := range utf16.Encode([]rune(password)) {
		h.Write([]byte{byte(unit >> 8), byte(unit)})
	}
	h.Write([]byte("Mighty Aphrodite"))
	h.Write(body)
	return h.Sum(nil)
}

// jksKeys returns all keys in the order of their aliases; they have the store's password.
func jksKeys(file []byte, password string) ([]tls.Certificate, error) {
	store, err := openJKS(file, password)
	if err != nil {
		return nil, err
	}
	var keys []tls.Certificate
	for _, alias := range store.Aliases() {
		if !store.IsPrivateKeyEntry(alias) {
			continue
		}
		key, err := jksKey(store, alias, password)
		if err != nil {
			return nil, fmt.Errorf("key %s: %w", alias, err)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("no private key in it")
	}
	return keys, nil
}

func jksKey(store keystore.KeyStore, alias, password string) (tls.Certificate, error) {
	entry, err := store.GetPrivateKeyEntry(alias, []byte(password))
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%w (its password must be that of the store)", err)
	}
	key, err := x509.ParsePKCS8PrivateKey(entry.PrivateKey)
	if err != nil {
		return tls.Certificate{}, err
	}
	var chain []*x509.Certificate
	for _, c := range entry.CertificateChain {
		certificate, err := x509.ParseCertificate(c.Content)
		if err != nil {
			return tls.Certificate{}, err
		}
		chain = append(chain, certificate)
	}
	return keyAndChain(key, chain)
}

// jksTrust returns the trusted certificates, not those of keys: Java does not trust them
// either.
func jksTrust(file []byte, password string) ([]*x509.Certificate, error) {
	store, err := openJKS(file, password)
	if err != nil {
		return nil, err
	}
	var certificates []*x509.Certificate
	for _, alias := range store.Aliases() {
		if !store.IsTrustedCertificateEntry(alias) {
			continue
		}
		entry, err := store.GetTrustedCertificateEntry(alias)
		if err != nil {
			return nil, fmt.Errorf("certificate %s: %w", alias, err)
		}
		certificate, err := x509.ParseCertificate(entry.Certificate.Content)
		if err != nil {
			return nil, fmt.Errorf("certificate %s: %w", alias, err)
		}
		certificates = append(certificates, certificate)
	}
	return certificates, nil
}
