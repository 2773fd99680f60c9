package replication

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/internal/wait"
	"github.com/zkd-project/zkd/server/replication/damage"
	"github.com/zkd-project/zkd/server/state"
)

// openBytes opens a backup that lies in memory.
func openBytes(b []byte) (*Backup, error) {
	return OpenBackup(nopCloser{bytes.NewReader(b)}, int64(len(b)), "test.zkd")
}

// backupOf is what the node gives to be saved.
func backupOf(t testing.TB, n *Node) []byte {
	t.Helper()
	s, err := n.Save(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	b, err := io.ReadAll(s.Reader())
	if err != nil || int64(len(b)) != s.Size {
		t.Fatal(len(b), s.Size, err)
	}
	return b
}

func TestSaveIsWhatTheMachineIs(t *testing.T) {
	for _, memory := range []bool{false, true} {
		o := testOptions()
		o.Memory = memory
		if !memory {
			o.Dir = filepath.Join(t.TempDir(), "data")
		}
		r := openRig(t, o)
		r.session()
		req := uint64(0)
		for range 3 {
			req++
			r.mustDo(createNode(req, nodePath(int(req)), []byte("data")))
			saved, err := r.Save(testContext(t))
			if err != nil {
				t.Fatal(err)
			}
			digest, zxid := r.digest(), r.Machine().Zxid()
			for range 3 { // what comes afterwards is not in it, also where the file is purged meanwhile
				req++
				r.mustDo(createNode(req, nodePath(int(req)), nil))
				if err := r.SnapshotNow(testContext(t)); err != nil {
					t.Fatal(err)
				}
			}
			b, err := OpenBackup(saved, saved.Size, "saved")
			if err != nil {
				t.Fatal(err)
			}
			m, scope, err := b.Machine()
			if err != nil || scope != "" || m.Digest() != digest || saved.Zxid != zxid || m.Zxid() != zxid {
				t.Fatalf("memory %v: %v, digest %x, zxid %x and %x; should be %x, %x", memory, err, m.Digest(), saved.Zxid, m.Zxid(), digest, zxid)
			}
			if done, size := b.Progress(); done > size || done == 0 {
				t.Errorf("read %d of %d", done, size)
			}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestDamagedBackupNamesFileAndOffset(t *testing.T) {
	o := testOptions()
	o.Memory = true
	r := openRig(t, o)
	r.session()
	for i := range 40 {
		r.mustDo(createNode(uint64(i+1), nodePath(i), []byte("some data")))
	}
	good := backupOf(t, r.Node)
	read := func(b []byte, use func(*Backup) error) error {
		bk, err := openBytes(b)
		if err != nil {
			return err
		}
		defer bk.Close()
		return use(bk)
	}
	uses := map[string]func(*Backup) error{
		"machine": func(b *Backup) error { _, _, err := b.Machine(); return err },
		"sums":    func(b *Backup) error { _, err := b.Verify(); return err },
	}
	for name, use := range uses {
		if err := read(good, use); err != nil {
			t.Fatal(name, err)
		}
		check := func(what string, b []byte) {
			t.Helper()
			err := read(b, use)
			var d *damage.Error
			if !errors.As(err, &d) || d.File != "test.zkd" || d.Offset < 0 || d.Offset > int64(len(b)) || !strings.Contains(err.Error(), anotherBackup) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
		for i := range good {
			b := bytes.Clone(good)
			b[i] ^= 0x41
			check("changed", b)
			if i%7 == 0 {
				check("cut off", good[:i])
			}
		}
		check("extended", append(bytes.Clone(good), 0))
		check("twice", append(bytes.Clone(good), good...))
	}
	if err := read([]byte(strings.Repeat("no backup at all ", 100)), uses["sums"]); !strings.Contains(err.Error(), "does not begin as a snapshot of zkd") {
		t.Error(err)
	}
}

// A small file must not become a large machine.
func TestBackupThatClaimsTooMuchIsRefused(t *testing.T) {
	var out bytes.Buffer
	w, err := newSnapWriter(&out, snapDescription{created: testNow()})
	if err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, 1<<20)
	for range 3 * freeRatioData / len(zeros) {
		if _, err := w.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.finish(); err != nil {
		t.Fatal(err)
	}
	if _, err := openBytes(out.Bytes()); err == nil || !strings.Contains(err.Error(), "more than can be true") {
		t.Errorf("%d bytes of zeros in %d: %v", w.d.size, out.Len(), err)
	}
	// One that says less than it has ends there.
	w.d.size = 1 << 20
	lying := append(out.Bytes()[:out.Len()-snapTailSize:out.Len()-snapTailSize], w.d.encodeTail(w.crc)...)
	b, err := openBytes(lying)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if n, err := io.Copy(io.Discard, b); err == nil || n > 2<<20 {
		t.Errorf("%d bytes, %v", n, err)
	}
}

func TestNewClusterFromABackup(t *testing.T) {
	dir := t.TempDir()
	o := testOptions()
	o.Dir = filepath.Join(dir, "old")
	o.Rand = nil
	r := openRig(t, o)
	r.session()
	r.mustDo(createNode(1, "/p", []byte("x")))
	old, server := r.ClusterID(), r.ServerID()
	b, err := openBytes(backupOf(t, r.Node))
	if err != nil {
		t.Fatal(err)
	}
	m, _, err := b.Machine()
	if err != nil {
		t.Fatal(err)
	}
	zxid := m.Zxid()
	if err := CreateFromBackup(Options{Dir: o.Dir}, m, false); err == nil {
		t.Fatal("the directory of a database was taken")
	}
	if err := CreateFromBackup(Options{Dir: filepath.Join(dir, "new")}, m, false); err != nil {
		t.Fatal(err)
	}
	if _, err := CheckDir(filepath.Join(dir, "new"), "", nil); err != nil {
		t.Fatal(err)
	}
	o.Dir = filepath.Join(dir, "new")
	n := openRig(t, o)
	if n.ClusterID() == old || n.ServerID() == server {
		t.Errorf("it is still %s of %s", n.ServerID(), n.ClusterID())
	}
	if string(n.data("/p")) != "x" || n.Machine().SessionCount() != 0 {
		t.Error("the data are not those of the backup")
	}
	n.session()
	if a := n.mustDo(createNode(1, "/q", nil)); a.zxid>>32 < zxid>>32+lostEpochs {
		t.Errorf("zxid %x after %x", a.zxid, zxid)
	}
}

func TestWrittenBackupIsRead(t *testing.T) {
	m := state.New()
	sub, err := m.Subtree("/zookeeper")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	at := time.UnixMilli(1753000000000)
	if err := WriteBackup(&out, sub, "/zookeeper", at); err != nil {
		t.Fatal(err)
	}
	b, err := openBytes(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	got, scope, err := b.Machine()
	if err != nil || scope != "/zookeeper" || !b.Created().Equal(at) || got.Digest() != sub.Digest() || b.DataBytes() <= 0 {
		t.Error(scope, b.Created(), err)
	}
	// A server does not begin with it.
	dir := filepath.Join(t.TempDir(), "data")
	if err := CreateFromBackup(Options{Dir: dir}, state.New(), false); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, snapshotsName, snapName(1, 1))
	if err := vfs.WriteFileAtomic(vfs.OS, filepath.Dir(name), name, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := CheckDir(dir, "", nil); err == nil {
		t.Error("a part of a tree is taken for a snapshot of a server")
	}
}

func TestLoneServerRaisesTheLevelWhenItIsNeeded(t *testing.T) {
	o := testOptions()
	o.Memory = true
	r := openRig(t, o)
	r.session()
	r.mustDo(createNode(1, "/p", nil))
	if r.Machine().Level() != 1 {
		t.Fatalf("level %d before anybody needs another", r.Machine().Level())
	}
	for range 2 {
		if err := r.RequireLevel(testContext(t), state.LevelRestore); err != nil || r.level() != state.LevelRestore {
			t.Fatal(r.level(), err)
		}
	}
}

func TestClusterRaisesTheLevelWhenAllKnowIt(t *testing.T) {
	c := newTrio(t, 3)
	c.start(1, 2, 3)
	lead := c.leader()
	var others []*voice
	for _, v := range c.members {
		if v != lead {
			others = append(others, v)
		}
	}
	others[1].stop()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, v := range []*voice{lead, others[0]} {
		err := ErrNotLeader
		for errors.Is(err, ErrNotLeader) && ctx.Err() == nil { // an election on a busy machine
			err = v.node.RequireLevel(ctx, state.LevelRestore)
			wait.Pause(ctx, 5*time.Millisecond)
		}
		if err == nil {
			t.Error("the level was raised with a server down")
		}
	}
	c.start(others[1].number)
	var err error
	for {
		// The other may not be reached for a moment yet.
		if err = others[0].node.RequireLevel(ctx, state.LevelRestore); err == nil || ctx.Err() != nil {
			break
		}
		wait.Pause(ctx, 5*time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range c.members {
		if err := v.node.waitLevel(ctx, state.LevelRestore); err != nil {
			t.Fatal(err)
		}
	}
	if err := others[0].node.raiseWhenAllKnow(ctx, state.CurrentLevel+1); !errors.Is(err, ErrLevel) {
		t.Errorf("a level that nobody knows: %v", err)
	}
}

func FuzzBackup(f *testing.F) {
	var out bytes.Buffer
	if err := WriteBackup(&out, state.New(), "", testNow()); err != nil {
		f.Fatal(err)
	}
	f.Add(out.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := openBytes(data)
		if err != nil {
			return
		}
		defer b.Close()
		if m, _, err := b.Machine(); err == nil {
			if err := m.Check(); err != nil {
				t.Error(err)
			}
		}
	})
}

func FuzzLevelAnswer(f *testing.F) {
	f.Add(appendLevel(levelDone, 7))
	f.Add([]byte{levelFailed, 'n', 'o'})
	f.Fuzz(func(t *testing.T, b []byte) {
		if level, err := decodeLevelAnswer(b); err == nil && !bytes.Equal(appendLevel(levelDone, level), b) {
			t.Errorf("%x is level %d", b, level)
		}
	})
}
