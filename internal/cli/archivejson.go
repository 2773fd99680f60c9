package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// The JSON archive: one object, whose nodes stand on a line each, so that it can be compared
// and edited by line. Reading goes node by node, whatever the size.
//
//	{"format":"zkd-export","version":1,"root":"/app","nodes":[
//	{"path":"","data":"text","acl":["world:anyone:cdrwa"]},
//	{"path":"/a","dataBase64":"AP8=","acl":[…]}
//	]}
//
// path is relative to root; parents stand before their children. data is missing for null. A
// node without acl, which export does not write, lets everybody do everything.
const (
	archiveName    = "zkd-export"
	archiveVersion = 1
)

type nodeJSON struct {
	Path string `json:"path"`
	dataJSON
	ACL []string `json:"acl,omitempty"`
}

func (n *nodeJSON) record() (*record, error) {
	r := &record{rel: n.Path, data: n.bytes()}
	if n.Path != "" && checkPath(n.Path) != nil {
		return nil, fmt.Errorf("node %q: the path is not valid: %w", n.Path, checkPath(n.Path))
	}
	for _, entry := range n.ACL {
		acl, err := parseACLEntry(entry)
		if err != nil {
			return nil, fmt.Errorf("node %q: %w", n.Path, err)
		}
		r.acl = append(r.acl, acl)
	}
	return r, nil
}

func jsonNode(r *record) *nodeJSON {
	return &nodeJSON{Path: r.rel, dataJSON: jsonData(r.data), ACL: formatACL(r.acl)}
}

type jsonArchive struct {
	w *bufio.Writer
	n int
}

func newJSONArchive(w io.Writer, root string) *jsonArchive {
	a := &jsonArchive{w: bufio.NewWriter(w)}
	name, _ := marshal(root)
	fmt.Fprintf(a.w, `{"format":%q,"version":%d,"root":%s,"nodes":[`, archiveName, archiveVersion, name)
	return a
}

func (a *jsonArchive) add(r *record) error {
	b, err := marshal(jsonNode(r))
	if err != nil {
		return err
	}
	if a.n > 0 {
		_ = a.w.WriteByte(',')
	}
	a.n++
	_ = a.w.WriteByte('\n')
	_, err = a.w.Write(b)
	return err
}

func (a *jsonArchive) finish() error {
	_, _ = a.w.WriteString("\n]}\n")
	return a.w.Flush()
}

type jsonSource struct {
	d    *json.Decoder
	from string
}

// openJSONArchive reads up to the first node.
func openJSONArchive(r io.Reader) (*jsonSource, error) {
	s := &jsonSource{d: json.NewDecoder(r)}
	if err := s.expect(json.Delim('{')); err != nil {
		return nil, err
	}
	format, version := "", 0
	for {
		t, err := s.d.Token()
		if err != nil {
			return nil, s.why(err)
		}
		switch t {
		case "format":
			err = s.d.Decode(&format)
		case "version":
			err = s.d.Decode(&version)
		case "root":
			err = s.d.Decode(&s.from)
		case "nodes":
			if format != archiveName || version != archiveVersion {
				return nil, fmt.Errorf("the format is %q in version %d; it should be %q in version %d, before the nodes", format, version, archiveName, archiveVersion)
			}
			return s, s.expect(json.Delim('['))
		case json.Delim('}'):
			return nil, errors.New("there are no nodes in it")
		default:
			var skip json.RawMessage
			err = s.d.Decode(&skip)
		}
		if err != nil {
			return nil, s.why(err)
		}
	}
}

func (s *jsonSource) expect(want json.Delim) error {
	t, err := s.d.Token()
	if err == nil && t != want {
		err = fmt.Errorf("%v stands where %v should be", t, want)
	}
	return s.why(err)
}

// why adds where it is that the file cannot be read.
func (s *jsonSource) why(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("it ends in the middle")
	}
	return fmt.Errorf("byte %d: %w", s.d.InputOffset(), err)
}

func (s *jsonSource) root() string { return s.from }

func (s *jsonSource) next() (*record, error) {
	if !s.d.More() {
		if err := s.expect(json.Delim(']')); err != nil {
			return nil, err
		}
		return nil, io.EOF
	}
	var n nodeJSON
	if err := s.d.Decode(&n); err != nil {
		return nil, s.why(err)
	}
	return n.record()
}
