package main

import (
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/internal/cert"
	"github.com/zkd-project/zkd/internal/tlsconf"
	"github.com/zkd-project/zkd/server/replication/peer"
)

var rewrite = flag.Bool("rewrite", false, "renew the golden files in testdata")

func TestCertHelp(t *testing.T) {
	for _, command := range []string{"", "init", "node", "show"} {
		args := append([]string{"cert"}, append(strings.Fields(command), "--help")...)
		code, got := runCommand(t, args...)
		require.Equal(t, exitOK, code)
		golden := filepath.Join("testdata", strings.TrimSuffix("cert-"+command, "-")+".help")
		if *rewrite {
			require.NoError(t, os.WriteFile(golden, []byte(got), 0o666))
			continue
		}
		want, err := os.ReadFile(golden)
		require.NoError(t, err)
		require.Equal(t, string(want), got, golden)
	}
	_, bare := runCommand(t, "cert")
	_, help := runCommand(t, "cert", "--help")
	require.Equal(t, help, bare)
}

// must runs a command that succeeds.
func must(t *testing.T, args ...string) string {
	t.Helper()
	code, out := runCommand(t, args...)
	require.Equal(t, exitOK, code, "%v: %s", args, out)
	return out
}

func TestCertMistakesAreOneLineAndChangeNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ca")
	must(t, "cert", "init", "--dir", dir)
	must(t, "cert", "node", "--dir", dir, "--id", "1")
	empty := t.TempDir()
	text := filepath.Join(empty, "text")
	require.NoError(t, os.WriteFile(text, []byte("hello"), 0o600))
	before := listing(t, dir)
	for _, test := range []struct {
		args string // after "cert"
		want string
	}{
		{"sing", `unknown command "sing"`},
		{"init", `required flag(s) "dir" not set`},
		{"init --dir " + dir, "ca.pem exists; with --force it is replaced, and what it has signed is worth nothing any more"},
		{"init --dir " + empty + "/x --days 0", "--days 0: allowed: 1 to 36500"},
		{"init --dir " + empty + "/x --days 36501", "allowed: 1 to 36500"},
		{"init --dir " + empty + "/x --cluster " + strings.Repeat("a", 65), "cannot be the name of a cluster"},
		{"init --dir " + text + "/x", "not a directory"},
		{"init --dir " + empty + " more", "unknown command"},
		{"node --dir " + dir, `required flag(s) "id" not set`},
		{"node --id 2", `required flag(s) "dir" not set`},
		{"node --id two --dir " + dir, "two"},
		{"node --id 0 --dir " + dir, "0 is no number of a server; allowed: 1 to 255"},
		{"node --id 256 --dir " + dir, "256 is no number of a server"},
		{"node --id 1 --dir " + dir, "node-1.pem exists; --force replaces it"},
		{"node --id 2 --days -1 --dir " + dir, "--days -1: allowed: 1 to 36500"},
		{"node --id 2 --host zk2:2888 --dir " + dir, `"zk2:2888" is no host`},
		{"node --id 2 --host zkd-member-1 --dir " + dir, `host "zkd-member-1" names a server`},
		{"node --id 2 --dir " + empty, "there is no CA in " + empty},
		{"node --id 2 --out " + empty + "/none/x.pem --dir " + dir, "cannot write " + empty + "/none/x.pem: "},
		{"show", "name the file, for example"},
		{"show " + empty + "/none", "no such file"},
		{"show " + text, text + ": neither a certificate nor a private key in PEM is in it"},
		{"show " + dir, "is a directory"},
	} {
		code, out := runCommand(t, append([]string{"cert"}, strings.Fields(test.args)...)...)
		require.Equal(t, exitUsage, code, test.args)
		require.Contains(t, out, test.want, test.args)
		require.True(t, strings.HasPrefix(out, "zkd: "), "%s: %s", test.args, out)
		require.Equal(t, 1, strings.Count(out, "\n"), "%s: %s", test.args, out)
	}
	require.Equal(t, before, listing(t, dir))
	require.Len(t, listing(t, empty), 1)
}

// listing is the names and texts of the files in a folder.
func listing(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	files := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		files[e.Name()] = string(text)
	}
	return files
}

func TestCertSaysWhatItMade(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ca")
	out := must(t, "cert", "init", "--dir", dir, "--cluster", "orders", "--days", "30")
	require.Contains(t, out, config.PeerCAFile(dir)+`: the CA of cluster "orders", good until 20`)
	require.Contains(t, out, cert.KeyFile(dir)+": its key; keep it, and keep it off the servers")
	// Its two years end with the CA.
	elsewhere := filepath.Join(t.TempDir(), "node-2.pem")
	out = must(t, "cert", "node", "--dir", dir, "--id", "2", "--host", "zk2.example.com", "--host", "::1", "--out", elsewhere)
	require.Contains(t, out, elsewhere+`: key and certificate of server 2 of cluster "orders", good until 20`)
	out = must(t, "cert", "show", elsewhere)
	for _, want := range []string{"certificate: server 2\n", "ECDSA P-256, of the certificate\n", "hosts    zk2.example.com, ::1\n", "(29 days left)"} {
		require.Contains(t, out, want)
	}
	require.NotContains(t, listing(t, dir), "node-2.pem")

	before := listing(t, filepath.Dir(elsewhere))
	must(t, "cert", "node", "--dir", dir, "--id", "2", "--out", elsewhere, "--force")
	require.NotEqual(t, before, listing(t, filepath.Dir(elsewhere)))
}

