package replication

import (
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hashicorp/raft"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/replication/damage"
)

// Names in a data directory.
const (
	formatName     = "format"
	lockName       = "lock"
	stableName     = "stable.db"
	stableFileName = "stable"
	snapshotsName  = "snapshots"
	logName        = "log"
	boltLogName    = "log.db"
	initializeName = "initialize"
	zooKeeperName  = "version-2"

	logStoreSegment = "segment"
	logStoreBolt    = "bolt"
)

// formatVersion is that of the layout of the data directory.
const formatVersion = 1

// Of the life of a data directory. Until it is ready nothing was ever acknowledged, so an
// unready one is made anew; a ready one must be complete.
const (
	stateNew   = "new"
	stateReady = "ready"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// identity is who a data directory belongs to. It is the content of the file format, lines
// of "key value", for people to read; the last one is the CRC32C of those before.
//
// A server is not its number alone: one that comes back with an empty disk has forgotten
// its votes and its log, and must not be taken for the one it was. So the incarnation is
// drawn when the directory is first used, and raft knows the server by both.
type identity struct {
	version     int
	state       string
	cluster     string // random, 16 hex digits: what belongs together
	myID        int
	incarnation string // random, 16 hex digits
	logStore    string
}

func newIdentity(o *Options) (identity, error) {
	var b [16]byte
	if _, err := io.ReadFull(o.Rand, b[:]); err != nil {
		return identity{}, fmt.Errorf("cannot draw a random number: %w", err)
	}
	id := identity{
		version: formatVersion, state: stateNew, cluster: hex.EncodeToString(b[:8]),
		myID: o.MyID, incarnation: hex.EncodeToString(b[8:]), logStore: o.LogStore,
	}
	if o.Cluster != nil {
		id.cluster = "" // that of all its members, see bootstrap.go
	}
	return id, nil
}

// joined is the name of the cluster, "" while the directory is not complete.
func (id *identity) joined() string {
	if id.state != stateReady {
		return ""
	}
	return id.cluster
}

// serverID is raft's name for this server, and its address too: the transport knows where
// a server is.
func (id *identity) serverID() raft.ServerID {
	return raft.ServerID(fmt.Sprintf("%d-%s", id.myID, id.incarnation))
}

func (id *identity) encode() []byte {
	text := fmt.Sprintf("zkd data directory\nversion %d\nstate %s\ncluster %s\nserver %d\nincarnation %s\nlog %s\n",
		id.version, id.state, id.cluster, id.myID, id.incarnation, id.logStore)
	return fmt.Appendf(nil, "%scrc32c %08x\n", text, crc32.Checksum([]byte(text), castagnoli))
}

func (id *identity) decode(b []byte) error {
	text := string(b)
	i := strings.LastIndex(text, "crc32c ")
	if i < 0 || text[i:] != fmt.Sprintf("crc32c %08x\n", crc32.Checksum(b[:i], castagnoli)) {
		return errors.New("wrong checksum")
	}
	for line := range strings.Lines(text[:i]) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		var err error
		switch key {
		case "version":
			id.version, err = strconv.Atoi(value)
		case "state":
			id.state = value
		case "cluster":
			id.cluster = value
		case "server":
			id.myID, err = strconv.Atoi(value)
		case "incarnation":
			id.incarnation = value
		case "log":
			id.logStore = value
		}
		if err != nil {
			return fmt.Errorf("bad line %q", line)
		}
	}
	return nil
}

// readIdentity reads the format file of a directory; ok is false if there is none.
func readIdentity(fsys vfs.FS, dir string) (id identity, ok bool, err error) {
	path := filepath.Join(dir, formatName)
	b, err := vfs.ReadFile(fsys, path)
	if errors.Is(err, fs.ErrNotExist) {
		return identity{}, false, nil
	}
	if err != nil {
		return identity{}, false, fmt.Errorf("cannot read the format file: %w", err)
	}
	if err := id.decode(b); err != nil {
		return identity{}, false, &damage.Error{
			File: path, Offset: -1, What: err.Error(),
			Repair: "put the file back from a backup: it is written once and never changes",
		}
	}
	if id.version != formatVersion {
		return identity{}, false, fmt.Errorf("%s has format version %d, this zkd knows %d: use the version of zkd that wrote it",
			dir, id.version, formatVersion)
	}
	return id, true, nil
}

func writeIdentity(fsys vfs.FS, dir string, id *identity) error {
	return vfs.WriteFileAtomic(fsys, dir, filepath.Join(dir, formatName), id.encode(), 0o600)
}

// matches says what speaks against using a directory with this identity.
func (id *identity) matches(o *Options) error {
	if id.myID != o.MyID {
		return fmt.Errorf("%s belongs to server %d, and this one is %d: correct the file myid, or name another directory",
			o.Dir, id.myID, o.MyID)
	}
	if id.logStore != o.LogStore {
		return fmt.Errorf("%s was made with zkd.logStore=%s: it cannot be changed to %s later", o.Dir, id.logStore, o.LogStore)
	}
	return nil
}

// refuseForeign returns an error for a directory that Apache ZooKeeper has written to.
func refuseForeign(fsys vfs.FS, dirs ...string) error {
	for _, dir := range dirs {
		path := filepath.Join(dir, zooKeeperName)
		if _, err := fsys.Stat(path); err == nil {
			return fmt.Errorf("%w: %s; `zkd import` reads it into a new directory", ErrZooKeeperData, path)
		}
	}
	return nil
}

// lockDir locks a directory against other processes.
func lockDir(fsys vfs.FS, dir string) (io.Closer, error) {
	l, err := fsys.Lock(filepath.Join(dir, lockName))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("%w: %s", ErrLocked, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot lock the data directory: %w", err)
	}
	return l, nil
}
