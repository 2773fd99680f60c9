package replication

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/server/state"
)

func sessionCommand() *state.Command {
	return &state.Command{Kind: state.KindCreateSession, Session: testSession, TimeoutMs: 30000}
}

func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// fillDir makes a data directory with some content.
func fillDir(t *testing.T, o Options) (want uint64) {
	t.Helper()
	r := openRig(t, o)
	r.session()
	for i := range 20 {
		r.mustDo(createNode(uint64(i+1), nodePath(i), make([]byte, 50)))
		if i%6 == 5 {
			if err := r.SnapshotNow(testContext(t)); err != nil {
				t.Fatal(err)
			}
		}
	}
	want = r.digestWithoutTerm()
	if err := r.Node.Close(); err != nil {
		t.Fatal(err)
	}
	return want
}

func TestDirectoryWithMyidOnlyIsEmpty(t *testing.T) {
	o := testOptions()
	o.Dir = t.TempDir()
	writeFile(t, filepath.Join(o.Dir, "myid"), "1\n")
	writeFile(t, filepath.Join(o.Dir, "initialize"), "")
	writeFile(t, filepath.Join(o.Dir, "zookeeper_server.pid"), "77")
	r := openRig(t, o)
	if !r.info.New {
		t.Fatal("not taken for empty")
	}
	if _, err := os.Stat(filepath.Join(o.Dir, "initialize")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal("initialize must go once it has served")
	}
	for _, name := range []string{"myid", "zookeeper_server.pid"} {
		if _, err := os.Stat(filepath.Join(o.Dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestZooKeeperDataIsRefused(t *testing.T) {
	for _, sub := range []string{"data", "log"} {
		o := testOptions()
		dir := t.TempDir()
		o.Dir, o.LogDir = filepath.Join(dir, "data"), filepath.Join(dir, "log")
		writeFile(t, filepath.Join(dir, sub, "version-2", "log.1"), "x")
		_, err := tryOpenRig(t, o)
		if !errors.Is(err, ErrZooKeeperData) || !strings.Contains(err.Error(), "zkd import") {
			t.Fatal(err)
		}
		if _, err := CheckDir(o.Dir, o.LogDir, nil); !errors.Is(err, ErrZooKeeperData) {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(o.Dir, "format")); err == nil {
			t.Fatal("something was written there")
		}
	}
}

func TestAutocreateOptions(t *testing.T) {
	o := testOptions()
	o.Dir, o.NoAutocreate = filepath.Join(t.TempDir(), "missing"), true
	if _, err := tryOpenRig(t, o); err == nil || !strings.Contains(err.Error(), o.Dir) {
		t.Fatal(err)
	}
	o.Dir, o.NoNewDatabase = t.TempDir(), true
	if _, err := tryOpenRig(t, o); err == nil || !strings.Contains(err.Error(), "initialize") {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(o.Dir, "initialize"), "")
	r := openRig(t, o)
	r.reopen(o) // and it needs no further initialize
}

func TestAnotherServersDirectoryIsRefused(t *testing.T) {
	o := testOptions()
	o.Dir = t.TempDir()
	fillDir(t, o)
	other := o
	other.MyID = 2
	if _, err := tryOpenRig(t, other); err == nil || !strings.Contains(err.Error(), "server 1") {
		t.Fatal(err)
	}
	other = o
	other.LogStore = logStoreBolt
	if _, err := tryOpenRig(t, other); err == nil || !strings.Contains(err.Error(), "logStore") {
		t.Fatal(err)
	}
	openRig(t, o)
}

func TestSeparateLogDirectory(t *testing.T) {
	o := testOptions()
	dir := t.TempDir()
	o.Dir, o.LogDir = filepath.Join(dir, "data"), filepath.Join(dir, "log")
	want := fillDir(t, o)
	if _, err := os.Stat(filepath.Join(o.Dir, "log")); err == nil {
		t.Fatal("there is a log in the data directory")
	}
	r := openRig(t, o)
	if r.digestWithoutTerm() != want {
		t.Fatal("another state")
	}
	r.Node.Close()

	forgotten := o
	forgotten.LogDir = ""
	var d *DamageError
	if _, err := tryOpenRig(t, forgotten); !errors.As(err, &d) || !strings.Contains(d.Repair, "dataLogDir") {
		t.Fatalf("dataLogDir was forgotten: %v", err)
	}
	moved := o
	moved.LogDir = filepath.Join(dir, "elsewhere")
	if _, err := tryOpenRig(t, moved); !errors.As(err, &d) {
		t.Fatalf("dataLogDir was changed: %v", err)
	}
	// Moving the folder as the error says.
	if err := os.Rename(filepath.Join(o.LogDir, "log"), filepath.Join(moved.LogDir, "log")); err != nil {
		t.Fatal(err)
	}
	if r := openRig(t, moved); r.digestWithoutTerm() != want {
		t.Fatal("another state")
	}

	other := testOptions()
	other.Dir = filepath.Join(dir, "other")
	other.Rand = nil
	fillDir(t, other)
	other.LogDir = moved.LogDir
	if _, err := tryOpenRig(t, other); err == nil {
		t.Fatal("another server's log was taken")
	}
}

func TestUnfinishedFirstStartBeginsAnew(t *testing.T) {
	o := testOptions()
	o.Dir = t.TempDir()
	if err := o.setDefaultsForTest(); err != nil {
		t.Fatal(err)
	}
	s, err := openStores(&o)
	if err != nil {
		t.Fatal(err)
	}
	s.close() // and the process is gone before commit
	if _, err := CheckDir(o.Dir, "", nil); err == nil {
		t.Fatal("check takes it for complete")
	}
	r := openRig(t, o)
	if !r.info.New {
		t.Fatal("not new")
	}
	r.session()
	if _, err := CheckDir(t.TempDir(), "", nil); err == nil || !strings.Contains(err.Error(), "format") {
		t.Fatal(err)
	}
}

func (o *Options) setDefaultsForTest() error {
	o.Observer = &rig{}
	return o.setDefaults()
}

func TestDamagedFormatFileIsNoticed(t *testing.T) {
	o := testOptions()
	o.Dir = t.TempDir()
	fillDir(t, o)
	path := filepath.Join(o.Dir, "format")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range good {
		b := bytes.Clone(good)
		b[i] ^= 2
		writeFile(t, path, string(b))
		var d *DamageError
		if _, _, err := readIdentity(o.withDefaults(t).FS, o.Dir); !errors.As(err, &d) {
			t.Fatalf("byte %d: %v", i, err)
		}
	}
	newer := strings.Replace(string(good), "version 1", "version 9", 1)
	newer = newer[:strings.LastIndex(newer, "crc32c")]
	writeFile(t, path, fmt.Sprintf("%scrc32c %08x\n", newer, crcOf(newer)))
	if _, err := tryOpenRig(t, o); err == nil || !strings.Contains(err.Error(), "version 9") {
		t.Fatal(err)
	}
}

func (o Options) withDefaults(t *testing.T) Options {
	if err := o.setDefaultsForTest(); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestCheckDirReportsAndChangesNothing(t *testing.T) {
	for _, store := range []string{logStoreSegment, logStoreBolt} {
		o := testOptions()
		o.Dir, o.LogStore = t.TempDir(), store
		fillDir(t, o)
		before := listing(t, o.Dir)
		var lines []string
		r, err := CheckDir(o.Dir, "", func(s string) { lines = append(lines, s) })
		if err != nil {
			t.Fatal(err)
		}
		if r.Snapshots != 3 || r.Commands != 2 || r.Sessions != 1 || r.Nodes < 20 || r.Zxid == 0 || r.LastIndex <= r.SnapshotIndex {
			t.Fatalf("%+v", r)
		}
		if len(lines) < 5 || !strings.Contains(r.String(), "all is well") {
			t.Fatal(lines, r)
		}
		if after := listing(t, o.Dir); after != before {
			t.Fatalf("before\n%s\nafter\n%s", before, after)
		}
	}
}

// listing is names, lengths and checksums of all files.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		fmt.Fprintln(&b, path, len(content), crcOf(string(content)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestCheckDirNoticesDamageInEveryFile(t *testing.T) {
	o := testOptions()
	o.Dir, o.SegmentBytes = t.TempDir(), 4096
	fillDir(t, o)
	var files []string
	filepath.WalkDir(o.Dir, func(path string, d fs.DirEntry, err error) error {
		if !d.IsDir() && d.Name() != "lock" && d.Name() != "stable.db" {
			files = append(files, path)
		}
		return nil
	})
	for _, path := range files {
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(good); i += 1 + len(good)/200 {
			b := bytes.Clone(good)
			b[i] ^= 8
			writeFile(t, path, string(b))
			_, err := CheckDir(o.Dir, "", nil)
			if err == nil && !strings.HasSuffix(path, ".log") {
				t.Fatalf("%s, byte %d: nothing was noticed", path, i)
			}
			if err == nil { // what is in space not yet used, or a mark, does no harm
				continue
			}
			var d *DamageError
			if !errors.As(err, &d) {
				t.Fatalf("%s, byte %d: %v", path, i, err)
			}
		}
		writeFile(t, path, string(good))
	}
	if _, err := CheckDir(o.Dir, "", nil); err != nil {
		t.Fatal(err)
	}
}