// peerPort opens the port of a server whose zkd.peerTLSDir is dir.
func peerPort(t *testing.T, id int, dir string, addresses map[raft.ServerID]string) *peer.Transport {
	t.Helper()
	cluster := config.Cluster{ServerID: id, PeerTLSDir: dir}
	secure, err := tlsconf.NewPeer(&cluster, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return openPort(t, id, secure.Config(), addresses)
}

func openPort(t *testing.T, id int, c *tls.Config, addresses map[raft.ServerID]string) *peer.Transport {
	t.Helper()
	tr, err := peer.New(peer.Options{
		ID: raft.ServerID(fmt.Sprintf("%d-x", id)), Cluster: "c", Listen: "127.0.0.1:0", TLS: c,
		Resolve: func(to raft.ServerID) ([]string, error) { return []string{addresses[to]}, nil },
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tr.Close()) })
	tr.Handle(peer.FirstKind, func(s *peer.Stream) {
		if m, err := s.Receive(); err == nil {
			_ = s.Send(m)
		}
	})
	return tr
}

// What the command makes is what servers need, from the first day to the renewal.
func TestServersTalkWithCertificatesOfTheCommand(t *testing.T) {
	dir, foreign := filepath.Join(t.TempDir(), "ca"), filepath.Join(t.TempDir(), "ca")
	for _, d := range []string{dir, foreign} {
		must(t, "cert", "init", "--dir", d)
		for _, id := range []string{"1", "2", "3"} {
			must(t, "cert", "node", "--dir", d, "--id", id)
		}
	}
	one := peerPort(t, 1, dir, nil)
	addresses := map[raft.ServerID]string{"1-x": one.Addr().String(), "3-x": one.Addr().String()}
	say := func(from *peer.Transport, to raft.ServerID) error {
		s, err := from.Open(t.Context(), to, peer.FirstKind)
		if err != nil {
			return err
		}
		defer s.Close()
		require.NoError(t, s.Send([]byte("hello")))
		m, err := s.Receive()
		require.NoError(t, err)
		require.Equal(t, "hello", string(m))
		return nil
	}
	two := peerPort(t, 2, dir, addresses)
	require.NoError(t, say(two, "1-x"))
	require.ErrorContains(t, say(two, "3-x"), "zkd-member-3", "server 1 passes for server 3")

	pair, err := tls.LoadX509KeyPair(config.PeerNodeFile(dir, 3), config.PeerNodeFile(dir, 3))
	require.NoError(t, err)
	pem, err := os.ReadFile(config.PeerCAFile(dir))
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(pem))
	stolen := openPort(t, 2, &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots}, addresses)
	require.ErrorContains(t, say(stolen, "1-x"), "zkd-member-2", "server 3 passes for server 2")
	require.ErrorContains(t, say(peerPort(t, 2, foreign, addresses), "1-x"), "unknown authority")

	must(t, "cert", "node", "--dir", dir, "--id", "2", "--force")
	require.NoError(t, say(peerPort(t, 2, dir, addresses), "1-x"))
}

// A cluster in a network is refused before it starts, and what the refusal says to do works.
func TestRefusedClusterStartsOnceItHasCertificates(t *testing.T) {
	dir, ca := t.TempDir(), filepath.Join(t.TempDir(), "ca")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "myid"), []byte("2\n"), 0o600))
	file := filepath.Join(dir, "zoo.cfg")
	lines := "clientPort=0\ndataDir=" + dir + "\nserver.1=192.0.2.1:2888:3888\nserver.2=192.0.2.2:2888:3888\nserver.3=192.0.2.3:2888:3888\n"
	require.NoError(t, os.WriteFile(file, []byte(lines), 0o600))
	code, out := runCommand(t, "serve", "--config", file)
	require.Equal(t, exitUsage, code)
	require.Contains(t, out, file+":4: server.2: ")
	for _, command := range []string{"zkd cert init --dir DIR", "zkd cert node --dir DIR --id 2"} {
		require.Contains(t, out, `"`+command+`"`)
		must(t, strings.Fields(strings.ReplaceAll(command, "DIR", ca))[1:]...)
	}
	require.Contains(t, out, "zkd.peerTLSDir")
	cfg, _, err := config.Load(config.Sources{File: file, Overrides: []config.Override{{Key: "zkd.peerTLSDir", Value: ca}}})
	require.NoError(t, err)
	secure, err := tlsconf.NewPeer(&cfg.Cluster, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.NotNil(t, secure.Config())
}
