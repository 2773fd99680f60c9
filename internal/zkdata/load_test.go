package zkdata

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/klauspost/compress/snappy"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/server/znode"
	"github.com/zkd-project/zkd/wire"
)

func TestLoadReplaysEveryTypeOfTransaction(t *testing.T) {
	db, r, notes, err := load(t, goodFiles(t), false)
	require.NoError(t, err)
	require.Empty(t, notes)
	require.Equal(t, []string{"/a", "/m", "/mine", "/ttl", "/two"}, paths(t, db))
	require.Equal(t, map[int64]int32{alice: 30_000}, db.Sessions)
	require.Equal(t, znode.Persisted{
		Czxid: 3, Mzxid: 11, Pzxid: 13, CtimeMs: 3000, MtimeMs: 11_000, Version: 1, Cversion: 1, Aversion: 1,
	}, db.Node("/a").Stat)
	require.Nil(t, db.Node("/a").Data)
	require.Equal(t, bobsOwn, db.Node("/a").ACL)
	require.Equal(t, znode.Persisted{Cversion: 8, Pzxid: 19}, db.Node("/").Stat, "closing a session is a change of children")
	require.Equal(t, "m", string(db.Node("/m").Data))
	require.Equal(t, znode.TTLOwner(60_000), db.Node("/ttl").Stat.Owner)
	require.Equal(t, znode.SessionOwner(alice), db.Node("/mine").Stat.Owner)
	require.EqualValues(t, 19, db.Zxid)
	require.EqualValues(t, 19_000, db.TimeMs)
	require.Equal(t, 19, r.Txns)
}

// A snapshot is written while transactions take effect. Whatever of them is in it already, the
// replay leads to the same end.
func TestReplayRepairsFuzzySnapshot(t *testing.T) {
	all := everyType()
	want := NewDatabase()
	for i := range all {
		want.Apply(&all[i])
	}
	for seen := range len(all) + 1 {
		fuzzy := NewDatabase()
		for i := range seen {
			fuzzy.Apply(&all[i])
		}
		for from := range seen + 1 { // the name of the file, and what of the log is replayed
			fuzzy.Zxid = int64(seen)
			db, _, _, err := load(t, map[string][]byte{
				SnapshotName(int64(from)): snapshotOf(t, fuzzy), "log.1": logOf(all...),
			}, false)
			require.NoError(t, err, "%d seen, snapshot %d", seen, from)
			require.Equal(t, want.Digest(), db.Digest(), "%d seen, snapshot %d", seen, from)
			require.Equal(t, want.Sessions, db.Sessions)
			require.Equal(t, paths(t, want), paths(t, db))
		}
	}
}

// A node that came while the snapshot was written can have a list that is not in its table.
func TestListOfYoungNodeComesFromTheLog(t *testing.T) {
	create := creation("/young", 1)
	create.ACL = bobsOwn
	txns := numbered(1, create)
	young := NewDatabase()
	young.Apply(&txns[0])
	b := snapshotOf(t, young)
	key := bytes.LastIndex(b, append([]byte("data of /young"), 0, 0, 0, 0, 0, 0, 0, 1))
	require.Positive(t, key)
	b[key+len("data of /young")+7] = 9
	db, err := readUnsealed(b)
	require.NoError(t, err)
	require.True(t, db.Node("/young").noACL)
	db.Apply(&txns[0])
	require.Equal(t, bobsOwn, db.Node("/young").ACL)
	require.False(t, db.Node("/young").noACL)
}

// readUnsealed reads a snapshot whose checksums were not renewed after a change.
func readUnsealed(b []byte) (*Database, error) {
	s := snapshotReader{in: newInput(bytes.NewReader(b)), db: newDatabase(), lists: nil}
	s.in.full(make([]byte, 16))
	for range s.in.count() {
		s.in.full(make([]byte, 12))
	}
	s.lists = map[int64][]wire.ACL{openKey: openACL}
	s.readLists()
	s.readNodes()
	return s.db, s.in.err
}

