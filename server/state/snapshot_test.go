package state

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/server/snapshot"
	"github.com/zkd-project/zkd/server/znode"
	"github.com/zkd-project/zkd/wire"
	"pgregory.net/rapid"
)

// noLock is the lock of a test that has one goroutine.
type noLock struct{}

func (noLock) Lock()   {}
func (noLock) Unlock() {}

// hookLock calls itself each time that the snapshot looks at the machine.
type hookLock func()

func (f hookLock) Lock() { f() }
func (hookLock) Unlock() {}

type fataler interface{ Fatal(args ...any) }

func written(t fataler, m *Machine) []byte {
	s := m.Snapshot()
	defer s.Close()
	var buf bytes.Buffer
	if err := s.Write(noLock{}, &buf); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func restored(t fataler, data []byte) *Machine {
	m, err := Restore(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Check(); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestRestoredMachineGoesOnAsTheOriginal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := &replica{m: New()}
		s := newScriptor(t, a.m)
		for range rapid.IntRange(0, 60).Draw(t, "before") {
			h, c := s.header(), s.command()
			a.apply(t, encode(&h, []Command{c}), h.Term)
		}
		b := &replica{m: restored(t, written(t, a.m))}
		if a.m.Digest() != b.m.Digest() || *a.m.Settings() != *b.m.Settings() {
			t.Fatal("the restored machine is another one")
		}
		for range rapid.IntRange(0, 60).Draw(t, "after") {
			h, c := s.header(), s.command()
			entry := encode(&h, []Command{c})
			ra, rb := a.apply(t, entry, h.Term), b.apply(t, entry, h.Term)
			if ra != rb {
				t.Fatalf("results differ:\n%s\n%s", ra, rb)
			}
			if a.m.Digest() != b.m.Digest() {
				t.Fatalf("digests differ after %+v", c)
			}
		}
	})
}

