package replication

import (
	"bytes"
	"errors"
	"hash/crc32"
	"io"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/zkd-project/zkd/internal/vfs/vfstest"
	"github.com/zkd-project/zkd/server/replication/damage"
)

func crcOf(s string) uint32 { return crc32.Checksum([]byte(s), castagnoli) }

var testConfig = raft.Configuration{Servers: []raft.Server{{ID: "1-abc", Address: "1-abc"}}}

func testNow() time.Time { return time.UnixMilli(1700000000000) }

func newSnapStore(t *testing.T, disk *vfstest.Disk) *fileSnapshots {
	t.Helper()
	disk.MkdirAll("/snapshots", 0o700)
	s, err := openSnapshots(disk, "/snapshots", testNow)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func writeSnap(s raft.SnapshotStore, index uint64, body []byte) error {
	sink, err := s.Create(1, index, 2, testConfig, 1, nil)
	if err != nil {
		return err
	}
	for chunk := range slices.Chunk(body, 1000) {
		if _, err := sink.Write(chunk); err != nil {
			sink.Cancel()
			return err
		}
	}
	sink.(interface{ setZxid(int64) }).setZxid(int64(index) + 100)
	if err := sink.Close(); err != nil {
		return err
	}
	return sink.Close() // as raft does
}

func readSnap(s raft.SnapshotStore, id string) (*raft.SnapshotMeta, []byte, error) {
	meta, r, err := s.Open(id)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	return meta, b, err
}

func testBody(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * i >> 5)
	}
	return b
}

