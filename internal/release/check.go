package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// The patterns of the schema, and of the package URLs of Go modules.
var (
	serialPattern = regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	timePattern   = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`)
	purlPattern   = regexp.MustCompile(`^pkg:golang/[A-Za-z0-9._~/-]+@[A-Za-z0-9.+_-]+$`)
)

// check proves, on this checkout, what a release promises: the same bytes wherever it is
// built, nothing of this machine in it, a complete SBOM, a size within bounds, and a binary
// that needs nothing but itself.
func check(root string, s stamp, out io.Writer) error {
	if s.Version == "" { // no git here
		s.Version = "v0.0.0"
	}
	work, err := os.MkdirTemp("", "zkd-check-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	binary := filepath.Join(work, "zkd")
	if err := build(root, targets[0], s, true, binary); err != nil {
		return err
	}
	steps := []struct {
		name string
		run  func() error
	}{
		{"the same bytes from another folder", func() error { return sameElsewhere(root, work, binary, s) }},
		{"no path of this machine", func() error { return noPaths(root, work, binary) }},
		{"SBOM and licences", func() error { return checkBOM(root, binary, s) }},
		{"size", func() error { return size(root, s, false, out) }},
		{"alone in a root directory", func() error { return alone(work, binary, out) }},
	}
	var errs []error
	for _, step := range steps {
		err := step.run()
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", step.name, err))
			continue
		}
		fmt.Fprintln(out, "ok:", step.name)
	}
	return errors.Join(errs...)
}

// sameElsewhere builds a copy of the sources in a folder with another name and depth.
func sameElsewhere(root, work, binary string, s stamp) error {
	elsewhere := filepath.Join(work, "a", "folder of another name", "src")
	if err := copySources(root, elsewhere); err != nil {
		return err
	}
	second := filepath.Join(work, "zkd-elsewhere")
	if err := build(elsewhere, targets[0], s, true, second); err != nil {
		return err
	}
	x, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	y, err := os.ReadFile(second)
	if err != nil {
		return err
	}
	if !bytes.Equal(x, y) {
		return fmt.Errorf("the binaries differ: %d and %d bytes", len(x), len(y))
	}
	return nil
}

// copySources copies what the Go toolchain reads; no hidden folder, so no git either.
func copySources(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		short, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && short != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "dist" || d.Name() == "zkd-data"):
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, short), 0o755)
		case !d.Type().IsRegular() || strings.HasSuffix(short, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, short), text, 0o644)
	})
}

// noPaths looks for folders of this machine in the binary: with them, nobody else could build
// the same one.
func noPaths(root, work, binary string) error {
	text, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	env, err := output(root, nil, "go", "env", "-json", "GOROOT", "GOMODCACHE", "GOCACHE")
	if err != nil {
		return err
	}
	var dirs map[string]string
	if err := json.Unmarshal([]byte(env), &dirs); err != nil {
		return err
	}
	dirs["the checkout"], dirs["the folder for temporary files"] = root, work
	for what, dir := range dirs {
		if len(dir) > 1 && bytes.Contains(text, []byte(dir+string(filepath.Separator))) {
			return fmt.Errorf("the binary contains %s, %s", what, dir)
		}
	}
	return nil
}

// checkBOM holds the SBOM to what the schema demands of the fields that it has, and to the
// list of modules.
func checkBOM(root, binary string, s stamp) error {
	modules, err := linkedModules(root, binary)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	sbom, err := makeBOM(targets[0], s, modules, text)
	if err != nil {
		return err
	}
	if err := validBOM(sbom); err != nil {
		return err
	}
	for _, m := range modules {
		if !bytes.Contains(sbom, []byte(`"pkg:golang/`+m.Path+"@"+m.Version+`"`)) {
			return fmt.Errorf("%s is not in it", m.Path)
		}
	}
	return nil
}

// validBOM checks the rules of bom-1.5.schema.json that this SBOM could break.
func validBOM(text []byte) error {
	var b bom
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil {
		return err
	}
	var errs []error
	demand := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	demand(b.Format == "CycloneDX" && b.SpecVersion == "1.5" && b.Version >= 1, "not a CycloneDX 1.5 document")
	demand(serialPattern.MatchString(b.SerialNumber), "serialNumber %s is no UUID", b.SerialNumber)
	demand(timePattern.MatchString(b.Metadata.Timestamp), "timestamp %s is not in UTC", b.Metadata.Timestamp)
	refs := []string{}
	for _, c := range append([]bomComponent{b.Metadata.Component}, b.Components...) {
		demand(c.Type == "application" || c.Type == "library", "%s has the type %s", c.Name, c.Type)
		demand(c.Name != "" && c.Version != "", "%s: name or version is missing", c.Ref)
		demand(purlPattern.MatchString(c.Purl), "%s is no package URL", c.Purl)
		demand(!slices.Contains(refs, c.Ref), "%s is there twice", c.Ref)
		refs = append(refs, c.Ref)
		demand(len(c.Licenses) == 1 && c.Licenses[0].License.ID != "", "%s has no licence", c.Name)
		for _, h := range c.Hashes {
			demand(h.Alg == "SHA-256" && len(h.Content) == 64, "%s has a bad hash", c.Name)
		}
	}
	for _, dep := range b.Dependencies {
		for _, ref := range append([]string{dep.Ref}, dep.DependsOn...) {
			demand(slices.Contains(refs, ref), "%s is in the dependencies only", ref)
		}
	}
	return errors.Join(errs...)
}