func TestCompressedSnapshotsAreRead(t *testing.T) {
	plain := snapshotOf(t, NewDatabase())
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, err := z.Write(plain)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	snapped := append([]byte(snappyMagic), 0, 0, 0, 1, 0, 0, 0, 1)
	for block := range slices.Chunk(plain, 100) {
		packed := snappy.Encode(nil, block)
		snapped = append(binary.BigEndian.AppendUint32(snapped, uint32(len(packed))), packed...)
	}
	for name, b := range map[string][]byte{"snapshot.0.gz": zipped.Bytes(), "snapshot.0.snappy": snapped} {
		db, _, _, err := load(t, map[string][]byte{name: b, "log.1": logOf(everyType()...)}, false)
		require.NoError(t, err, name)
		require.Len(t, paths(t, db), 5)
		for n := range len(b) - 1 {
			_, _, _, err := load(t, map[string][]byte{name: b[:n+1]}, false)
			require.Error(t, err, "%s, cut at %d", name, n+1)
			require.Contains(t, err.Error(), "zk/"+name)
		}
	}
}

func TestDigestOfEmptyTreeIsZooKeepers(t *testing.T) {
	require.EqualValues(t, 1371985504, NewDatabase().Digest())
}

// Every bit of a snapshot counts, and every bit of a log: a change is found, or ends the log
// where a crash could have.
func TestDamageIsFound(t *testing.T) {
	good := goodFiles(t)
	all := everyType()
	want, _, _, err := load(t, good, false)
	require.NoError(t, err)
	good["snapshot.13"] = snapshotOf(t, want)
	for name, b := range good {
		if name == "snapshot.0" {
			continue // not the newest
		}
		for i := range len(b) * 8 {
			bad := bytes.Clone(b)
			bad[i/8] ^= 1 << (i % 8)
			files := map[string][]byte{"snapshot.0": good["snapshot.0"], "log.1": good["log.1"]}
			files[name] = bad
			db, _, notes, err := load(t, files, false)
			var fault *Error
			switch {
			case err != nil:
				require.ErrorAs(t, err, &fault, "bit %d of %s", i, name)
				require.Equal(t, "zk/"+name, fault.File)
				require.LessOrEqual(t, fault.Offset, int64(len(b)))
			case name == "log.1" && db.Zxid < want.Zxid: // the last transaction, unless zkd can tell
				require.GreaterOrEqual(t, i/8, len(logOf(all[:len(all)-1]...)), "transactions were lost without a word")
			case name == "log.1":
				require.Less(t, i/8, logHeaderBytes, "bit %d is of no account", i)
				require.GreaterOrEqual(t, i/8, 8)
			default:
				require.Len(t, notes, 1, "bit %d of %s", i, name)
			}
		}
	}
}

func TestCutFilesAreNoSurprise(t *testing.T) {
	good := goodFiles(t)
	b := good["log.1"]
	last := int64(-1)
	for n := range len(b) + 1 {
		for _, padding := range []int{0, 1000} {
			if padding > 0 && n > 0 && n < logHeaderBytes {
				continue // so little is written at once
			}
			good["log.1"] = append(bytes.Clone(b[:n]), make([]byte, padding)...)
			db, _, _, err := load(t, good, false)
			require.NoError(t, err, "cut at %d", n)
			require.GreaterOrEqual(t, db.Zxid, last)
			last = db.Zxid
		}
	}
	require.EqualValues(t, 19, last)
	for n := range good["snapshot.0"] {
		_, err := ReadSnapshot(bytes.NewReader(good["snapshot.0"][:n]))
		const withoutDigest = 33 // bytes of digest and second seal
		if n == len(good["snapshot.0"])-withoutDigest {
			require.NoError(t, err, "versions before 3.6 end here")
			continue
		}
		var fault *Error
		require.ErrorAs(t, err, &fault, "cut at %d", n)
	}
}

