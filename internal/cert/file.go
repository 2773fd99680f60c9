package cert

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/zkd-project/zkd/internal/vfs"
)

const (
	typeKey         = "PRIVATE KEY"
	typeCertificate = "CERTIFICATE"

	privateMode fs.FileMode = 0o600
	publicMode  fs.FileMode = 0o644

	// maxFileBytes bounds what is read: certificates have some hundred bytes each.
	maxFileBytes = 4 << 20
)

// An ExistsError is returned when a file would have to be replaced.
type ExistsError struct{ Name string }

func (e *ExistsError) Error() string { return e.Name + " exists" }

// Write puts a file with a private key into place: whole or not at all, readable by its owner
// only. One that exists is replaced only with replace.
func Write(name string, file []byte, replace bool) error {
	return write(name, file, privateMode, replace)
}

func write(name string, file []byte, mode fs.FileMode, replace bool) error {
	err := place(name, file, mode, replace)
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err // its path is that of the temporary file
	}
	if exists := (*ExistsError)(nil); err != nil && !errors.As(err, &exists) {
		return fmt.Errorf("cannot write %s: %w", name, err)
	}
	return err
}

// place fills a file beside the place first. A link instead of a rename is how a file that
// came up meanwhile is left alone; some file systems have no links.
func place(name string, file []byte, mode fs.FileMode, replace bool) (err error) {
	dir := filepath.Dir(name)
	f, err := os.CreateTemp(dir, "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer func() {
		_ = f.Close()
		if rerr := os.Remove(f.Name()); err == nil && !errors.Is(rerr, fs.ErrNotExist) {
			err = rerr
		}
	}()
	if _, err := f.Write(file); err != nil {
		return err
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if !replace {
		err := os.Link(f.Name(), name)
		if err == nil {
			return vfs.OS.SyncDir(dir)
		}
		if err := mustBeMissing(name); err != nil {
			return err
		}
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return err
	}
	return vfs.OS.SyncDir(dir)
}

func mustBeMissing(name string) error {
	_, err := os.Lstat(name)
	switch {
	case err == nil:
		return &ExistsError{name}
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return err
}

// ReadFile reads a file of certificates.
func ReadFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	file, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err == nil && len(file) > maxFileBytes {
		err = fmt.Errorf("%s is larger than %d bytes: no file of certificates", name, maxFileBytes)
	}
	return file, err
}

func keyBlock(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: typeKey, Bytes: der}), nil
}

func certificateBlock(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: typeCertificate, Bytes: c.Raw})
}

func parseKey(file []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(file)
	if block == nil || block.Type != typeKey {
		return nil, fmt.Errorf("it does not begin with a %s in PEM", typeKey)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a key of type %T cannot sign", key)
	}
	return signer, nil
}

// belong says whether a certificate is for a key.
func belong(public crypto.PublicKey, c *x509.Certificate) bool {
	own, ok := public.(interface{ Equal(crypto.PublicKey) bool })
	return ok && own.Equal(c.PublicKey)
}
