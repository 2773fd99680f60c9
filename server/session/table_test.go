package session

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"
)

// newTable returns a Table whose invariants are checked when the test ends.
func newTable(t testing.TB) *Table {
	table := New()
	t.Cleanup(func() {
		if err := table.check(); err != nil {
			t.Error(err)
		}
	})
	return table
}

// check verifies the invariants of the Table.
func (t *Table) check() error {
	used := 0
	var digest uint64
	for i, c := range t.chunks {
		if c.gen > t.gen {
			return fmt.Errorf("chunk %d is of generation %d, the table of %d", i, c.gen, t.gen)
		}
		for j := range c.sessions {
			s := &c.sessions[j]
			if s.ID == 0 {
				if *s != (Session{}) {
					return fmt.Errorf("S2: free slot holds %+v", *s)
				}
				continue
			}
			used++
			slot := uint32(i*chunkLen + j)
			if at, ok := t.slots[s.ID]; !ok || at != slot || s.slot != slot {
				return fmt.Errorf("S1: %+v is in slot %d, and mapped to %d, %v", *s, slot, at, ok)
			}
			if !ValidID(s.ID) || s.Epoch == 0 {
				return fmt.Errorf("S2: %+v", *s)
			}
			digest += s.identityDigest() + s.requestDigest()
		}
	}
	free := slices.Clone(t.free)
	slices.Sort(free)
	if used != len(t.slots) || used+len(slices.Compact(free)) != len(t.chunks)*chunkLen {
		return fmt.Errorf("S3: %d used, %d mapped, %d free of %d", used, len(t.slots), len(free), len(t.chunks)*chunkLen)
	}
	if digest != t.digest {
		return fmt.Errorf("S4: digest is %x, should be %x", t.digest, digest)
	}
	return nil
}

func password(b byte) (p [PasswordSize]byte) {
	for i := range p {
		p[i] = b
	}
	return p
}

// ids lists the Table's sessions as Range gives them.
func ids(t *Table) []int64 {
	var list []int64
	t.Range(func(s *Session) bool {
		list = append(list, s.ID)
		return true
	})
	return list
}

func TestValidID(t *testing.T) {
	for id, want := range map[int64]bool{
		1:                          true,
		-1:                         false, // top byte 0xff
		0:                          false,
		-1 << 63:                   false,
		-1<<63 + 1:                 true,
		0x00ff_ffff_ffff_ffff:      true,
		-0x0100_0000_0000_0000:     false, // 0xff00…
		-0x0100_0000_0000_0000 - 1: true,  // 0xfeff…
		0x0100_001d_586d_0000:      true,
	} {
		if got := ValidID(id); got != want {
			t.Errorf("ValidID(%#x) = %v, want %v", uint64(id), got, want)
		}
	}
}