func TestSnapshotStoreKeepsWhatRaftExpects(t *testing.T) {
	disk := vfstest.New()
	for name, s := range map[string]snapshotStore{"file": newSnapStore(t, disk), "memory": &memorySnapshots{now: testNow}} {
		t.Run(name, func(t *testing.T) {
			if list, err := s.List(); len(list) != 0 || err != nil {
				t.Fatal(list, err)
			}
			for index := uint64(5); index < 10; index++ {
				if err := writeSnap(s, index, testBody(10000+int(index))); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.purge(3); err != nil {
				t.Fatal(err)
			}
			list, err := s.List()
			if err != nil || len(list) != 1 || list[0].Index != 9 || list[0].Term != 2 || list[0].Size != 10009 ||
				len(list[0].Configuration.Servers) != 1 || list[0].ConfigurationIndex != 1 {
				t.Fatalf("%+v %v", list, err)
			}
			meta, b, err := readSnap(s, list[0].ID)
			if err != nil || meta.Index != 9 || !bytes.Equal(b, testBody(10009)) {
				t.Fatal(meta, len(b), err)
			}
			if _, _, err := s.Open("nothing"); err == nil {
				t.Fatal("no error")
			}
			newest := s.all()[len(s.all())-1]
			if newest.zxid != 109 {
				t.Fatal(newest.zxid)
			}
			sink, err := s.Create(1, 20, 2, testConfig, 1, nil)
			if err != nil {
				t.Fatal(err)
			}
			sink.Write([]byte("half"))
			if list, _ := s.List(); list[0].Index != 9 {
				t.Fatal("an unfinished snapshot is seen")
			}
			sink.Cancel()
			sink.Cancel()
			if _, err := sink.Write([]byte("x")); err == nil {
				t.Fatal("written after Cancel")
			}
		})
	}
	if files, _ := disk.ReadDir("/snapshots"); len(files) != 3 {
		t.Fatal(files)
	}
}

// A member in quarantine can be sent the same snapshot twice at once: by raft, and for its repair.
func TestTwoSnapshotsOfOneEntryDoNotDisturbEachOther(t *testing.T) {
	body := testBody(3 << 20) // more than is buffered
	begin := func(t *testing.T, s *fileSnapshots) raft.SnapshotSink {
		sink, err := s.Create(1, 50, 3, testConfig, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		return sink
	}
	write := func(t *testing.T, sink raft.SnapshotSink, b []byte) {
		if _, err := sink.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	whole := func(t *testing.T, s *fileSnapshots, id string) {
		t.Helper()
		if _, b, err := readSnap(s, id); err != nil || !bytes.Equal(b, body) {
			t.Fatalf("%d of %d bytes: %v", len(b), len(body), err)
		}
		if all := s.all(); len(all) != 1 || all[0].index != 50 {
			t.Fatalf("listed: %+v", all)
		}
	}
	for name, end := range map[string]func(raft.SnapshotSink) error{"closed": raft.SnapshotSink.Close, "cancelled": raft.SnapshotSink.Cancel} {
		t.Run("the second is "+name, func(t *testing.T) {
			disk := vfstest.New()
			s := newSnapStore(t, disk)
			first := begin(t, s)
			write(t, first, body[:2<<20])
			second := begin(t, s)
			write(t, second, body[:1<<20])
			write(t, first, body[2<<20:])
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			whole(t, s, first.ID())
			write(t, second, body[1<<20:])
			whole(t, s, first.ID())
			if err := end(second); err != nil {
				t.Fatal(err)
			}
			whole(t, s, first.ID())
			disk.Crash(nil)
			whole(t, newSnapStore(t, disk), first.ID())
		})
	}
	t.Run("the process ends", func(t *testing.T) {
		disk := vfstest.New()
		s := newSnapStore(t, disk)
		first, second := begin(t, s), begin(t, s)
		write(t, first, body)
		write(t, second, body)
		if files, _ := disk.ReadDir("/snapshots"); len(files) != 2 {
			t.Fatal(files)
		}
		disk.Kill()
		newSnapStore(t, disk)
		if files, _ := disk.ReadDir("/snapshots"); len(files) != 0 {
			t.Fatalf("left over: %v", files)
		}
	})
}

func TestEveryDamagedByteOfASnapshotIsNoticed(t *testing.T) {
	disk := vfstest.New()
	s := newSnapStore(t, disk)
	if err := writeSnap(s, 7, testBody(3000)); err != nil {
		t.Fatal(err)
	}
	path := "/snapshots/" + snapName(7, 2)
	var size int
	disk.Damage(path, func(b []byte) []byte { size = len(b); return b })
	try := func(what string, i int, change func(b []byte) []byte) {
		t.Helper()
		d := disk.Clone()
		d.Damage(path, change)
		s := newSnapStore(t, d)
		_, _, err := readSnap(s, snapName(7, 2))
		var de *damage.Error
		if !errors.As(err, &de) || de.File != path {
			t.Fatalf("%s at %d: %v", what, i, err)
		}
	}
	for i := range size {
		try("flip", i, func(b []byte) []byte { b[i] ^= 0x40; return b })
		try("end", i, func(b []byte) []byte { return b[:i] })
	}
	try("more", size, func(b []byte) []byte { return append(b, 0) })
}

func TestFailedSnapshotLeavesTheOneBefore(t *testing.T) {
	for n := 1; ; n++ {
		disk := vfstest.New()
		s := newSnapStore(t, disk)
		if err := writeSnap(s, 3, testBody(2000)); err != nil {
			t.Fatal(err)
		}
		disk.Fail(n, syscall.ENOSPC)
		err := writeSnap(s, 9, testBody(600<<10))
		disk.Fail(0, nil)
		if err == nil {
			if n < 5 {
				t.Fatal("nothing was tested")
			}
			return
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		disk.Crash(nil)
		s = newSnapStore(t, disk)
		list, err := s.List()
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		if _, b, err := readSnap(s, list[0].ID); err != nil || !bytes.Equal(b, testBody(2000)) && list[0].Index == 3 {
			t.Fatal(err)
		}
		if files, _ := disk.ReadDir("/snapshots"); len(files) > 2 {
			t.Fatalf("leftovers: %v", files)
		}
	}
}

func FuzzSnapshotReader(f *testing.F) {
	var buf bytes.Buffer
	w, err := newSnapWriter(&buf, snapDescription{index: 1, term: 1, config: testConfig, created: testNow()})
	if err != nil {
		f.Fatal(err)
	}
	w.Write(testBody(500))
	if err := w.finish(); err != nil {
		f.Fatal(err)
	}
	f.Add(buf.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := openSnapshot(nopCloser{bytes.NewReader(b)}, int64(len(b)), "fuzz")
		if err != nil {
			return
		}
		defer r.Close()
		io.Copy(io.Discard, io.LimitReader(r, 1<<20))
	})
}

func FuzzIdentity(f *testing.F) {
	id := identity{version: 1, state: stateReady, cluster: "c", myID: 3, incarnation: "i", logStore: "segment"}
	f.Add(id.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		var id identity
		if id.decode(b) != nil {
			return
		}
		var again identity
		if err := again.decode(id.encode()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestStableFile(t *testing.T) {
	disk := vfstest.New()
	disk.MkdirAll("/data", 0o700)
	s, err := openStableFile(disk, "/data")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.GetUint64([]byte("n")); err == nil || err.Error() != "not found" {
		t.Fatal(err)
	}
	for _, err := range []error{s.SetUint64([]byte("n"), 7), s.Set([]byte("k"), []byte("v")), s.Set([]byte("empty"), nil)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	disk.Crash(nil)
	if s, err = openStableFile(disk, "/data"); err != nil {
		t.Fatal(err)
	}
	if n, err := s.GetUint64([]byte("n")); n != 7 || err != nil {
		t.Fatal(n, err)
	}
	if v, err := s.Get([]byte("k")); string(v) != "v" || err != nil {
		t.Fatal(v, err)
	}
	if _, err := s.GetUint64([]byte("k")); err == nil {
		t.Fatal("a text was read as a number")
	}
	var size int
	disk.Damage(s.path, func(b []byte) []byte { size = len(b); return b })
	for i := range size {
		d := disk.Clone()
		d.Damage(s.path, func(b []byte) []byte { b[i] ^= 1; return b })
		var de *damage.Error
		if _, err := openStableFile(d, "/data"); !errors.As(err, &de) {
			t.Fatalf("byte %d: %v", i, err)
		}
		d.Damage(s.path, func(b []byte) []byte { return b[:i] })
		if _, err := openStableFile(d, "/data"); !errors.As(err, &de) {
			t.Fatalf("end at %d: %v", i, err)
		}
	}
}
