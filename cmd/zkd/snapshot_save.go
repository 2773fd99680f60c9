package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/server/replication"
	"github.com/zkd-project/zkd/server/znode"
)

// toStdout as a file name means the standard output.
const toStdout = "-"

func snapshotSaveCommand() *cobra.Command {
	var f adminFlags
	var path string
	var force bool
	c := &cobra.Command{
		Use:   "save FILE",
		Short: "Save what a running cluster holds; - is the standard output",
		Long: `Save what a running cluster holds; - is the standard output.

Clients are served meanwhile, readers and writers. The backup has everything that was
acknowledged before the command began, all of one zxid. The file is there when it is complete,
verified and on the disk.

With --path it has that node, what is below it and what is needed above it, without ephemeral
nodes; it can be restored into a running cluster only.`,
		Example: `  zkd snapshot save /backup/monday.zkd
  zkd snapshot save /backup/app.zkd --path /app --server https://zk1:8080 --password-file /etc/zkd/super
  zkd snapshot save - | ssh store 'cat > monday.zkd'`,
		Args: oneArg("the file to make, for example: zkd snapshot save /backup/monday.zkd"),
		RunE: func(c *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			p := newProgress(c.ErrOrStderr())
			text, err := (&saver{flags: &f, target: args[0], path: path, force: force, p: p, stdout: c.OutOrStdout()}).run(ctx)
			p.clear()
			if err != nil {
				return startError(err)
			}
			if args[0] != toStdout {
				fmt.Fprintln(c.OutOrStdout(), text)
			}
			return nil
		},
	}
	c.Flags().StringVar(&path, "path", "", "save this node and what is below it alone")
	c.Flags().StringVar(&f.server, "server", defaultAdmin, "URL of the admin server of any server of the cluster")
	c.Flags().BoolVar(&force, "force", false, "replace FILE if it exists")
	f.register(c)
	return c
}

// oneArg asks for exactly one argument. An empty one is a variable of a script that is not set, and
// would mean the directory in which the command runs.
func oneArg(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return errors.New("name " + what)
		}
		return nil
	}
}

// A saver makes one backup.
type saver struct {
	flags  *adminFlags
	target string
	path   string
	force  bool
	p      *progress
	stdout io.Writer
}

func (s *saver) run(ctx context.Context) (string, error) {
	if s.path != "" && znode.CheckPath(s.path) != nil {
		return "", fmt.Errorf("--path %s is no path of a node", s.path)
	}
	dir := filepath.Dir(s.target)
	if s.target == toStdout {
		dir = os.TempDir()
		if out, ok := s.stdout.(*os.File); ok && newProgress(out).terminal {
			return "", errors.New("a backup is nothing to read: redirect the standard output, or name a file")
		}
	} else if err := s.checkTarget(); err != nil {
		return "", err
	}
	a, err := s.flags.connect()
	if err != nil {
		return "", err
	}
	temporary, err := s.fetch(ctx, a, dir)
	if err != nil {
		return "", err
	}
	defer os.Remove(temporary) // it is not there any more if all went well
	zxid, size, err := s.verify(temporary)
	if err != nil {
		return "", err
	}
	if s.path != "" && s.path != "/" {
		whole := temporary
		if temporary, size, err = s.cut(whole, dir); err != nil {
			return "", err
		}
		defer os.Remove(temporary)
	}
	if err := s.deliver(temporary, dir); err != nil {
		return "", err
	}
	return fmt.Sprintf("saved %s: zxid %s, %s", s.target, zxid, humanBytes(size)), nil
}

// checkTarget finds what is wrong before long work is done.
func (s *saver) checkTarget() error {
	// What comes to nothing here was a snapshot to the server, which gives the next one in minutes.
	if dir := filepath.Dir(s.target); !isDir(dir) {
		return fmt.Errorf("there is no folder %s: make it first", dir)
	}
	info, err := os.Lstat(s.target)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a directory: name a file in it", s.target)
	case !s.force:
		return fmt.Errorf("%s exists: name another file, or replace it with --force", s.target)
	}
	return nil
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// fetch stores what the server sends in a file beside the target. The file is there before the
// server is asked: see checkTarget.
func (s *saver) fetch(ctx context.Context, a *adminClient, dir string) (temporary string, err error) {
	return writeBeside(dir, func(f *os.File) error {
		s.p.stage("asking for a snapshot")
		resp, err := a.do(ctx, http.MethodGet, "snapshot", nil, nil, 0)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		s.p.clear()
		in := &countingReader{Reader: resp.Body, size: resp.ContentLength, what: "saving " + s.target, p: s.p}
		_, err = io.Copy(f, in)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("the server stopped sending after %d of %d bytes: try again", in.done, in.size)
		}
		return err
	})
}

// writeBeside makes a file with a name of its own in a directory, and syncs it. Nothing is left
// after an error.
func writeBeside(dir string, write func(*os.File) error) (name string, err error) {
	f, err := os.CreateTemp(dir, ".zkd-snapshot-*.tmp") // never through a link, and for us alone
	if err != nil {
		return "", err
	}
	err = errors.Join(write(f), f.Sync())
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// verify compares all checksums of what has come.
func (s *saver) verify(temporary string) (zxid string, size int64, err error) {
	b, err := openBackup(temporary)
	if err != nil {
		return "", 0, fmt.Errorf("what the server has sent: %w", err)
	}
	defer b.Close()
	stop := s.p.follow("verifying "+s.target, b.Progress)
	head, err := b.Verify()
	stop()
	if err != nil {
		return "", 0, fmt.Errorf("what the server has sent: %w", err)
	}
	_, size = b.Progress()
	return fmt.Sprintf("0x%x", uint64(head.Zxid)), size, nil
}

// cut makes a backup of the subtree from that of everything.
func (s *saver) cut(whole, dir string) (temporary string, size int64, err error) {
	b, err := loadBackup(whole, s.p)
	if err != nil {
		return "", 0, err
	}
	m, err := b.machine.Subtree(s.path)
	if err != nil {
		return "", 0, err
	}
	temporary, err = writeBeside(dir, func(f *os.File) error {
		if err := replication.WriteBackup(f, m, s.path, b.Created()); err != nil {
			return err
		}
		size, err = f.Seek(0, io.SeekCurrent)
		return err
	})
	return temporary, size, err
}

// deliver gives the file its name, or copies it out.
func (s *saver) deliver(temporary, dir string) error {
	if s.target != toStdout {
		if err := os.Rename(temporary, s.target); err != nil { // a link there is replaced, not followed
			return err
		}
		return vfs.OS.SyncDir(dir)
	}
	f, err := os.Open(temporary)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(s.stdout, f)
	return err
}

// timeText is a time for people and for scripts.
func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339) }
