package peer

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/vfs"
)

func snapshotRequest(s *script, size int) *raft.InstallSnapshotRequest {
	return &raft.InstallSnapshotRequest{
		RPCHeader: header(3, s.all[0].idBytes), SnapshotVersion: 1, Term: 4, LastLogIndex: 7, LastLogTerm: 3,
		Configuration: aConfiguration, ConfigurationIndex: 2, Size: int64(size),
	}
}

type installed struct {
	resp raft.InstallSnapshotResponse
	err  error
}

// install sends a snapshot from member 1 to member 2.
func (s *script) install(r *raft.InstallSnapshotRequest, data io.Reader) <-chan installed {
	done := make(chan installed, 1)
	go func() {
		var i installed
		i.err = s.all[0].InstallSnapshot(serverID(2), "", r, &i.resp, data)
		done <- i
	}()
	return done
}

func someBytes(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(b)
	return b
}

func TestASnapshotArrivesAsItWas(t *testing.T) {
	for _, spool := range []func(int64) (Spool, error){nil, SpoolMemory} {
		play(t, 2, func(o *Options) { o.Spool = spool }, func(t *testing.T, s *script) {
			for _, n := range []int{0, 1, chunkBytes, chunkBytes + 1, 5*chunkBytes + 17} {
				want := someBytes(n)
				request := snapshotRequest(s, n)
				done := s.install(request, bytes.NewReader(append(bytes.Clone(want), "what follows is not read"...)))
				rpc := s.arrives(2)
				require.Equal(t, request, rpc.Command)
				got, err := io.ReadAll(rpc.Reader)
				require.NoError(t, err)
				require.True(t, bytes.Equal(want, got))
				rpc.Respond(&raft.InstallSnapshotResponse{Term: 4, Success: true}, nil)
				i := <-done
				require.NoError(t, i.err)
				require.Equal(t, raft.InstallSnapshotResponse{Term: 4, Success: true}, i.resp)
			}
		})
	}
}

func TestRaftsErrorComesBack(t *testing.T) {
	play(t, 2, nil, func(t *testing.T, s *script) {
		done := s.install(snapshotRequest(s, 10), bytes.NewReader(someBytes(10)))
		rpc := s.arrives(2)
		_, _ = io.Copy(io.Discard, rpc.Reader)
		rpc.Respond(nil, errors.New("the disk is full"))
		require.ErrorContains(t, (<-done).err, "the disk is full")
	})
}

// Installing may take longer than any timeout of the network: the receiver says that it works.
func TestASlowInstallationIsWaitedFor(t *testing.T) {
	play(t, 2, func(o *Options) { o.Spool = SpoolMemory }, func(t *testing.T, s *script) {
		done := s.install(snapshotRequest(s, 10), bytes.NewReader(someBytes(10)))
		rpc := s.arrives(2)
		time.Sleep(5 * time.Minute) // virtual
		rpc.Respond(&raft.InstallSnapshotResponse{Term: 4, Success: true}, nil)
		require.True(t, (<-done).resp.Success)

		began := time.Now()
		done = s.install(snapshotRequest(s, 10), bytes.NewReader(someBytes(10)))
		rpc = s.arrives(2)
		require.ErrorIs(t, (<-done).err, errNoAnswer)
		require.Equal(t, defaultInstallTimeout, time.Since(began))
		rpc.Respond(&raft.InstallSnapshotResponse{}, nil)
	})
}

// What is not exactly the snapshot that was announced never reaches raft as one.
func TestADamagedSnapshotIsNotInstalled(t *testing.T) {
	data := someBytes(1000)
	chunk := func(b []byte) []byte {
		return appendFrame(nil, frameChunk, func(f []byte) []byte { return append(f, b...) })
	}
	end := func(size uint64, sum uint32) []byte {
		return appendFrame(nil, frameEnd, func(f []byte) []byte { return appendEnd(f, snapshotEnd{size, sum}) })
	}
	sum := frameSum(data, nil)
	for _, test := range []struct {
		name string
		body []byte
	}{
		{"too short", append(chunk(data[:999]), end(1000, sum)...)},
		{"too long", append(chunk(append(bytes.Clone(data), 0)), end(1000, sum)...)},
		{"another size at its end", append(chunk(data), end(999, sum)...)},
		{"another checksum", append(chunk(data), end(1000, sum+1)...)},
		{"without an end", chunk(data)},
		{"a frame that does not belong", append(chunk(data), orders()...)},
	} {
		for _, spooled := range []bool{true, false} {
			t.Run(test.name, func(t *testing.T) {
				play(t, 2, func(o *Options) {
					if spooled {
						o.Spool = SpoolMemory
					}
				}, func(t *testing.T, s *script) {
					nc, err := s.net.Host("1").Dial(t.Context(), "2:1")
					require.NoError(t, err)
					first := helloBytes(func(h *hello) { h.kind, h.from, h.to = KindSnapshot, serverID(1), serverID(2) })
					_, err = nc.Write(first)
					require.NoError(t, err)
					f, _, err := readPlain(nc, acceptHelloAnswer)
					require.NoError(t, err)
					require.Equal(t, frameWelcome, f)
					head := appendFrame(nil, frameInstall, func(b []byte) []byte { return appendInstall(b, snapshotRequest(s, 1000)) })
					_, err = nc.Write(append(head, test.body...))
					require.NoError(t, err)
					if !spooled {
						rpc := s.arrives(2)
						if test.name == "without an end" {
							nc.Close()
						}
						_, err := io.ReadAll(rpc.Reader)
						require.Error(t, err, "raft cancels its sink then")
						_, err = rpc.Reader.Read(make([]byte, 1))
						require.Error(t, err)
						require.NotEqual(t, io.EOF, err)
						rpc.Respond(&raft.InstallSnapshotResponse{}, err)
					}
					nc.Close()
					time.Sleep(time.Minute) // virtual
					s.nothing(2, test.name)
				})
			})
		}
	}
}

