package peer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	kindEcho Kind = FirstKind + iota
	kindSink
	kindNobody
)

// echo answers every message with itself.
func echo(s *Stream) {
	for {
		m, err := s.Receive()
		if err != nil || s.Send(m) != nil {
			return
		}
	}
}

func TestStreamsCarryMessagesBothWays(t *testing.T) {
	onBothNetworks(t, setup{noStart: true}, func(t *testing.T, r *rig) {
		a, b := r.members[0], r.members[1]
		b.t.Handle(kindEcho, echo)
		s, err := a.t.Open(within(t, patience), b.id, kindEcho)
		require.NoError(t, err)
		defer s.Close()
		require.Equal(t, b.id, s.Peer())
		require.Equal(t, b.t.Boot(), s.Boot())
		require.Equal(t, kindEcho, s.Kind())
		for _, n := range []int{0, 1, 100, 100_000, defaultMaxMessageBytes} {
			want := bytes.Repeat([]byte{7}, n)
			require.NoError(t, s.Send(want))
			got, err := s.Receive()
			require.NoError(t, err)
			require.True(t, bytes.Equal(want, got), "%d bytes", n)
		}
		require.ErrorContains(t, s.Send(make([]byte, defaultMaxMessageBytes+1)), "raise Options.MaxMessageBytes")
		require.NoError(t, s.Send([]byte("it goes on")))
		got, err := s.Receive()
		require.NoError(t, err)
		require.Equal(t, "it goes on", string(got))
	})
}