func TestDoubtsAreErrorsUnlessForced(t *testing.T) {
	all := everyType()
	full := NewDatabase()
	for i := range all {
		full.Apply(&all[i])
	}
	wrong := everyType()
	wrong[18].Digest = &TreeDigest{Version: digestVersion, Value: 4711}
	for name, tt := range map[string]struct {
		files map[string][]byte
		want  string
	}{
		"a log is missing": {
			map[string][]byte{"snapshot.0": snapshotOf(t, NewDatabase()), "log.1": logOf(all[:5]...), "log.8": logOf(all[7:]...)},
			"zk/log.8, offset 16: transaction 0x8 comes after 0x5",
		},
		"the first log is missing": {
			map[string][]byte{"snapshot.0": snapshotOf(t, NewDatabase()), "log.8": logOf(all[7:]...)}, "transaction 0x8 comes after 0x0",
		},
		"the last log is missing": {
			map[string][]byte{"snapshot.5": snapshotOf(t, full), "log.1": logOf(all[:5]...)}, "was changed by 0x13",
		},
		"all logs are missing":  {map[string][]byte{"snapshot.13": snapshotOf(t, full)}, "there are no transaction logs in zk"},
		"only a first snapshot": {map[string][]byte{"snapshot.0": snapshotOf(t, NewDatabase())}, "there are no transaction logs in zk"},
		"no snapshot":           {map[string][]byte{"log.1": logOf(all...)}, "no complete snapshot in zk"},
		"another tree":          {map[string][]byte{"snapshot.0": snapshotOf(t, NewDatabase()), "log.1": logOf(wrong...)}, "the digest of the tree"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, _, err := load(t, tt.files, false)
			var doubt *DoubtError
			require.ErrorAs(t, err, &doubt)
			require.ErrorContains(t, err, tt.want)
			_, _, notes, err := load(t, tt.files, true)
			require.NoError(t, err)
			require.Contains(t, fmt.Sprint(notes), tt.want)
		})
	}
}

func TestEpochsAreRead(t *testing.T) {
	files := goodFiles(t)
	files["acceptedEpoch"], files["currentEpoch"] = []byte("7\n"), []byte("5")
	_, r, _, err := load(t, files, false)
	require.NoError(t, err)
	require.EqualValues(t, 7, r.Epoch)
	files["acceptedEpoch"] = []byte("seven")
	_, _, _, err = load(t, files, false)
	require.ErrorContains(t, err, "zk/acceptedEpoch, offset 0")
}

func TestNewEpochFollowsWithoutGap(t *testing.T) {
	for _, tt := range []struct {
		zxid, last int64
		want       bool
	}{
		{1, 0, true},
		{2, 0, false},
		{0x100000001, 5, true},
		{0x300000001, 0x100000005, true},
		{0x100000002, 5, false},
		{0x100000002, 0x100000001, true},
		{0x100000001, 0x100000001, false},
	} {
		require.Equal(t, tt.want, follows(tt.zxid, tt.last), "%x after %x", tt.zxid, tt.last)
	}
}

func TestNodesOfDeadSessionsAreDropped(t *testing.T) {
	files := goodFiles(t)
	files["log.14"] = logOf(numbered(20, ephemeral(0x100000000000077, "/orphan", 10))...)
	db, r, _, err := load(t, files, false)
	require.NoError(t, err)
	require.Equal(t, 1, r.Orphans)
	require.Nil(t, db.Node("/orphan"))
}

func TestRunningZooKeeperIsNoticed(t *testing.T) {
	fsys := fstest.MapFS{}
	for name, b := range goodFiles(t) {
		fsys[name] = &fstest.MapFile{Data: b}
	}
	_, _, err := Load(Source{
		Snapshots: fsys, Logs: fsys, SnapshotsDir: "zk", LogsDir: "zk",
		Progress: func(string, int64, int64) { fsys["log.14"] = &fstest.MapFile{Data: logOf()} },
	})
	require.ErrorContains(t, err, "have changed meanwhile")
}

func TestEmptyDirectorySaysWhatToName(t *testing.T) {
	_, _, _, err := load(t, nil, true)
	require.ErrorContains(t, err, "there are neither snapshots in zk nor logs in zk")
}
