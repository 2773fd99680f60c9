package cli

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// The tar archive: a node is a folder, and its data a file named dataFile in it, which is
// missing for null. Extended headers (PAX) carry what a file system does not have:
//
//	ZKD.root  in the first entry: the path that was exported
//	ZKD.path  the node's path relative to the root; names alone could be ambiguous
//	ZKD.acl   the access control list, a JSON array of scheme:id:perms
//
// An archive without them, made by tar(1), can be read too: each folder is a node, a file named
// dataFile its data, and any other file a node with that data.
const (
	dataFile  = "@data"
	paxRoot   = "ZKD.root"
	paxPath   = "ZKD.path"
	paxACL    = "ZKD.acl"
	tarFolder = "root" // stands for the exported node itself
)

// maxArchiveNode bounds the data of one node: far more than a server accepts.
const maxArchiveNode = 64 << 20

type tarArchive struct {
	w     *tar.Writer
	root  string
	first bool
}

func newTarArchive(w io.Writer, root string) *tarArchive {
	return &tarArchive{w: tar.NewWriter(w), root: root, first: true}
}

func (a *tarArchive) add(r *record) error {
	acl, err := marshal(formatACL(r.acl))
	if err != nil {
		return err
	}
	pax := map[string]string{paxPath: "/" + strings.TrimPrefix(r.rel, "/"), paxACL: string(acl)}
	if a.first {
		pax[paxRoot] = a.root
		a.first = false
	}
	folder := tarFolder + r.rel + "/"
	head := &tar.Header{Typeflag: tar.TypeDir, Name: folder, Mode: 0o700, Format: tar.FormatPAX, PAXRecords: pax}
	if err := a.w.WriteHeader(head); err != nil || r.data == nil {
		return err
	}
	head = &tar.Header{
		Typeflag: tar.TypeReg, Name: folder + dataFile, Mode: 0o600, Size: int64(len(r.data)),
		Format: tar.FormatPAX, PAXRecords: map[string]string{paxPath: pax[paxPath]},
	}
	if err := a.w.WriteHeader(head); err != nil {
		return err
	}
	_, err = a.w.Write(r.data)
	return err
}

func (a *tarArchive) finish() error { return a.w.Close() }

type tarSource struct {
	r      *tar.Reader
	from   string
	ahead  *tar.Header // read, and not used yet; nil at the end
	foster bool        // the archive is not ours
	seen   map[string]bool
}

// openTarArchive reads the first header.
func openTarArchive(r io.Reader) (*tarSource, error) {
	s := &tarSource{r: tar.NewReader(r), seen: map[string]bool{}}
	if err := s.advance(); err != nil {
		return nil, err
	}
	if s.ahead == nil {
		return nil, errors.New("there is nothing in it")
	}
	s.from = s.ahead.PAXRecords[paxRoot]
	s.foster = s.ahead.PAXRecords[paxPath] == ""
	return s, nil
}

// advance reads the next header of a file or a folder.
func (s *tarSource) advance() error {
	for {
		h, err := s.r.Next()
		if errors.Is(err, io.EOF) {
			s.ahead = nil
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag == tar.TypeDir || h.Typeflag == tar.TypeReg {
			s.ahead = h
			return nil
		}
	}
}

func (s *tarSource) root() string { return s.from }

func (s *tarSource) next() (*record, error) {
	if s.ahead == nil {
		return nil, io.EOF
	}
	h := s.ahead
	r, err := s.describe(h)
	if err != nil {
		return nil, err
	}
	if s.seen[r.rel] {
		return nil, fmt.Errorf("%s: the node %q comes twice", h.Name, r.rel)
	}
	s.seen[r.rel] = true
	if h.Typeflag == tar.TypeReg { // of another archive
		if r.data, err = s.content(h); err != nil {
			return nil, err
		}
		return r, s.advance()
	}
	if err := s.advance(); err != nil || s.ahead == nil {
		return r, err
	}
	if s.ahead.Typeflag == tar.TypeReg && path.Base(s.ahead.Name) == dataFile && s.relOf(s.ahead) == r.rel {
		if r.data, err = s.content(s.ahead); err != nil {
			return nil, err
		}
		return r, s.advance()
	}
	return r, nil
}

// relOf is the relative path of the node to which an entry belongs.
func (s *tarSource) relOf(h *tar.Header) string {
	if p := h.PAXRecords[paxPath]; !s.foster && p != "" {
		return strings.TrimSuffix(p, "/")
	}
	name := strings.Trim(path.Clean("/"+h.Name), "/")
	if path.Base(name) == dataFile && h.Typeflag == tar.TypeReg {
		name = strings.TrimSuffix(strings.TrimSuffix(name, dataFile), "/")
	}
	if name == "" {
		return ""
	}
	return "/" + name
}

// describe reads all but the data of a node.
func (s *tarSource) describe(h *tar.Header) (*record, error) {
	n := nodeJSON{Path: s.relOf(h)}
	if v := h.PAXRecords[paxACL]; v != "" {
		if err := json.Unmarshal([]byte(v), &n.ACL); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", h.Name, paxACL, err)
		}
	}
	return n.record()
}

// content reads the data of a node. What a header promises is not allocated before it is there.
func (s *tarSource) content(h *tar.Header) ([]byte, error) {
	if h.Size > maxArchiveNode {
		return nil, fmt.Errorf("%s: %d bytes; a node has at most %d", h.Name, h.Size, maxArchiveNode)
	}
	b, err := io.ReadAll(s.r)
	if b == nil && err == nil {
		b = []byte{}
	}
	return b, err
}
