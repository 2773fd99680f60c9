package tlsconf

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// pemKeys reads a file with one private key and the certificates of its chain, in any
// order. A password is for a key in PKCS#8; openssl's older encryption is refused.
func pemKeys(file []byte, password string) ([]tls.Certificate, error) {
	var key any
	for rest := file; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if !strings.HasSuffix(block.Type, "PRIVATE KEY") {
			continue
		}
		if key != nil {
			return nil, errors.New("more than one private key in it; allowed: one")
		}
		var err error
		if key, err = pemKey(block, password); err != nil {
			return nil, err
		}
	}
	if key == nil {
		return nil, errors.New("no private key in it; put the key before the certificates into the same file")
	}
	certificates, err := pemCertificates(file)
	if err != nil {
		return nil, err
	}
	certificate, err := keyAndChain(key, certificates)
	return []tls.Certificate{certificate}, err
}

func pemKey(block *pem.Block, password string) (any, error) {
	if block.Headers["DEK-Info"] != "" {
		return nil, errors.New("the private key is encrypted in openssl's old way; change it with openssl pkcs8 -topk8")
	}
	switch block.Type {
	case "PRIVATE KEY":
		return x509.ParsePKCS8PrivateKey(block.Bytes)
	case "ENCRYPTED PRIVATE KEY":
		der, err := decryptPKCS8(block.Bytes, password)
		if err != nil {
			return nil, err
		}
		key, err := x509.ParsePKCS8PrivateKey(der)
		if err != nil {
			return nil, errWrongPassword // what came out is no key
		}
		return key, nil
	case "RSA PRIVATE KEY":
		return x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		return x509.ParseECPrivateKey(block.Bytes)
	}
	return nil, fmt.Errorf("a %s is unknown; allowed: PRIVATE KEY", block.Type)
}

// pemCertificates reads all certificates of a file, at least one.
func pemCertificates(file []byte) ([]*x509.Certificate, error) {
	var certificates []*x509.Certificate
	for rest := file; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if !strings.HasSuffix(block.Type, "CERTIFICATE") {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(certificates)+1, err)
		}
		certificates = append(certificates, certificate)
	}
	if len(certificates) == 0 {
		return nil, errors.New("no certificate in it")
	}
	return certificates, nil
}