func TestSnapshotIsOfItsMomentWhateverIsWrittenMeanwhile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := &replica{m: New()}
		s := newScriptor(t, a.m)
		run := func(what string) {
			for range rapid.IntRange(0, 20).Draw(t, what) {
				h, c := s.header(), s.command()
				a.apply(t, encode(&h, []Command{c}), h.Term)
			}
		}
		run("before")
		digest := a.m.Digest()
		snap := a.m.Snapshot()
		var buf bytes.Buffer
		if err := snap.Write(hookLock(func() { run("beside") }), &buf); err != nil {
			t.Fatal(err)
		}
		snap.Close()
		if got := restored(t, buf.Bytes()).Digest(); got != digest {
			t.Fatal("the snapshot shows another moment")
		}
		if err := a.m.Check(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestSnapshotBesideAWriter(t *testing.T) {
	g := newRig(t)
	for i := range 3000 {
		g.create(fmt.Sprintf("/n%d", i), 0)
	}
	digest := g.m.Digest()
	var lock sync.RWMutex
	snap := g.m.Snapshot()
	var buf bytes.Buffer
	done := make(chan error, 1)
	go func() { done <- snap.Write(lock.RLocker(), &buf) }()
	for i := range 3000 {
		lock.Lock()
		g.do(alice, wire.OpSetACL, setACL(fmt.Sprintf("/n%d", i), list(31, "digest", fmt.Sprintf("u%d:h", i)), -1))
		g.do(alice, wire.OpDelete, del(fmt.Sprintf("/n%d", 2999-i), -1))
		lock.Unlock()
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	snap.Close()
	if restored(t, buf.Bytes()).Digest() != digest {
		t.Error("the snapshot shows another moment")
	}
}

func TestSecondSnapshotFailsCleanly(t *testing.T) {
	g := newRig(t)
	first, second := g.m.Snapshot(), g.m.Snapshot()
	if err := second.Write(noLock{}, io.Discard); !errors.Is(err, acl.ErrSnapshotBusy) && !errors.Is(err, znode.ErrSnapshotBusy) {
		t.Errorf("the second gives %v", err)
	}
	second.Close()
	if err := first.Write(noLock{}, io.Discard); err != nil {
		t.Errorf("the first gives %v", err)
	}
	first.Close()
	written(t, g.m)
}

// failAt fails at the n-th write.
type failAt struct{ n int }

func (w *failAt) Write(p []byte) (int, error) {
	if w.n--; w.n < 0 {
		return 0, errors.New("disk full")
	}
	return len(p), nil
}

func TestEveryFailedSnapshotWriteIsReported(t *testing.T) {
	g := newRig(t)
	for i := range 20 {
		g.must(alice, wire.OpCreate, createWith(fmt.Sprintf("/n%d", i), list(31, "digest", fmt.Sprintf("u%d:h", i))))
	}
	for n := 0; ; n++ {
		s := g.m.Snapshot()
		err := s.Write(noLock{}, &failAt{n})
		s.Close()
		if err == nil {
			if n < 5 {
				t.Errorf("only %d writes", n)
			}
			return
		}
	}
}

func TestEveryTruncatedOrFlippedSnapshotIsRefused(t *testing.T) {
	g := newRig(t)
	g.must(alice, wire.OpCreate, createWith("/n", bobsOwn))
	data := written(t, g.m)
	for n := range data {
		if _, err := Restore(bytes.NewReader(data[:n])); err == nil {
			t.Fatalf("%d of %d bytes became a machine", n, len(data))
		}
		data[n] ^= 0x10
		if _, err := Restore(bytes.NewReader(data)); err == nil {
			t.Fatalf("a machine in spite of a flipped bit in byte %d", n)
		}
		data[n] ^= 0x10
	}
	restored(t, data)
}

func TestSnapshotOfANewerVersionIsRefusedByName(t *testing.T) {
	g := newRig(t)
	g.m.level = CurrentLevel + 1
	var unsupported *UnsupportedError
	if _, err := Restore(bytes.NewReader(written(t, g.m))); !errors.As(err, &unsupported) || unsupported.What != "feature level" {
		t.Errorf("a level: %v", err)
	}
	g.m.level = CurrentLevel
	sections := func(extra func(w *snapshot.Writer, tree *znode.Snapshot)) []byte {
		var buf bytes.Buffer
		w := snapshot.NewWriter(&buf)
		s := g.m.Snapshot()
		defer s.Close()
		_, _ = w.Section(sectionMeta, sectionVersion).Write(s.meta)
		_ = s.lists.Write(noLock{}, w.Section(sectionLists, sectionVersion))
		_ = s.sessions.Write(w.Section(sectionSessions, sectionVersion))
		extra(w, s.tree)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return buf.Bytes()
	}
	for name, data := range map[string][]byte{
		"a section version": sections(func(w *snapshot.Writer, _ *znode.Snapshot) { w.Section(sectionTree, sectionVersion+1) }),
		"a section": sections(func(w *snapshot.Writer, tree *znode.Snapshot) {
			if err := tree.Write(noLock{}, w.Section(sectionTree, sectionVersion)); err != nil {
				t.Fatal(err)
			}
			w.Section(lastSection+1, 1)
		}),
	} {
		if _, err := Restore(bytes.NewReader(data)); !errors.As(err, &unsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Restore(bytes.NewReader(sections(func(*snapshot.Writer, *znode.Snapshot) {}))); err == nil {
		t.Error("a snapshot without a tree became a machine")
	}
	if _, err := Restore(bytes.NewReader(sections(func(w *snapshot.Writer, _ *znode.Snapshot) { w.Section(7, 1) }))); err == nil {
		t.Error("a snapshot with a foreign section became a machine")
	}
}

func TestTreeAndListsMustFitTogether(t *testing.T) {
	g := newRig(t)
	g.must(alice, wire.OpCreate, createWith("/n", bobsOwn))
	s := g.m.Snapshot()
	defer s.Close()
	broken := *s
	broken.lists = New().Snapshot().lists // without the list of /n
	var buf bytes.Buffer
	if err := broken.Write(noLock{}, &buf); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(&buf); err == nil {
		t.Error("a node without its list became a machine")
	}
}

func TestSettingsSurviveARestart(t *testing.T) {
	g := newRig(t)
	g.h.Settings = Settings{
		ACL:          acl.Settings{LetAnySASLUserDo: "root", SASLEnabled: true},
		EnforceQuota: true, MaxNeverUsedMs: math.MaxInt64,
	}
	for range 3 {
		g.apply(&Command{Kind: KindSync})
		if m := restored(t, written(t, g.m)); *m.Settings() != g.h.Settings {
			t.Errorf("%+v", m.Settings())
		}
		g.h.Settings.SingleVoter, g.h.Settings.MultiAddress = !g.h.Settings.SingleVoter, g.h.Settings.SingleVoter
	}
}

func FuzzRestore(f *testing.F) {
	g := bareRig(f, New())
	g.open(alice)
	g.must(alice, wire.OpCreate, createWith("/n", bobsOwn))
	f.Add(written(f, g.m))
	f.Fuzz(func(t *testing.T, data []byte) {
		if m, err := Restore(bytes.NewReader(data)); err == nil {
			if err := m.Check(); err != nil {
				t.Error(err)
			}
		}
	})
}

// Checksums keep a fuzzer of the container out of the sections, so the head has its own.
func FuzzMeta(f *testing.F) {
	m := New()
	m.zxid, m.term, m.timeMs = 1<<32|5, 7, 1000
	meta, version := m.appendMeta(nil)
	f.Add(version, meta)
	m.settings.SingleVoter = true
	meta, version = m.appendMeta(nil)
	f.Add(version, meta)
	f.Fuzz(func(t *testing.T, version uint32, data []byte) {
		p := restorer{m: New()}
		if p.meta(version, bytes.NewReader(data)) != nil {
			return
		}
		again := restorer{m: New()}
		meta, version := p.m.appendMeta(nil)
		if err := again.meta(version, bytes.NewReader(meta)); err != nil || *again.m.Settings() != *p.m.Settings() || again.m.zxid != p.m.zxid {
			t.Errorf("a second round gives another head (%v)", err)
		}
	})
}

// So has the ensemble.
func FuzzMembers(f *testing.F) {
	g := ensembleRig(f)
	f.Add(g.m.members.encoded)
	g.ask("server.4=h:5:6;7", "")
	f.Add(g.m.members.encoded)
	f.Fuzz(func(t *testing.T, data []byte) {
		m, again := New(), New()
		if m.restoreMembers(data) != nil {
			return
		}
		if err := again.restoreMembers(m.members.encoded); err != nil || again.Digest() != m.Digest() {
			t.Errorf("a second round gives another ensemble (%v)", err)
		}
	})
}
