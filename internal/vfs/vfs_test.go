package vfs_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/internal/vfs/vfstest"
)

// eachFS runs f on the machine's file system and on the one for tests: both keep the
// contract.
func eachFS(t *testing.T, f func(t *testing.T, fsys vfs.FS, dir string)) {
	t.Run("os", func(t *testing.T) { f(t, vfs.OS, t.TempDir()) })
	t.Run("test", func(t *testing.T) {
		d := vfstest.New()
		if err := d.MkdirAll("/dir", 0o700); err != nil {
			t.Fatal(err)
		}
		f(t, d, "/dir")
	})
}

func content(t *testing.T, fsys vfs.FS, path string) []byte {
	t.Helper()
	b, err := vfs.ReadFile(fsys, path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFileReadsWhatWasWritten(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys vfs.FS, dir string) {
		path := filepath.Join(dir, "f")
		f, err := fsys.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		steps := []func() error{
			func() error { return f.Preallocate(100) },
			func() error { return f.Preallocate(10) }, // never shortens
			func() error { _, err := f.Write([]byte("abc")); return err },
			func() error { _, err := f.WriteAt([]byte("xyz"), 50); return err },
			func() error { _, err := f.Write([]byte("def")); return err },
			f.Sync,
			func() error { return fsys.SyncDir(dir) },
		}
		for i, step := range steps {
			if err := step(); err != nil {
				t.Fatalf("step %d: %v", i, err)
			}
		}
		want := make([]byte, 100)
		copy(want, "abcdef")
		copy(want[50:], "xyz")
		if got := content(t, fsys, path); !bytes.Equal(got, want) {
			t.Fatalf("%q", got)
		}
		if n, err := f.Size(); n != 100 || err != nil {
			t.Fatal(n, err)
		}
		b := make([]byte, 10)
		if n, err := f.ReadAt(b, 95); n != 5 || !errors.Is(err, io.EOF) {
			t.Fatal(n, err)
		}
		if err := f.Truncate(4); err != nil {
			t.Fatal(err)
		}
		if err := f.Truncate(6); err != nil {
			t.Fatal(err)
		}
		if got := content(t, fsys, path); string(got) != "abcd\x00\x00" {
			t.Fatalf("%q", got)
		}
		if f.Name() != path {
			t.Fatal(f.Name())
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(b, 0); !errors.Is(err, fs.ErrClosed) {
			t.Fatal(err)
		}
	})
}

func TestNamesAndDirectories(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys vfs.FS, dir string) {
		sub := filepath.Join(dir, "a", "b")
		if err := fsys.MkdirAll(sub, 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := fsys.Open(filepath.Join(sub, "none")); !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if _, err := fsys.Stat(filepath.Join(sub, "none")); !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if err := fsys.Remove(filepath.Join(sub, "none")); !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		for _, name := range []string{"2", "1"} {
			if err := vfs.WriteFileAtomic(fsys, sub, filepath.Join(sub, name), []byte(name), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := fsys.OpenFile(filepath.Join(sub, "1"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
		if err := fsys.Rename(filepath.Join(sub, "2"), filepath.Join(sub, "1")); err != nil {
			t.Fatal(err)
		}
		list, err := fsys.ReadDir(sub)
		if err != nil || len(list) != 1 || list[0].Name() != "1" || list[0].IsDir() {
			t.Fatal(list, err)
		}
		if got := content(t, fsys, filepath.Join(sub, "1")); string(got) != "2" {
			t.Fatalf("%q", got)
		}
		st, err := fsys.Stat(sub)
		if err != nil || !st.IsDir() {
			t.Fatal(st, err)
		}
		if list, err := fsys.ReadDir(filepath.Join(dir, "a")); err != nil || len(list) != 1 || !list[0].IsDir() {
			t.Fatal(list, err)
		}
		if err := fsys.Remove(filepath.Join(sub, "1")); err != nil {
			t.Fatal(err)
		}
		if err := fsys.Remove(sub); err != nil {
			t.Fatal(err)
		}
	})
}

func TestLockIsHeldUntilItIsClosed(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys vfs.FS, dir string) {
		path := filepath.Join(dir, "lock")
		l, err := fsys.Lock(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fsys.Lock(path); !errors.Is(err, vfs.ErrLocked) {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l, err = fsys.Lock(path)
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	})
}

// WriteFileAtomic leaves the old file or the new one, wherever the power fails.
func TestWriteFileAtomicIsAtomic(t *testing.T) {
	for n := 1; ; n++ {
		d := vfstest.New()
		if err := vfs.WriteFileAtomic(d, "/", "/f", []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		d.Fail(n, vfstest.ErrDown)
		err := vfs.WriteFileAtomic(d, "/", "/f", []byte("new"), 0o600)
		failed := d.Failed()
		d.Crash(nil)
		got := string(content(t, d, "/f"))
		if got != "old" && got != "new" || err == nil && got != "new" {
			t.Fatalf("operation %d: %v, and then %q", n, err, got)
		}
		if !failed {
			return
		}
	}
}