// The password was recorded from Apache ZooKeeper 3.8.0.
func TestLegacyPasswordIsZooKeepers(t *testing.T) {
	p := LegacyPassword(0x0100001d586d0000)
	if got, want := hex.EncodeToString(p[:]), "096d111e62b442948fa5cffc7b409e6a"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestLifeOfASession(t *testing.T) {
	table := newTable(t)
	s := table.Create(5, password(1), 4000, Origin{Boot: 1, Conn: 2})
	want := Session{ID: 5, Password: password(1), TimeoutMs: 4000, Epoch: 1, Origin: Origin{Boot: 1, Conn: 2}}
	if *s != want || *table.Get(5) != want {
		t.Errorf("created %+v, want %+v", *s, want)
	}

	table.SetLastReq(5, 9)
	if got := table.Get(5).LastReq; got != 9 {
		t.Errorf("LastReq = %d, want 9", got)
	}

	s = table.Attach(5, 30000, Origin{Boot: 1, Conn: 3})
	want = Session{ID: 5, Password: password(1), TimeoutMs: 30000, Epoch: 2, Origin: Origin{Boot: 1, Conn: 3}}
	if *s != want || *table.Get(5) != want {
		t.Errorf("attached %+v, want %+v", *s, want)
	}

	if !table.Remove(5) || table.Remove(5) {
		t.Error("Remove does not say whether there was a session")
	}
	if table.Get(5) != nil || table.Attach(5, 1, Origin{}) != nil || table.Len() != 0 {
		t.Error("the session is still there")
	}
	table.SetLastReq(5, 1)
	if table.Digest() != New().Digest() {
		t.Error("an empty table has another digest than a new one")
	}
}

func TestRangeIsInOrderOfIDs(t *testing.T) {
	table := newTable(t)
	for _, id := range []int64{300, -1 << 60, 7, 1 << 60, 8} {
		table.Create(id, password(0), 1, Origin{})
	}
	want := []int64{-1 << 60, 7, 8, 300, 1 << 60}
	if got := ids(table); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	n := 0
	table.Range(func(*Session) bool { n++; return n < 2 })
	if n != 2 {
		t.Errorf("Range went on after false: %d calls", n)
	}
}

func TestDigestDependsOnEveryField(t *testing.T) {
	base := func() *Table {
		table := newTable(t)
		table.Create(1, password(1), 4000, Origin{Boot: 1, Conn: 1})
		return table
	}
	seen := map[uint64]string{base().Digest(): "base"}
	for name, other := range map[string]func() *Table{
		"id": func() *Table {
			table := newTable(t)
			table.Create(2, password(1), 4000, Origin{Boot: 1, Conn: 1})
			return table
		},
		"password": func() *Table {
			table := newTable(t)
			p := password(1)
			p[15]++
			table.Create(1, p, 4000, Origin{Boot: 1, Conn: 1})
			return table
		},
		"timeout": func() *Table {
			table := newTable(t)
			table.Create(1, password(1), 4001, Origin{Boot: 1, Conn: 1})
			return table
		},
		"boot": func() *Table {
			table := newTable(t)
			table.Create(1, password(1), 4000, Origin{Boot: 2, Conn: 1})
			return table
		},
		"connection": func() *Table {
			table := newTable(t)
			table.Create(1, password(1), 4000, Origin{Boot: 1, Conn: 2})
			return table
		},
		"epoch": func() *Table {
			table := base()
			table.Attach(1, 4000, Origin{Boot: 1, Conn: 1})
			return table
		},
		"request": func() *Table {
			table := base()
			table.SetLastReq(1, 1)
			return table
		},
		"second session": func() *Table {
			table := base()
			table.Create(2, password(1), 4000, Origin{Boot: 1, Conn: 1})
			return table
		},
	} {
		d := other().Digest()
		if same, ok := seen[d]; ok {
			t.Errorf("a different %s has the digest of %s", name, same)
		}
		seen[d] = name
	}
}

func TestDigestDoesNotDependOnHistory(t *testing.T) {
	a, b := newTable(t), newTable(t)
	for id := int64(1); id <= 100; id++ {
		a.Create(id, password(byte(id)), 4000, Origin{})
		b.Create(101-id, password(byte(101-id)), 4000, Origin{})
	}
	a.Create(200, password(0), 1, Origin{})
	a.Remove(200)
	if a.Digest() != b.Digest() {
		t.Error("equal tables have different digests")
	}
}

func TestCreateRefusesWhatItsCallerMustCheck(t *testing.T) {
	for name, id := range map[string]int64{"reserved id": 0, "taken id": 1} {
		t.Run(name, func(t *testing.T) {
			table := newTable(t)
			table.Create(1, password(0), 1, Origin{})
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			table.Create(id, password(0), 1, Origin{})
		})
	}
}

// encode returns what a snapshot of the Table writes.
func encode(t interface{ Fatal(...any) }, s *Snapshot) []byte {
	var buf bytes.Buffer
	if err := s.Write(&buf); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// TestTableIsTheModel runs random operations beside a map, with snapshots that are written
// later, when the Table has moved on.
func TestTableIsTheModel(t *testing.T) {
	type taken struct {
		snapshot *Snapshot
		model    map[int64]Session
		digest   uint64
	}
	rapid.Check(t, func(t *rapid.T) {
		table := New()
		model := map[int64]Session{}
		var snapshots []taken
		id := rapid.Int64Range(1, 200)
		same := func(table *Table, model map[int64]Session) {
			if table.Len() != len(model) {
				t.Fatalf("%d sessions, want %d", table.Len(), len(model))
			}
			for id, want := range model {
				got := *table.Get(id)
				got.slot = 0
				if got != want {
					t.Fatalf("session is %+v, want %+v", got, want)
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"create": func(t *rapid.T) {
				i := id.Draw(t, "id")
				for ; model[i].ID != 0; i += 200 {
				}
				o := Origin{Boot: rapid.Uint64().Draw(t, "boot"), Conn: 1}
				table.Create(i, password(byte(i)), 4000, o)
				model[i] = Session{ID: i, Password: password(byte(i)), TimeoutMs: 4000, Epoch: 1, Origin: o}
			},
			"attach": func(t *rapid.T) {
				i, ms := id.Draw(t, "id"), rapid.Int32Min(1).Draw(t, "ms")
				if s, ok := model[i]; ok {
					s.Epoch, s.TimeoutMs, s.Origin, s.LastReq = s.Epoch+1, ms, Origin{}, 0
					model[i] = s
				}
				table.Attach(i, ms, Origin{})
			},
			"request": func(t *rapid.T) {
				i, req := id.Draw(t, "id"), rapid.Uint64().Draw(t, "req")
				if s, ok := model[i]; ok {
					s.LastReq = req
					model[i] = s
				}
				table.SetLastReq(i, req)
			},
			"remove": func(t *rapid.T) {
				i := id.Draw(t, "id")
				_, want := model[i]
				if got := table.Remove(i); got != want {
					t.Fatalf("Remove = %v, want %v", got, want)
				}
				delete(model, i)
			},
			"snapshot": func(t *rapid.T) {
				copied := map[int64]Session{}
				for id, s := range model {
					copied[id] = s
				}
				snapshots = append(snapshots, taken{table.Snapshot(), copied, table.Digest()})
			},
			"restore": func(t *rapid.T) {
				if len(snapshots) == 0 {
					return
				}
				s := snapshots[0]
				snapshots = snapshots[1:]
				if s.snapshot.Len() != len(s.model) {
					t.Fatalf("snapshot of %d sessions, want %d", s.snapshot.Len(), len(s.model))
				}
				restored, err := Restore(bytes.NewReader(encode(t, s.snapshot)))
				if err != nil {
					t.Fatal(err)
				}
				same(restored, s.model)
				if restored.Digest() != s.digest {
					t.Fatalf("digest %x, want %x", restored.Digest(), s.digest)
				}
				if err := restored.check(); err != nil {
					t.Fatal(err)
				}
			},
			"": func(t *rapid.T) {
				same(table, model)
				if err := table.check(); err != nil {
					t.Fatal(err)
				}
			},
		})
	})
}

// fill returns a Table of n sessions.
func fill(n int) *Table {
	table := New()
	for i := range n {
		table.Create(int64(i+1)<<16, password(byte(i)), 4000, Origin{Boot: 1, Conn: uint64(i)})
	}
	return table
}

func TestEncodingIsFixed(t *testing.T) {
	table := newTable(t)
	table.Create(0x0100001d586d0001, password(0xaa), 10000, Origin{Boot: 3, Conn: 4})
	table.Create(2, password(0xbb), 4000, Origin{Boot: 5, Conn: 6})
	table.SetLastReq(2, 7)
	want := "01" + "0000000000000002" +
		"0000000000000002" + "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb" + "00000fa0" + "00000001" +
		"0000000000000005" + "0000000000000006" + "0000000000000007" +
		"0100001d586d0001" + "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" + "00002710" + "00000001" +
		"0000000000000003" + "0000000000000004" + "0000000000000000" +
		fmt.Sprintf("%016x", table.Digest())
	if got := hex.EncodeToString(encode(t, table.Snapshot())); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestRestoreReadsNotAByteMore(t *testing.T) {
	for _, n := range []int{0, 1, recordsAtOnce - 1, recordsAtOnce, recordsAtOnce + 1, 1000} {
		b := encode(t, fill(n).Snapshot())
		r := bytes.NewReader(append(b, "next section"...))
		table, err := Restore(iotest.OneByteReader(r))
		if err != nil {
			t.Fatal(err)
		}
		if rest, _ := io.ReadAll(r); string(rest) != "next section" || table.Len() != n {
			t.Errorf("%d sessions of %d, rest %q", table.Len(), n, rest)
		}
	}
}

func TestRestoreRefusesDamage(t *testing.T) {
	good := encode(t, fill(3).Snapshot())
	for i := range good {
		for bit := range 8 {
			bad := slices.Clone(good)
			bad[i] ^= 1 << bit
			if _, err := Restore(bytes.NewReader(bad)); err == nil {
				t.Errorf("bit %d of byte %d flipped, and nobody noticed", bit, i)
			}
		}
	}
	for n := range good {
		if _, err := Restore(bytes.NewReader(good[:n])); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
	}
}

// TestWriteFailsAtEveryWrite: the N-th write fails, N = 1, 2 … until none does.
func TestWriteFailsAtEveryWrite(t *testing.T) {
	snapshot := fill(2*recordsAtOnce + 1).Snapshot()
	failed := errors.New("disk full")
	for n := 0; ; n++ {
		w := &failingWriter{left: n, err: failed}
		err := snapshot.Write(w)
		if err == nil {
			if n < 3 {
				t.Errorf("only %d writes", n)
			}
			return
		}
		if !errors.Is(err, failed) {
			t.Fatalf("write %d: %v", n+1, err)
		}
	}
}

type failingWriter struct {
	left int
	err  error
}

func (w *failingWriter) Write(b []byte) (int, error) {
	if w.left == 0 {
		return 0, w.err
	}
	w.left--
	return len(b), nil
}

func FuzzRestore(f *testing.F) {
	f.Add(encode(f, fill(0).Snapshot()))
	f.Add(encode(f, fill(3).Snapshot()))
	f.Fuzz(func(t *testing.T, b []byte) {
		table, err := Restore(bytes.NewReader(b))
		if err != nil {
			return
		}
		if err := table.check(); err != nil {
			t.Fatal(err)
		}
		if got := encode(t, table.Snapshot()); !bytes.HasPrefix(b, got) {
			t.Errorf("restored %x and wrote %x", b, got)
		}
	})
}

func TestWritesDoNotAllocate(t *testing.T) {
	table := fill(1000)
	req := uint64(0)
	if n := testing.AllocsPerRun(100, func() {
		req++
		table.SetLastReq(5<<16, req)
		table.Attach(6<<16, 4000, Origin{})
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func BenchmarkSetLastReq100k(b *testing.B) {
	table := fill(100_000)
	id := int64(0)
	b.ReportAllocs()
	for b.Loop() {
		id = (id + 7919) % 100_000
		table.SetLastReq((id+1)<<16, uint64(id))
	}
}

func BenchmarkSnapshot100k(b *testing.B) {
	table := fill(100_000)
	b.ReportAllocs()
	for b.Loop() {
		table.Snapshot()
	}
}

// BenchmarkWriteAfterSnapshot100k is a write that copies its chunk first.
func BenchmarkWriteAfterSnapshot100k(b *testing.B) {
	table := fill(100_000)
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		if i%100_000 == 0 {
			table.Snapshot()
		}
		i += chunkLen
		table.SetLastReq(int64(i%100_000+1)<<16, uint64(i))
	}
}

func BenchmarkSnapshotWrite100k(b *testing.B) {
	snapshot := fill(100_000).Snapshot()
	b.ReportAllocs()
	for b.Loop() {
		if err := snapshot.Write(io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRestore100k(b *testing.B) {
	data := encode(b, fill(100_000).Snapshot())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Restore(bytes.NewReader(data)); err != nil {
			b.Fatal(err)
		}
	}
}

// ms is a time in the Tracker's unit.
func ms(n int64) int64 { return n * int64(time.Millisecond) }
