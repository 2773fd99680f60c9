package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// A packed is a file of an archive.
type packed struct {
	name string
	mode int64
	data []byte
}

// dist makes everything that is published: an archive and an SBOM for each target, and
// SHA256SUMS over all of them.
func dist(root, dir string, s stamp, out io.Writer) error {
	if s.Version == "" {
		return fmt.Errorf("there is no git here to ask for the version: give --version, --commit and --date")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "zkd-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	manuals, err := manPages(root, work, s)
	if err != nil {
		return err
	}
	if len(manuals) == 0 {
		fmt.Fprintln(out, "this zkd makes no man pages: the archives have none")
	}
	var made []string
	for _, t := range targets {
		names, err := distTarget(root, dir, work, t, s, manuals)
		if err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
		made = append(made, names...)
		fmt.Fprintln(out, strings.Join(names, "  "))
	}
	return writeSums(dir, made)
}

// distTarget makes the archive and the SBOM of one target, and returns their names.
func distTarget(root, dir, work string, t target, s stamp, manuals []packed) ([]string, error) {
	binary := filepath.Join(work, "zkd-"+t.String())
	if err := build(root, t, s, true, binary); err != nil {
		return nil, err
	}
	modules, err := linkedModules(root, binary)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	if err := checkLimits(int64(len(text)), len(modules)-1); err != nil { // Go is not counted
		return nil, err
	}
	files := []packed{{"zkd", 0o755, text}, {"THIRD-PARTY.txt", 0o644, []byte(thirdParty(modules))}}
	own, err := ownFiles(root, t)
	if err != nil {
		return nil, err
	}
	files = append(append(files, own...), manuals...)
	base := "zkd-" + s.Version + "-" + t.String()
	f, err := os.Create(filepath.Join(dir, base+".tar.gz"))
	if err != nil {
		return nil, err
	}
	if err := pack(f, base, s.time(), files); err != nil {
		_ = f.Close()
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	sbom, err := makeBOM(t, s, modules, text)
	if err != nil {
		return nil, err
	}
	return []string{base + ".tar.gz", base + ".cdx.json"}, os.WriteFile(filepath.Join(dir, base+".cdx.json"), sbom, 0o644)
}

// ownFiles are the files of the repository that go along. A pattern that finds nothing is a
// mistake, but for systemd's units: they are for Linux.
func ownFiles(root string, t target) ([]packed, error) {
	patterns := []string{"README.md", "LICENSE", "CHANGELOG.md", "docs/*.md", "deploy/zoo.cfg", "deploy/alerts.yaml", "deploy/grafana.json"}
	if t.OS == "linux" {
		patterns = append(patterns, "deploy/systemd/*")
	}
	var files []packed
	for _, p := range patterns {
		names, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(p)))
		if err != nil {
			return nil, err
		}
		if len(names) == 0 {
			return nil, fmt.Errorf("there is no %s for the archive", p)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			short, err := filepath.Rel(root, name)
			if err != nil {
				return nil, err
			}
			files = append(files, packed{filepath.ToSlash(short), 0o644, text})
		}
	}
	return files, nil
}

// manPages lets a zkd of this machine write its manual. One that cannot yet has none.
func manPages(root, work string, s stamp) ([]packed, error) {
	binary := filepath.Join(work, "zkd-here")
	if err := build(root, target{runtime.GOOS, runtime.GOARCH}, s, true, binary); err != nil {
		return nil, err
	}
	if _, err := output(root, nil, binary, "man", "--help"); err != nil {
		return nil, nil
	}
	dir := filepath.Join(work, "man")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	epoch := fmt.Sprintf("SOURCE_DATE_EPOCH=%d", s.time().Unix())
	if _, err := output(root, []string{epoch}, binary, "man", dir); err != nil {
		return nil, err
	}
	var files []packed
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		files = append(files, packed{"man/" + filepath.Base(path), 0o644, text})
		return err
	})
	return files, err
}

// pack writes an archive in which nothing is left to chance: sorted, with one time, of nobody.
func pack(w io.Writer, folder string, at time.Time, files []packed) error {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b packed) int { return strings.Compare(a.name, b.name) })
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	for _, f := range files {
		h := tar.Header{
			Typeflag: tar.TypeReg, Name: folder + "/" + f.name, Mode: f.mode, Size: int64(len(f.data)), ModTime: at,
			Uname: "root", Gname: "root", Format: tar.FormatUSTAR,
		}
		if err := t.WriteHeader(&h); err != nil {
			return err
		}
		if _, err := t.Write(f.data); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	return z.Close()
}

// writeSums writes what `sha256sum -c SHA256SUMS` reads.
func writeSums(dir string, names []string) error {
	slices.Sort(names)
	var b strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(text), name)
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(b.String()), 0o644)
}
