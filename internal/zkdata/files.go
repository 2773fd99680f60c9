package zkdata

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A file is a snapshot or a log, going by its name.
type file struct {
	fsys   fs.FS
	dir    string // for messages
	name   string
	zxid   int64 // in the name: the last one of a snapshot, the first one of a log
	packed string
	size   int64
	mtime  time.Time
}

const (
	snapshotPrefix = "snapshot."
	logPrefix      = "log."
)

// SnapshotName is the name of the snapshot whose last transaction is zxid.
func SnapshotName(zxid int64) string { return fmt.Sprintf("%s%x", snapshotPrefix, uint64(zxid)) }

// list finds the files with that prefix, in the order of their zxids.
func list(fsys fs.FS, dir, prefix string) ([]file, error) {
	entries, err := fs.ReadDir(fsys, ".")
	var pathErr *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no folder %s: name the dataDir of ZooKeeper, and its dataLogDir if it has one", dir)
	case errors.As(err, &pathErr): // its path is relative to dir
		return nil, fmt.Errorf("cannot read %s: %w", dir, pathErr.Err)
	case err != nil:
		return nil, fmt.Errorf("cannot read %s: %w", dir, err)
	}
	var files []file
	for _, e := range entries {
		hex, ok := strings.CutPrefix(e.Name(), prefix)
		f := file{fsys: fsys, dir: dir, name: e.Name()}
		if prefix == snapshotPrefix {
			for _, p := range []string{".gz", ".snappy"} {
				if bare, found := strings.CutSuffix(hex, p); found {
					hex, f.packed = bare, p
				}
			}
		}
		z, err := strconv.ParseUint(hex, 16, 63)
		if !ok || err != nil || e.IsDir() {
			continue
		}
		f.zxid = int64(z)
		info, err := e.Info()
		if err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", dir, err)
		}
		f.size, f.mtime = info.Size(), info.ModTime()
		files = append(files, f)
	}
	slices.SortStableFunc(files, func(a, b file) int { return cmp.Compare(a.zxid, b.zxid) })
	return files, nil
}

func (f *file) path() string { return filepath.Join(f.dir, f.name) }

// complete says whether the file was written to its end, as far as ZooKeeper looks
// (SnapStream.isValidSnapshot): a crash leaves some that were not.
func (f *file) complete() (bool, error) {
	if f.packed != "" {
		return f.size > 0, nil
	}
	const least = 10
	if f.size < least {
		return false, nil
	}
	r, err := f.fsys.Open(f.name)
	if err != nil {
		return false, err
	}
	defer r.Close()
	var b [5]byte
	at, ok := r.(io.ReaderAt)
	if !ok {
		return true, nil
	}
	if _, err := at.ReadAt(b[:], f.size-int64(len(b))); err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("%s: %w", f.path(), err)
	}
	return bytes.Equal(b[:], []byte{0, 0, 0, 1, '/'}), nil
}

// read opens the file, has use read it, and completes its error.
func (f *file) read(progress func(file string, done, size int64), use func(io.Reader) error) error {
	r, err := f.fsys.Open(f.name)
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", f.path(), err)
	}
	defer r.Close()
	var in io.Reader = &meter{r: r, tell: func(n int64) {
		if n < f.size { // the end is told once, below
			progress(f.path(), n, f.size)
		}
	}}
	switch f.packed {
	case ".gz":
		in, err = gzip.NewReader(in)
	case ".snappy":
		in, err = newSnappyReader(in)
	}
	if err == nil {
		err = use(in)
	}
	progress(f.path(), f.size, f.size)
	return f.locate(err)
}

// locate puts the path of the file into an error.
func (f *file) locate(err error) error {
	var fault *Error
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &fault):
		return fmt.Errorf("%s: %w", f.path(), err)
	}
	named := *fault
	named.File = f.path()
	if f.packed != "" {
		named.What += " (the offset may be that in the unpacked file)"
	}
	return &named
}

// A meter tells how much has been read.
type meter struct {
	r    io.Reader
	n    int64
	tell func(int64)
}

// Read implements io.Reader.
func (m *meter) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	m.n += int64(n)
	m.tell(m.n)
	return n, err
}
