package boltstore

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
	"go.uber.org/goleak"

	"github.com/zkd-project/zkd/server/replication/damage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openStable(t *testing.T, path string) *Stable {
	t.Helper()
	s, err := OpenStable(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStableKeepsValuesOverARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stable.db")
	s := openStable(t, path)
	if _, err := s.Get([]byte("k")); !IsNotFound(err) || err.Error() != "not found" {
		t.Fatalf("missing key: %v", err)
	}
	if _, err := s.GetUint64([]byte("n")); !IsNotFound(err) {
		t.Fatalf("missing number: %v", err)
	}
	for _, err := range []error{
		s.Set([]byte("k"), []byte("v1")), s.Set([]byte("k"), []byte("v2")),
		s.Set([]byte("empty"), nil), s.SetUint64([]byte("n"), 1<<63),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	if n, err := CheckStable(path); n != 3 || err != nil {
		t.Fatalf("check: %d values, %v", n, err)
	}
	s = openStable(t, path)
	defer s.Close()
	if v, err := s.Get([]byte("k")); string(v) != "v2" || err != nil {
		t.Fatalf("%q %v", v, err)
	}
	if v, err := s.Get([]byte("empty")); len(v) != 0 || err != nil {
		t.Fatalf("%q %v", v, err)
	}
	if n, err := s.GetUint64([]byte("n")); n != 1<<63 || err != nil {
		t.Fatalf("%d %v", n, err)
	}
	if _, err := s.GetUint64([]byte("k")); err == nil {
		t.Fatal("a text was read as a number")
	}
}

func TestStableNoticesFlippedBits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stable.db")
	s := openStable(t, path)
	value := []byte("a value that is easy to find")
	if err := s.Set([]byte("k"), value); err != nil {
		t.Fatal(err)
	}
	s.Close()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	i := bytes.Index(b, value)
	if i < 0 {
		t.Fatal("the value is not in the file")
	}
	// A page may be there more than once: bbolt never overwrites in place.
	for ; i >= 0; i = bytes.Index(b, value) {
		b[i] ^= 1
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	var d *damage.Error
	if _, err := CheckStable(path); !errors.As(err, &d) {
		t.Fatalf("check: %v", err)
	}
	s = openStable(t, path)
	defer s.Close()
	if v, err := s.Get([]byte("k")); !errors.As(err, &d) || d.File != path {
		t.Fatalf("a changed value was read: %q, %v", v, err)
	}
}

func TestShortenedFileIsAnErrorAndNoPanic(t *testing.T) {
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole.db")
	s := openStable(t, whole)
	for i := range byte(50) {
		if err := s.Set([]byte{i}, make([]byte, 200)); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	b, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < len(b); n += 1000 {
		// Two files: one whose opening makes bbolt panic stays locked.
		path := filepath.Join(dir, fmt.Sprintf("cut%d.db", n))
		for _, name := range []string{path, path + ".check"} {
			if err := os.WriteFile(name, b[:n], 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, cerr := CheckStable(path + ".check")
		s, err := OpenStable(path)
		if err != nil {
			continue
		}
		// An empty file is a new database, and the end of a file may be unused.
		for i := range byte(50) {
			if _, err := s.Get([]byte{i}); err != nil && cerr == nil {
				t.Fatalf("cut to %d: check found nothing, reading says %v", n, err)
			}
		}
		s.Close()
	}
}

func TestLogKeepsEntriesAndNoticesFlippedBits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	l, err := OpenLog(path)
	if err != nil {
		t.Fatal(err)
	}
	entries := []*raft.Log{
		{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: []byte("first entry, easy to find")},
		{Index: 2, Term: 1, Type: raft.LogNoop},
		{Index: 3, Term: 2, Data: []byte("x"), Extensions: []byte("ext")},
	}
	if err := l.StoreLogs(entries); err != nil {
		t.Fatal(err)
	}
	if string(entries[2].Data) != "x" {
		t.Fatal("the caller's entry was changed")
	}
	for _, want := range entries {
		var got raft.Log
		if err := l.GetLog(want.Index, &got); err != nil {
			t.Fatal(err)
		}
		if got.Term != want.Term || got.Type != want.Type || !bytes.Equal(got.Data, want.Data) ||
			!bytes.Equal(got.Extensions, want.Extensions) {
			t.Fatalf("%+v, want %+v", got, *want)
		}
	}
	if err := l.GetLog(4, new(raft.Log)); !errors.Is(err, raft.ErrLogNotFound) {
		t.Fatal(err)
	}
	if err := l.DeleteRange(3, 3); err != nil {
		t.Fatal(err)
	}
	first, _ := l.FirstIndex()
	last, _ := l.LastIndex()
	if first != 1 || last != 2 || l.Bytes() == 0 {
		t.Fatal(first, last, l.Bytes())
	}
	l.Close()

	b, _ := os.ReadFile(path)
	for i := bytes.Index(b, entries[0].Data); i >= 0; i = bytes.Index(b, entries[0].Data) {
		b[i] ^= 0x20
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err = OpenLog(path); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var d *damage.Error
	if err := l.GetLog(1, new(raft.Log)); !errors.As(err, &d) {
		t.Fatalf("a changed entry was read: %v", err)
	}
}