func TestASnapshotThatCannotBeReadIsNotSent(t *testing.T) {
	play(t, 2, func(o *Options) { o.Spool = SpoolMemory }, func(t *testing.T, s *script) {
		i := <-s.install(snapshotRequest(s, 1000), bytes.NewReader(someBytes(999)))
		require.ErrorIs(t, i.err, io.ErrUnexpectedEOF)
		s.nothing(2, "it is not complete")
		bad := snapshotRequest(s, 10)
		bad.Size = -1
		require.Error(t, (<-s.install(bad, nil)).err)
	})
}

type brokenSpool struct {
	failWrite, failRead error
	closed              *int
}

func (b *brokenSpool) Write(p []byte) (int, error) { return len(p), b.failWrite }
func (b *brokenSpool) Reader() (io.Reader, error)  { return nil, b.failRead }
func (b *brokenSpool) Close() error                { *b.closed++; return nil }

// The leader's log should say why its snapshot was not taken.
func TestASnapshotThatIsNotTakenSaysWhy(t *testing.T) {
	full := errors.New("no space left on device")
	closed := 0
	for _, test := range []struct {
		name    string
		options func(o *Options)
		want    string
	}{
		{"too large", func(o *Options) { o.MaxSnapshotBytes = 1 << 20 }, errTooLarge.Error()},
		{"no spool", func(o *Options) { o.Spool = func(int64) (Spool, error) { return nil, full } }, full.Error()},
		{"a spool that is full", func(o *Options) {
			o.Spool = func(int64) (Spool, error) { return &brokenSpool{failWrite: full, closed: &closed}, nil }
		}, full.Error()},
		{"a spool that cannot be read", func(o *Options) {
			o.Spool = func(int64) (Spool, error) { return &brokenSpool{failRead: full, closed: &closed}, nil }
		}, full.Error()},
	} {
		t.Run(test.name, func(t *testing.T) {
			play(t, 2, test.options, func(t *testing.T, s *script) {
				n := 4 << 20
				i := <-s.install(snapshotRequest(s, n), bytes.NewReader(someBytes(n)))
				require.ErrorContains(t, i.err, test.want)
				s.nothing(2, "it was not taken")
			})
		})
	}
	require.Equal(t, 2, closed)
}

// Two snapshots of one leader never compete: the older one could come second.
func TestOneSnapshotAtATimeOfEachMember(t *testing.T) {
	play(t, 4, func(o *Options) { o.Spool = SpoolMemory }, func(t *testing.T, s *script) {
		first := s.install(snapshotRequest(s, 10), bytes.NewReader(someBytes(10)))
		rpc := s.arrives(2)
		second := <-s.install(snapshotRequest(s, 10), bytes.NewReader(someBytes(10)))
		var refusal *RefusedError
		require.True(t, errors.As(second.err, &refusal))
		require.Equal(t, RefusedBusy, refusal.Code)
		rpc.Respond(&raft.InstallSnapshotResponse{Success: true}, nil)
		require.True(t, (<-first).resp.Success)

		third := s.install(snapshotRequest(s, 10), bytes.NewReader(someBytes(10)))
		rpc = s.arrives(2)
		rpc.Respond(&raft.InstallSnapshotResponse{Success: true}, nil)
		require.True(t, (<-third).resp.Success)
	})
}

// A snapshot whose sender is gone is not handed to raft any more.
func TestASnapshotOfALostSenderIsDropped(t *testing.T) {
	play(t, 2, func(o *Options) { o.Spool = SpoolMemory }, func(t *testing.T, s *script) {
		done := s.install(snapshotRequest(s, 10), bytes.NewReader(someBytes(10)))
		synctest.Wait() // raft at the other end is busy
		s.net.Cut("1", "2")
		require.Error(t, (<-done).err)
		time.Sleep(2 * workingInterval) // virtual
		s.nothing(2, "its sender is gone")
	})
}

func TestSpoolFilesLeaveNothing(t *testing.T) {
	dir := t.TempDir()
	sp, err := SpoolDir(vfs.OS, dir)(10)
	require.NoError(t, err)
	_, err = sp.Write([]byte("0123456789"))
	require.NoError(t, err)
	r, err := sp.Reader()
	require.NoError(t, err)
	b, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, "0123456789", string(b))
	require.NoError(t, sp.Close())
	require.Empty(t, files(t, dir))
	_, err = SpoolDir(vfs.OS, dir+"/missing")(10)
	require.Error(t, err)
}
