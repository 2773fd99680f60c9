package nemesis

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// rejoinPatience is how long a server may take to say what it makes of its disk, and to be a
// member again after it, also on a machine that is busy with other things.
const rejoinPatience = 2 * time.Minute

// damages are faults of data at rest. Each takes one server's vote for its disk away, which is as
// much as three servers bear: they are alone in a run, and the next one waits until the damaged
// server is whole again.
func damages() []Nemesis {
	return []Nemesis{
		{Name: "damage", Doc: "a flipped bit, a zeroed page, a truncated or a missing file on a stopped server's disk: it is refused or harmless, and the server rejoins", group: groupProcess, longest: time.Second, Alone: true, inject: damage},
		{Name: "old-copy", Doc: "a server's disk is replaced by an older copy of itself", group: groupProcess, longest: 4 * time.Second, Alone: true, inject: oldCopy},
	}
}

func damage(w *World, r *rand.Rand) (fault, error) {
	role, servers := victims(w, r, "one", "one", "leader")
	one := servers[0]
	w.Cluster.Kill(one)
	what, err := spoil(w.Cluster.Data(one), r)
	return fault{role + ": " + what, servers, func() error { return w.rejoin(one) }}, err
}

// rejoin starts a server whose disk may be damaged. It ends with the code for that, or serves; in
// the first case the documented repair is an empty disk.
func (w *World) rejoin(server int) error {
	ctx, cancel := context.WithTimeout(context.Background(), rejoinPatience)
	defer cancel()
	if err := w.Cluster.Start(server); err != nil {
		return err
	}
	serves := make(chan error, 1)
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	go func() { serves <- w.whole(waiting) }()
	for w.Cluster.PID(server) != 0 {
		select {
		case err := <-serves:
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
	stop()
	<-serves
	// What it has said is judged with all ends.
	if err := w.Cluster.Wipe(server); err != nil {
		return err
	}
	if err := w.Cluster.Start(server); err != nil {
		return err
	}
	return w.whole(ctx)
}

// whole waits until all servers serve and vote. One with an empty disk serves before it votes: until it
// does, another one without its disk would be more than the cluster can bear.
func (w *World) whole(ctx context.Context) error {
	all := fmt.Sprintf("zk_synced_followers\t%d\n", w.Cluster.Size()-1)
	for {
		if err := w.Cluster.AwaitAll(ctx); err != nil {
			return err
		}
		if l := w.Cluster.Leader(); l != 0 && strings.Contains(w.Cluster.Word(l, "mntr"), all) {
			return nil
		}
		wait(ctx, 20*time.Millisecond)
		if ctx.Err() != nil {
			return fmt.Errorf("not all servers vote: %w", ctx.Err())
		}
	}
}

// spoil does something to one of the files of a folder.
func spoil(dir string, r *rand.Rand) (what string, err error) {
	var files []string
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && d.Name() != "myid" {
			files = append(files, path)
			if filepath.Ext(path) == ".log" { // of what is damaged, most is what is most
				files = append(files, path, path)
			}
		}
		return err
	})
	if err != nil || len(files) == 0 {
		return "", errors.Join(err, fmt.Errorf("no file in %s to damage", dir))
	}
	path := files[r.IntN(len(files))]
	name, _ := filepath.Rel(dir, path)
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	used := len(b) // files of the log end in zeros that nobody has written yet
	for used > 0 && b[used-1] == 0 {
		used--
	}
	kind := r.IntN(6)
	if used == 0 {
		kind = 5
	}
	switch kind {
	case 0, 1, 2:
		at := r.IntN(used)
		b[at] ^= 1 << r.IntN(8)
		return fmt.Sprintf("bit flipped at %d of %s", at, name), os.WriteFile(path, b, 0o600)
	case 3:
		at := r.IntN(used) &^ 4095
		clear(b[at:min(at+4096, len(b))])
		return fmt.Sprintf("page zeroed at %d of %s", at, name), os.WriteFile(path, b, 0o600)
	case 4:
		at := r.IntN(used)
		return fmt.Sprintf("%s cut off at %d", name, at), os.Truncate(path, int64(at))
	}
	return name + " removed", os.Remove(path)
}

// oldCopy copies the disk of a server when the fault begins, and puts the copy back when it ends.
func oldCopy(w *World, r *rand.Rand) (fault, error) {
	role, servers := victims(w, r, "one", "leader")
	one := servers[0]
	dir, err := os.MkdirTemp("", "jepsen-copy-")
	if err != nil {
		return fault{}, err
	}
	w.Cluster.Kill(one)
	copied := filepath.Join(dir, "data")
	if err := errors.Join(os.CopyFS(copied, os.DirFS(w.Cluster.Data(one))), w.Cluster.Start(one)); err != nil {
		return fault{role, servers, nil}, errors.Join(err, os.RemoveAll(dir))
	}
	return fault{role, servers, func() error {
		defer os.RemoveAll(dir)
		w.Cluster.Kill(one)
		if err := os.RemoveAll(w.Cluster.Data(one)); err != nil {
			return err
		}
		if err := os.CopyFS(w.Cluster.Data(one), os.DirFS(copied)); err != nil {
			return err
		}
		return w.rejoin(one)
	}}, nil
}
