package tlsconf

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pavlo-v-chernykh/keystore-go/v4"
	pkcs12 "software.sslmate.com/src/go-pkcs12"

	"github.com/zkd-project/zkd/config"
)

const password = "changeit"

func pemBlock(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func pkcs8(t *testing.T, key any) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// pemFile is a key with its chain.
func (i *identity) pemFile(t *testing.T) []byte {
	t.Helper()
	file := pemBlock("PRIVATE KEY", pkcs8(t, i.key))
	file = append(file, pemBlock("CERTIFICATE", i.leaf.Raw)...)
	return append(file, pemBlock("CERTIFICATE", i.issuer.Raw)...)
}

func (i *identity) pkcs12File(t *testing.T) []byte {
	t.Helper()
	file, err := pkcs12.Modern.Encode(i.key, i.leaf, []*x509.Certificate{i.issuer}, password)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func storeJKS(t *testing.T, fill func(s keystore.KeyStore) error) []byte {
	t.Helper()
	s := keystore.New()
	if err := fill(s); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := s.Store(&b, []byte(password)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func (i *identity) jksFile(t *testing.T) []byte {
	t.Helper()
	return storeJKS(t, func(s keystore.KeyStore) error {
		return s.SetPrivateKeyEntry("server", keystore.PrivateKeyEntry{
			CreationTime: time.Unix(0, 0), PrivateKey: pkcs8(t, i.key),
			CertificateChain: []keystore.Certificate{{Type: "X509", Content: i.leaf.Raw}, {Type: "X509", Content: i.issuer.Raw}},
		}, []byte(password))
	})
}

func trustJKS(t *testing.T, c *x509.Certificate) []byte {
	t.Helper()
	return storeJKS(t, func(s keystore.KeyStore) error {
		return s.SetTrustedCertificateEntry("ca", keystore.TrustedCertificateEntry{
			CreationTime: time.Unix(0, 0), Certificate: keystore.Certificate{Type: "X509", Content: c.Raw},
		})
	})
}

func trustPKCS12(t *testing.T, c *x509.Certificate) []byte {
	t.Helper()
	file, err := pkcs12.Modern.EncodeTrustStore([]*x509.Certificate{c}, password)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// writeStore puts a file into a fresh folder.
func writeStore(t *testing.T, kind config.StoreType, file []byte) config.Store {
	t.Helper()
	name := filepath.Join(t.TempDir(), "store")
	if err := os.WriteFile(name, file, 0o600); err != nil {
		t.Fatal(err)
	}
	return config.Store{Location: name, Type: kind, Password: config.NewSecret(password)}
}

func TestKeyStoreFormats(t *testing.T) {
	ca := newAuthority(t, "ca")
	server := ca.issue(t, nil)
	other := ca.issue(t, nil)
	vectors, err := os.ReadFile("testdata/openssl.pem")
	if err != nil {
		t.Fatal(err)
	}
	damaged := func(file []byte) []byte {
		file = bytes.Clone(file)
		file[len(file)/2] ^= 1
		return file
	}
	var shuffled []byte
	for _, c := range []*x509.Certificate{server.issuer, other.leaf, server.leaf} {
		shuffled = append(shuffled, pemBlock("CERTIFICATE", c.Raw)...)
	}
	shuffled = append(shuffled, pemBlock("PRIVATE KEY", pkcs8(t, server.key))...)
	ec, err := x509.MarshalECPrivateKey(server.key)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		kind config.StoreType
		file []byte
		want string // part of the error, "" if it is read
	}{
		{"PEM", config.StorePEM, server.pemFile(t), ""},
		{"PEM in any order", config.StorePEM, shuffled, ""},
		{"PEM with an EC key", config.StorePEM, append(pemBlock("EC PRIVATE KEY", ec), shuffled[:strings.Index(string(shuffled), "-----BEGIN PRIVATE")]...), ""},
		{"PKCS12", config.StorePKCS12, server.pkcs12File(t), ""},
		{"JKS", config.StoreJKS, server.jksFile(t), ""},
		{"PKCS12 that is called JKS", config.StoreJKS, server.pkcs12File(t), ""},
		{"JKS that is called PKCS12", config.StorePKCS12, server.jksFile(t), ""},

		{"PEM that is called PKCS12", config.StorePKCS12, server.pemFile(t), "it is not a PKCS12 file"},
		{"PKCS12 that is called PEM", config.StorePEM, server.pkcs12File(t), "no private key in it"},
		{"JCEKS", config.StoreJKS, append(bytes.Clone(jceksMagic), 0, 0, 0, 2), "it is a JCEKS store"},
		{"empty", config.StoreJKS, nil, "it is not a JKS file"},
		{"JKS cut off", config.StoreJKS, server.jksFile(t)[:100], errWrongPassword.Error()},
		{"JKS of four bytes", config.StoreJKS, jksMagic, errWrongPassword.Error()},
		{"JKS damaged", config.StoreJKS, damaged(server.jksFile(t)), errWrongPassword.Error()},
		{"PKCS12 damaged", config.StorePKCS12, damaged(server.pkcs12File(t)), "password is wrong"},
		{"JKS without a key", config.StoreJKS, trustJKS(t, ca.issuer), "no private key in it"},
		{"PKCS12 without a key", config.StorePKCS12, trustPKCS12(t, ca.issuer), "private key missing"},
		{"PEM without a key", config.StorePEM, pemBlock("CERTIFICATE", server.leaf.Raw), "no private key in it"},
		{"PEM without a certificate", config.StorePEM, pemBlock("PRIVATE KEY", pkcs8(t, server.key)), "no certificate in it"},
		{"PEM with two keys", config.StorePEM, append(server.pemFile(t), server.pemFile(t)...), "more than one private key"},
		{"PEM with a foreign certificate", config.StorePEM, append(pemBlock("PRIVATE KEY", pkcs8(t, other.key)), pemBlock("CERTIFICATE", server.leaf.Raw)...), "no certificate belongs to the key"},
		{"PEM with a broken certificate", config.StorePEM, append(pemBlock("PRIVATE KEY", pkcs8(t, other.key)), pemBlock("CERTIFICATE", []byte{1})...), "certificate 1: "},
		{"PEM with an old encryption", config.StorePEM, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Headers: map[string]string{"DEK-Info": "DES-CBC,00"}}), "openssl pkcs8 -topk8"},
		{"PEM with another kind of key", config.StorePEM, pemBlock("DSA PRIVATE KEY", nil), "a DSA PRIVATE KEY is unknown"},
		{"PEM with a PBES1 key", config.StorePEM, vectors[strings.LastIndex(string(vectors), "-----BEGIN"):], "change it with openssl pkcs8 -topk8 -v2"},
	} {
		s := writeStore(t, test.kind, test.file)
		keys, err := loadKeys(&s)
		if test.want != "" {
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: got %v, want %q", test.name, err, test.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		chain := keys[0].Certificate
		if len(keys) != 1 || len(chain) != 2 || !bytes.Equal(chain[0], server.leaf.Raw) || !bytes.Equal(chain[1], server.issuer.Raw) ||
			!server.key.Equal(keys[0].PrivateKey) {
			t.Errorf("%s: wrong key or chain of %d", test.name, len(chain))
		}
	}
}

func TestTrustStoreFormats(t *testing.T) {
	ca := newAuthority(t, "ca")
	server := ca.issue(t, nil)
	for _, test := range []struct {
		name string
		kind config.StoreType
		file []byte
		want int // certificates, -1: an error
	}{
		{"PEM", config.StorePEM, append(pemBlock("CERTIFICATE", ca.issuer.Raw), pemBlock("CERTIFICATE", server.leaf.Raw)...), 2},
		{"PKCS12", config.StorePKCS12, trustPKCS12(t, ca.issuer), 1},
		{"JKS", config.StoreJKS, trustJKS(t, ca.issuer), 1},
		{"JKS with a key only", config.StoreJKS, server.jksFile(t), 0},
		{"PKCS12 with a key", config.StorePKCS12, server.pkcs12File(t), -1},
		{"PEM without certificates", config.StorePEM, []byte("nothing"), -1},
		{"not JKS", config.StoreJKS, []byte("nothing"), -1},
		{"JKS cut off", config.StoreJKS, trustJKS(t, ca.issuer)[:50], -1},
	} {
		s := writeStore(t, test.kind, test.file)
		certificates, err := loadTrust(&s)
		if (err != nil) != (test.want < 0) || err == nil && len(certificates) != test.want {
			t.Errorf("%s: got %d certificates, %v", test.name, len(certificates), err)
		}
	}
}

func TestPasswords(t *testing.T) {
	ca := newAuthority(t, "ca")
	server := ca.issue(t, nil)
	file := filepath.Join(t.TempDir(), "password")
	for _, test := range []struct {
		name, inline, inFile string
		ok                   bool
	}{
		{"inline", password, "", true},
		{"wrong", "wrong", "", false},
		{"empty", "", "", false},
		{"file", "", password, true},
		{"file with a line end", "", password + "\n", true},
		{"file with a Windows line end", "", password + "\r\n", true},
		{"file comes first", "wrong", password + "\n", true},
		{"blank in the file", "", " " + password, false},
	} {
		for _, kind := range []config.StoreType{config.StoreJKS, config.StorePKCS12} {
			data := server.jksFile(t)
			if kind == config.StorePKCS12 {
				data = server.pkcs12File(t)
			}
			s := writeStore(t, kind, data)
			s.Password = config.NewSecret(test.inline)
			if test.inFile != "" {
				if err := os.WriteFile(file, []byte(test.inFile), 0o600); err != nil {
					t.Fatal(err)
				}
				s.PasswordPath = file
			}
			if _, err := loadKeys(&s); (err == nil) != test.ok {
				t.Errorf("%s, %s: %v", test.name, kind, err)
			} else if err != nil && !strings.Contains(err.Error(), "password is wrong") {
				t.Errorf("%s, %s: the error does not blame the password: %v", test.name, kind, err)
			}
		}
	}
	s := writeStore(t, config.StoreJKS, server.jksFile(t))
	s.PasswordPath = filepath.Join(t.TempDir(), "missing")
	if _, err := loadKeys(&s); err == nil {
		t.Error("a missing password file is no error")
	}
}

// TestEncryptedKeysOfOpenSSL holds decryptPKCS8 to files that another program has made.
func TestEncryptedKeysOfOpenSSL(t *testing.T) {
	rest, err := os.ReadFile("testdata/openssl.pem")
	if err != nil {
		t.Fatal(err)
	}
	plain, rest := pem.Decode(rest)
	for i := range 3 {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		if der, err := decryptPKCS8(block.Bytes, password); err != nil || !bytes.Equal(der, plain.Bytes) {
			t.Errorf("key %d: %v", i, err)
		}
		if _, err := pemKey(block, "wrong"); err == nil || err.Error() != errWrongPassword.Error() {
			t.Errorf("key %d with a wrong password: %v", i, err)
		}
	}
}

// FuzzStores: no file makes a decoder panic or yields a key without a certificate.
func FuzzStores(f *testing.F) {
	vectors, err := os.ReadFile("testdata/openssl.pem")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(vectors)
	f.Add(append(bytes.Clone(jksMagic), jksDigest(jksMagic, password)...))
	for block, rest := pem.Decode(vectors); block != nil; block, rest = pem.Decode(rest) {
		f.Add(block.Bytes)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		_, _ = decryptPKCS8(file, password)
		for _, read := range []func([]byte, string) ([]tls.Certificate, error){pemKeys, jksKeys} {
			if keys, err := read(file, password); err == nil && len(keys) == 0 {
				t.Fatalf("%x: no key and no error", file)
			}
		}
		_, _ = jksTrust(file, password)
	})
}