func TestManyMaySendOnAStream(t *testing.T) {
	onBothNetworks(t, setup{noStart: true}, func(t *testing.T, r *rig) {
		a, b := r.members[0], r.members[1]
		got := make(chan map[string]int, 1)
		b.t.Handle(kindSink, func(s *Stream) {
			seen := map[string]int{}
			for range 10 * 200 {
				m, err := s.Receive()
				if err != nil {
					break
				}
				seen[string(m)]++
			}
			got <- seen
		})
		s, err := a.t.Open(within(t, patience), b.id, kindSink)
		require.NoError(t, err)
		defer s.Close()
		var senders sync.WaitGroup
		for i := range 10 {
			senders.Go(func() {
				for k := range 200 {
					if err := s.Send(fmt.Append(nil, i, " ", k)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		senders.Wait()
		seen := <-got
		require.Len(t, seen, 2000)
	})
}

// Who does not read has the sender wait, and neither raft nor other streams.
func TestAFullStreamHoldsUpItsSenderOnly(t *testing.T) {
	inMemory(t, setup{}, func(t *testing.T, r *rig) {
		leader := r.leader()
		m := r.followers(leader)[0]
		read := make(chan struct{})
		total := make(chan int, 1)
		m.t.Handle(kindSink, func(s *Stream) {
			<-read
			n := 0
			for {
				b, err := s.Receive()
				n += len(b)
				if err != nil {
					total <- n
					return
				}
			}
		})
		m.t.Handle(kindEcho, echo)
		full, err := leader.t.Open(t.Context(), m.id, kindSink)
		require.NoError(t, err)
		sent := make(chan int)
		go func() {
			for i := range 100 {
				if err := full.Send(make([]byte, 100_000)); err != nil {
					t.Error(err)
				}
				sent <- i
			}
			full.Close()
			close(sent)
		}()
		last := 0
		for waiting := true; waiting; {
			synctest.Wait()
			select {
			case last = <-sent:
			default:
				waiting = false
			}
		}
		require.Less(t, last, 10, "the sender waits")

		r.await(leader.apply("raft goes on"), r.members...)
		other, err := leader.t.Open(t.Context(), m.id, kindEcho)
		require.NoError(t, err)
		defer other.Close()
		require.NoError(t, other.Send([]byte("so do other streams")))
		_, err = other.Receive()
		require.NoError(t, err)

		close(read)
		for range sent {
		}
		require.Equal(t, 100*100_000, <-total)
	})
}

func TestAStreamThatStallsForTooLongIsOver(t *testing.T) {
	inMemory(t, setup{noStart: true, nodes: 2}, func(t *testing.T, r *rig) {
		a, b := r.members[0], r.members[1]
		release := make(chan struct{})
		b.t.Handle(kindSink, func(*Stream) { <-release })
		s, err := a.t.Open(t.Context(), b.id, kindSink)
		require.NoError(t, err)
		defer s.Close()
		began := time.Now()
		for err == nil {
			err = s.Send(make([]byte, 100_000))
		}
		require.Equal(t, defaultStallTimeout, time.Since(began))
		close(release)
	})
}

func TestStreamsEndInOrderOrBroken(t *testing.T) {
	onBothNetworks(t, setup{noStart: true, nodes: 2}, func(t *testing.T, r *rig) {
		a, b := r.members[0], r.members[1]
		results := make(chan error, 1)
		b.t.Handle(kindSink, func(s *Stream) {
			for {
				if _, err := s.Receive(); err != nil {
					results <- err
					return
				}
			}
		})
		s, err := a.t.Open(within(t, patience), b.id, kindSink)
		require.NoError(t, err)
		require.NoError(t, s.Send([]byte("x")))
		require.NoError(t, s.Close())
		require.Equal(t, io.EOF, <-results)
		require.ErrorIs(t, s.Send([]byte("y")), ErrClosed)
		_, err = s.Receive()
		require.ErrorIs(t, err, ErrClosed)
		require.NoError(t, s.Close())

		_, err = a.t.Open(within(t, patience), b.id, kindSink)
		require.NoError(t, err)
		a.stop()
		err = <-results
		require.Error(t, err)
		require.NotEqual(t, io.EOF, err)
		require.Equal(t, a.id, b.down(t).ID, "a stream that breaks has its process looked after")
	})
}

func TestCloseEndsHandlersAndWaitsForThem(t *testing.T) {
	onBothNetworks(t, setup{noStart: true, nodes: 2}, func(t *testing.T, r *rig) {
		a, b := r.members[0], r.members[1]
		started, ended := make(chan struct{}), make(chan error, 1)
		b.t.Handle(kindSink, func(s *Stream) {
			close(started)
			_, err := s.Receive()
			ended <- err
		})
		s, err := a.t.Open(within(t, patience), b.id, kindSink)
		require.NoError(t, err)
		defer s.Close()
		<-started
		b.stop()
		select {
		case err := <-ended:
			require.Error(t, err)
		default:
			t.Fatal("Close did not wait for the handler")
		}
		_, err = b.t.Open(within(t, patience), a.id, kindEcho)
		require.ErrorIs(t, err, ErrClosed)
	})
}

func TestStreamsAreLimited(t *testing.T) {
	onBothNetworks(t, setup{noStart: true, nodes: 2}, func(t *testing.T, r *rig) {
		a, b := r.members[0], r.members[1]
		b.t.Handle(kindEcho, echo)
		var refusal *RefusedError
		_, err := a.t.Open(within(t, patience), b.id, kindNobody)
		require.True(t, errors.As(err, &refusal))
		require.Equal(t, RefusedKind, refusal.Code)
		require.Equal(t, b.t.Boot(), refusal.Boot)

		var open []*Stream
		for range maxStreams {
			s, err := a.t.Open(within(t, patience), b.id, kindEcho)
			require.NoError(t, err)
			open = append(open, s)
		}
		_, err = a.t.Open(within(t, patience), b.id, kindEcho)
		require.True(t, errors.As(err, &refusal))
		require.Equal(t, RefusedBusy, refusal.Code)
		for _, s := range open {
			require.NoError(t, s.Send([]byte("x")))
			_, err := s.Receive()
			require.NoError(t, err)
			s.Close()
		}
	})
}

func TestTheKindsOfThePackageAreItsOwn(t *testing.T) {
	onBothNetworks(t, setup{noStart: true, nodes: 2}, func(t *testing.T, r *rig) {
		require.Panics(t, func() { r.members[0].t.Handle(KindRaft, echo) })
		require.Panics(t, func() { _, _ = r.members[0].t.Open(t.Context(), r.members[1].id, KindControl) })
	})
}
