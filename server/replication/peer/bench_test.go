package peer

import (
	"context"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// follow plays a follower's raft that does nothing but accept.
func follow(b *testing.B, consumer <-chan raft.RPC) {
	b.Helper()
	var wg sync.WaitGroup
	stop := make(chan struct{})
	b.Cleanup(func() { close(stop); wg.Wait() })
	wg.Go(func() {
		for {
			select {
			case rpc := <-consumer:
				r, ok := rpc.Command.(*raft.AppendEntriesRequest)
				if !ok {
					rpc.Respond(&raft.TimeoutNowResponse{}, nil)
					continue
				}
				rpc.Respond(&raft.AppendEntriesResponse{
					RPCHeader: raft.RPCHeader{ProtocolVersion: 3}, Term: r.Term, Success: true,
					LastLog: r.PrevLogEntry + uint64(len(r.Entries)),
				}, nil)
			case <-stop:
				return
			}
		}
	})
}

// benchPair returns the transports of a leader and a follower over loopback TCP.
func benchPair(b *testing.B, tls bool) (leader raft.Transport, h raft.RPCHeader) {
	ca := newAuthority(b)
	r := newRig(b, setup{noStart: true, nodes: 2, options: func(m *member, o *Options) {
		if tls {
			o.TLS = ca.config(ca.sign(b, memberName(m.id), nil))
		}
	}}, nil)
	follow(b, r.members[1].t.Consumer())
	return r.members[0].t, header(3, r.members[0].t.idBytes)
}

// libraryPair is the same with the transport of the library, to compare with.
func libraryPair(b *testing.B) (leader raft.Transport, h raft.RPCHeader, target raft.ServerAddress) {
	open := func() *raft.NetworkTransport {
		t, err := raft.NewTCPTransport("127.0.0.1:0", nil, 3, 10*time.Second, io.Discard)
		require.NoError(b, err)
		b.Cleanup(func() { t.Close() })
		return t
	}
	one, two := open(), open()
	b.Cleanup(func() { one.CloseStreams(); two.CloseStreams() })
	follow(b, two.Consumer())
	return one, header(3, []byte(one.LocalAddr())), two.LocalAddr()
}

func BenchmarkAppendEntries(b *testing.B) {
	run := func(b *testing.B, t raft.Transport, h raft.RPCHeader, target raft.ServerAddress) {
		args := &raft.AppendEntriesRequest{RPCHeader: h, Term: 1, PrevLogEntry: 9, PrevLogTerm: 1, Entries: entries(10, 1)}
		args.Entries[0].Data = make([]byte, 200)
		var resp raft.AppendEntriesResponse
		b.ReportAllocs()
		for b.Loop() {
			if err := t.AppendEntries(serverID(2), target, args, &resp); err != nil || !resp.Success {
				b.Fatal(err, resp)
			}
		}
	}
	b.Run("tcp", func(b *testing.B) { t, h := benchPair(b, false); run(b, t, h, "") })
	b.Run("tls", func(b *testing.B) { t, h := benchPair(b, true); run(b, t, h, "") })
	b.Run("library", func(b *testing.B) { t, h, target := libraryPair(b); run(b, t, h, target) })
}

// BenchmarkPipeline sends entries of 1 KiB, so many to a request.
func BenchmarkPipeline(b *testing.B) {
	run := func(b *testing.B, t raft.Transport, h raft.RPCHeader, target raft.ServerAddress, perRequest int) {
		l, err := t.AppendEntriesPipeline(serverID(2), target)
		require.NoError(b, err)
		defer l.Close()
		args := &raft.AppendEntriesRequest{RPCHeader: h, Term: 1, PrevLogEntry: 9, PrevLogTerm: 1}
		for i := range perRequest {
			e := entries(uint64(10+i), 1)[0]
			e.Data = make([]byte, 1<<10)
			args.Entries = append(args.Entries, e)
		}
		var done sync.WaitGroup
		sent := make(chan struct{}, 1<<20)
		done.Go(func() {
			for range sent {
				if f := <-l.Consumer(); f.Error() != nil || !f.Response().Success {
					b.Error(f.Error())
				}
			}
		})
		b.SetBytes(int64(perRequest) << 10)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := l.AppendEntries(args, new(raft.AppendEntriesResponse)); err != nil {
				b.Fatal(err)
			}
			sent <- struct{}{}
		}
		close(sent)
		done.Wait()
	}
	for name, n := range map[string]int{"1x1KiB": 1, "64x1KiB": 64} {
		b.Run(name+"/tcp", func(b *testing.B) { t, h := benchPair(b, false); run(b, t, h, "", n) })
		b.Run(name+"/tls", func(b *testing.B) { t, h := benchPair(b, true); run(b, t, h, "", n) })
		b.Run(name+"/library", func(b *testing.B) { t, h, target := libraryPair(b); run(b, t, h, target, n) })
	}
}

// BenchmarkWriteThroughFollower is one write after the other, until a follower has applied
// it: three raft nodes with logs in memory over loopback TCP.
func BenchmarkWriteThroughFollower(b *testing.B) {
	run := func(b *testing.B, s setup) {
		r := newRig(b, s, nil)
		leader := r.leader()
		follower := r.followers(leader)[0]
		b.ReportAllocs()
		for b.Loop() {
			r.await(leader.apply("x"), follower)
		}
	}
	b.Run("courier", func(b *testing.B) { run(b, setup{}) })
	b.Run("without", func(b *testing.B) { run(b, setup{noAdvance: true}) })
}

func BenchmarkDecodeAppend(b *testing.B) {
	p := &appendPiece{version: 3, term: 1, entries: entries(1, make([]uint64, 64)...)}
	for _, e := range p.entries {
		e.Term, e.Data = 1, make([]byte, 1<<10)
	}
	body := appendAppend(nil, 1, p)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := decodeAppend(body, from); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStream(b *testing.B) {
	r := newRig(b, setup{noStart: true, nodes: 2}, nil)
	r.members[1].t.Handle(kindEcho, echo)
	s, err := r.members[0].t.Open(context.Background(), r.members[1].id, kindEcho)
	require.NoError(b, err)
	defer s.Close()
	message := make([]byte, 200)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Send(message); err != nil {
			b.Fatal(err)
		}
		if _, err := s.Receive(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWritesAtOnce is 64 writers at the leader: what the courier costs under load.
func BenchmarkWritesAtOnce(b *testing.B) {
	run := func(b *testing.B, s setup) {
		r := newRig(b, s, nil)
		leader := r.leader()
		var writers sync.WaitGroup
		work := make(chan struct{})
		for range 64 {
			writers.Go(func() {
				for range work {
					if err := leader.r().Apply([]byte("x"), patience).Error(); err != nil {
						b.Error(err)
					}
				}
			})
		}
		b.ReportAllocs()
		for b.Loop() {
			work <- struct{}{}
		}
		close(work)
		writers.Wait()
	}
	b.Run("courier", func(b *testing.B) { run(b, setup{}) })
	b.Run("without", func(b *testing.B) { run(b, setup{noAdvance: true}) })
}
